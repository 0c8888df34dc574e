package makers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// probe asks both programs for something, and waits until it is done. By then they have seen all that was written before.
func (c *cell) probe() {
	c.Helper()
	require.NoError(c, programs.probe())
}

// probeScheduler asks only the scheduler for something: the controller does not adopt a system-critical pod.
func (c *cell) probeScheduler() {
	c.Helper()
	require.NoError(c, schedulers.probe())
}

// programs and schedulers are the probes of all cells.
var (
	programs = prober{run: func(ctx context.Context, name string) error {
		groups := env.Muster.SchedulingV1beta1().PodGroups(probes)
		group := mustertesting.MakePodGroup(name).Namespace(probes).MinMember(1).Queue(probes).Obj()
		if _, err := groups.Create(ctx, group, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the PodGroup of a probe: %w", err)
		}
		err := runPod(ctx, mustertesting.MakePod(name).Group(name).SchedulerName("muster").Requests("cpu", "1").Obj())
		return errors.Join(err, groups.Delete(ctx, name, metav1.DeleteOptions{}))
	}}
	schedulers = prober{run: func(ctx context.Context, name string) error {
		return runPod(ctx, mustertesting.MakePod(name).PriorityClass("system-cluster-critical").SchedulerName("muster").Obj())
	}}
)

// prober runs one probe at a time. Cells that ask meanwhile share the next one: it begins after they have asked.
type prober struct {
	run func(ctx context.Context, name string) error
	// running is locked by the cell that runs a probe.
	running sync.Mutex
	// mu guards next, the probe that has not begun. It is nil if no cell waits for one.
	mu   sync.Mutex
	next *probeRun
}

// probeRun is one probe. Its error is known when it is done.
type probeRun struct {
	done chan struct{}
	err  error
}

// probe returns when a probe has ended that began after the call.
func (p *prober) probe() error {
	p.mu.Lock()
	run, others := p.next, p.next != nil
	if !others {
		run = &probeRun{done: make(chan struct{})}
		p.next = run
	}
	p.mu.Unlock()
	if others {
		<-run.done
		return run.err
	}
	p.running.Lock()
	defer p.running.Unlock()
	p.mu.Lock()
	p.next = nil
	p.mu.Unlock()
	// A probe is for several cells, so it ends with none of them.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	run.err = p.run(ctx, "probe-"+fmt.Sprint(cells.Add(1)))
	close(run.done)
	return run.err
}

// runPod creates a pod in the namespace of probes, waits until it is bound and deletes it.
func runPod(ctx context.Context, pod *corev1.Pod) error {
	pods := env.Kube.CoreV1().Pods(probes)
	pod.Namespace = probes
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a probe: %w", err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && isBound(now), err
	})
	if err != nil {
		return fmt.Errorf("waiting until probe %s is bound: %w", pod.Name, err)
	}
	return pods.Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
}
