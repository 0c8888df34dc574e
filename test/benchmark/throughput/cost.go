package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// cost is what a component has spent.
type cost struct {
	// CPU in seconds.
	CPU float64 `json:"cpuSeconds"`
	// Writes to the API: requests that are no reads.
	Writes float64 `json:"apiWrites"`
	// Memory is the resident set, in bytes.
	Memory float64 `json:"residentBytes"`
}

// measured are the components whose cost is of interest.
var measured = []string{
	localcluster.Etcd, localcluster.KubeAPIServer, localcluster.KubeControllerManager,
	localcluster.KubeScheduler, localcluster.MusterScheduler, localcluster.MusterController,
}

// costs reads from each component that runs what it has spent since its start.
func (b *bench) costs(ctx context.Context) (map[string]cost, error) {
	all := map[string]cost{}
	for _, name := range measured {
		if !b.runs(name) {
			continue
		}
		metrics, err := b.Metrics(ctx, name)
		if err != nil {
			return nil, err
		}
		all[name] = cost{CPU: metrics.CPU(), Memory: metrics.Memory(), Writes: metrics.Writes()}
	}
	return all, nil
}

func (b *bench) runs(component string) bool {
	options := b.Options()
	switch component {
	case localcluster.KubeScheduler, localcluster.MusterScheduler:
		return options.Scheduler == component && !slices.Contains(options.Without, component)
	}
	return !slices.Contains(options.Without, component)
}

// spent is the difference of two readings; memory is that of the later reading.
func spent(before, after map[string]cost) map[string]cost {
	diff := map[string]cost{}
	for name, now := range after {
		then := before[name]
		diff[name] = cost{CPU: now.CPU - then.CPU, Writes: now.Writes - then.Writes, Memory: now.Memory}
	}
	return diff
}

// profile writes CPU profiles of the components into a folder, in the background, from now for a time. At the end it writes profiles of
// their heaps and the metrics of all components. The function that it returns waits for them.
func (b *bench) profile(ctx context.Context, dir, name string, length time.Duration) (wait func() error) {
	save := func(component, page, extension string) error {
		data, err := b.Get(ctx, component, page)
		if err != nil {
			return fmt.Errorf("taking a profile: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+component+extension), data, 0o644); err != nil {
			return fmt.Errorf("writing a profile: %w", err)
		}
		return nil
	}
	var all errgroup.Group
	for _, component := range measured[1:] { // etcd serves none
		if b.runs(component) {
			all.Go(func() error {
				err := save(component, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(length.Seconds())), ".pprof")
				return errors.Join(err, save(component, "/debug/pprof/heap", ".heap.pprof"))
			})
		}
	}
	return func() error {
		if err := all.Wait(); err != nil {
			return err
		}
		for _, component := range measured {
			if b.runs(component) {
				if err := save(component, "/metrics", ".metrics"); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
