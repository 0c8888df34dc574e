package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
func costs(ctx context.Context, cluster *localcluster.Cluster) (map[string]cost, error) {
	all := map[string]cost{}
	for _, name := range measured {
		if !runs(cluster, name) {
			continue
		}
		page, err := cluster.Get(ctx, name, "/metrics")
		if err != nil {
			return nil, fmt.Errorf("reading what %s has spent: %w", name, err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		metrics, err := parser.TextToMetricFamilies(strings.NewReader(string(page)))
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", name, err)
		}
		all[name] = cost{
			CPU:    sum(metrics["process_cpu_seconds_total"], nil),
			Memory: sum(metrics["process_resident_memory_bytes"], nil),
			Writes: sum(metrics["rest_client_requests_total"], isWrite),
		}
	}
	return all, nil
}

func runs(cluster *localcluster.Cluster, component string) bool {
	options := cluster.Options()
	for _, without := range options.Without {
		if without == component {
			return false
		}
	}
	switch component {
	case localcluster.KubeScheduler, localcluster.MusterScheduler:
		return options.Scheduler == component
	}
	return true
}

// isWrite says whether a counter of requests counts those that change something in the cluster.
func isWrite(metric *dto.Metric) bool {
	for _, label := range metric.Label {
		if label.GetName() == "method" && label.GetValue() == "GET" {
			return false
		}
	}
	return true
}

func sum(family *dto.MetricFamily, which func(*dto.Metric) bool) float64 {
	total := 0.0
	for _, metric := range family.GetMetric() {
		if which == nil || which(metric) {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total
}

// spent is the difference of two readings; of the memory, the later one.
func spent(before, after map[string]cost) map[string]cost {
	diff := map[string]cost{}
	for name, now := range after {
		then := before[name]
		diff[name] = cost{CPU: now.CPU - then.CPU, Writes: now.Writes - then.Writes, Memory: now.Memory}
	}
	return diff
}

// profile writes CPU profiles of the components, and the metrics of all components at the end of it, into
// a folder, from now for a time, in the background. The function that it returns waits for them.
func profile(ctx context.Context, cluster *localcluster.Cluster, dir, name string, length time.Duration) (wait func() error) {
	save := func(component, page, extension string) error {
		data, err := cluster.Get(ctx, component, page)
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
		if runs(cluster, component) {
			all.Go(func() error {
				return save(component, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(length.Seconds())), ".pprof")
			})
		}
	}
	return func() error {
		if err := all.Wait(); err != nil {
			return err
		}
		for _, component := range measured {
			if runs(cluster, component) {
				if err := save(component, "/metrics", ".metrics"); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
