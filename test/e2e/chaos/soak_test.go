//go:build soak

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// Settings of a soak, from the environment.
const (
	soakForVariable  = "MUSTER_SOAK_FOR"   // how long Jobs come, as a Go duration
	soakRateVariable = "MUSTER_SOAK_RATE"  // how many Jobs come in a minute
	soakKillVariable = "MUSTER_SOAK_EVERY" // how often each program and the API server are killed, as a Go duration
)

// soak lets Jobs come at a steady rate and removes each one once it has come to its end.
type soak struct {
	*workload
	t       *testing.T
	created int
	ended   int
}

// TestSoak creates Jobs of all fates for an hour. Meanwhile both programs and the API server are killed again and again. For the last
// quarter nothing is killed. Each Job comes to its end, and then no object, charge, memory or goroutine of it is left.
func TestSoak(t *testing.T) {
	duration := setting(t, soakForVariable, time.Hour, time.ParseDuration)
	rate := setting(t, soakRateVariable, 200, strconv.Atoi)
	every := setting(t, soakKillVariable, 2*time.Minute, time.ParseDuration)
	story := harness.New(t)
	story.AddNodes(nodes, "cpu", "64", "pods", "250")
	s := &soak{workload: &workload{story: story}, t: t}
	s.invent(int(duration.Minutes() * float64(rate)))

	// A user that waits for a Job that never ends is told so by the deadline.
	ctx, stop := context.WithTimeout(t.Context(), duration+calmTimeout)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.live(ctx, duration)
	}()
	killer := &killer{t: t, cluster: harness.Shared(), random: rand.New(rand.NewPCG(1, 1)), killed: map[string]int{}}
	go killer.wakeKubelets(ctx, story.Namespace)
	killer.runEvery(duration*3/4, every)
	settled := time.NewTimer(every) // the programs that were killed last are among Jobs again
	<-settled.C
	before := s.measure()
	<-done
	t.Logf("%d Jobs came, %d came to their end", s.created, s.ended)
	require.Equal(t, len(s.jobs), s.ended, "Jobs that came to their end; the others: %v", s.left())
	s.verifyNothingIsLeft(t)
	verifyNoCharge(t, story)
	s.compare(before, s.measure())
}

// live creates the Jobs and runs their users' actions. It checks ended Jobs, until all have ended or the context ends.
func (s *soak) live(ctx context.Context, spread time.Duration) {
	began := time.Now()
	var here []*member
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		due := min(len(s.jobs), 1+int(int64(len(s.jobs))*int64(time.Since(began))/int64(spread)))
		for s.created < due && s.create(ctx, s.jobs[s.created]) {
			here = append(here, s.jobs[s.created])
			s.created++
		}
		var still []*member
		for _, m := range here {
			if len(m.steps) > 0 && (m.begun || s.isReached(m, m.steps[0])) && s.take(ctx, m, m.steps[0]) {
				m.steps, m.begun = m.steps[1:], false
			}
			if len(m.steps) > 0 || !s.remove(ctx, m) {
				still = append(still, m)
			}
		}
		here = still
		return s.ended == len(s.jobs), nil
	})
}

// remove looks at a Job that has come to its end, and deletes it. It returns false if that is still to be done.
func (s *soak) remove(ctx context.Context, m *member) bool {
	if state := s.story.Log.Job(s.story.Name(m.name)); state.Phase != m.fate.phase || state.Terminating > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	jobs := s.story.Muster.BatchV1alpha1().Jobs(s.story.Namespace)
	job, err := jobs.Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // deleted, and the answer was lost
		s.ended++
		return true
	}
	if err != nil || job.DeletionTimestamp != nil {
		return false
	}
	pods, err := s.story.Kube.CoreV1().Pods(s.story.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=" + m.name})
	if err != nil {
		return false
	}
	s.verifyMember(s.t, m, &job.Status, pods.Items)
	background := metav1.DeletePropagationBackground
	if err := jobs.Delete(ctx, m.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return false
	}
	s.ended++
	return true
}

// left names the Jobs that are still there, with what they do.
func (s *soak) left() []string {
	var found []string
	for _, m := range s.jobs {
		if name := s.story.Name(m.name); !s.story.Log.JobGone(name) {
			found = append(found, fmt.Sprintf("%s: %s", m.name, s.story.Log.Job(name)))
		}
	}
	return found
}

// runEvery kills both programs and the API server once in each interval, one after the other, for that long.
func (k *killer) runEvery(duration, every time.Duration) {
	k.t.Helper()
	parts := []string{localcluster.MusterController, localcluster.MusterScheduler, localcluster.KubeAPIServer}
	ticker := time.NewTicker(every / time.Duration(len(parts)))
	defer ticker.Stop()
	for began, n := time.Now(), 0; time.Since(began) < duration; n++ {
		<-ticker.C
		part := parts[n%len(parts)]
		k.replace(part)
		k.killed[part]++
		if part == localcluster.KubeAPIServer {
			k.replaceKubelets()
		}
	}
	k.t.Logf("killed %s", k)
}

// footprint is what a program takes.
type footprint struct {
	goroutines, heap float64 // the heap after a collection, in bytes
}

// measure takes the footprint of both programs.
func (s *soak) measure() map[string]footprint {
	s.t.Helper()
	prints := map[string]footprint{}
	for _, program := range []string{localcluster.MusterScheduler, localcluster.MusterController} {
		_, err := s.story.Get(s.t.Context(), program, "/debug/pprof/heap?gc=1")
		require.NoError(s.t, err)
		page, err := s.story.Get(s.t.Context(), program, "/metrics")
		require.NoError(s.t, err)
		prints[program] = footprint{metric(s.t, page, "go_goroutines"), metric(s.t, page, "go_memstats_heap_alloc_bytes")}
		s.t.Logf("%s: %.0f goroutines, %.1f MiB of heap, %.1f MiB in all", program, prints[program].goroutines,
			prints[program].heap/(1<<20), metric(s.t, page, "process_resident_memory_bytes")/(1<<20))
	}
	return prints
}

// compare requires that a program at rest takes no more than it did among Jobs.
func (s *soak) compare(before, after map[string]footprint) {
	s.t.Helper()
	for program, print := range after {
		assert.LessOrEqual(s.t, print.goroutines, 1.2*before[program].goroutines+20, "goroutines of %s", program)
		assert.LessOrEqual(s.t, print.heap, 1.5*before[program].heap+16<<20, "heap of %s", program)
	}
}
