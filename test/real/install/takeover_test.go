//go:build real

package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
)

const (
	// takeovers is how often the pod of a leader is deleted, of the controller and of the scheduler in turn.
	takeovers = 20
	// gangsPerTakeover come at the time of each: before the deletion, before the other replica leads, and one after it.
	gangsPerTakeover = 10
	// takeoverLimit is how long it may take until the other replica leads and works. The median counts: on a machine that stalls, one
	// takeover may last longer.
	takeoverLimit = 20 * time.Second
)

// TestTakeover deletes the leader's pod again and again while 200 Jobs come and go. Eight Jobs have room at a time. No gang stays in part, no
// Job is lost, and no pod runs twice.
func TestTakeover(t *testing.T) {
	s, k := begin(t)
	require.NoError(t, install(t.Context(), k, beside, deploy))
	var jobs []string
	come := func(n int) {
		for range n {
			jobs = append(jobs, create(s, gang(fmt.Sprintf("gang-%d", len(jobs))), simulated))
		}
	}
	held, worked := map[string][]time.Duration{}, map[string][]time.Duration{}
	for n := range takeovers {
		component := installation.Components[n%len(installation.Components)]
		leader := awaitLeader(s, component)
		come(gangsPerTakeover / 2)
		began := time.Now()
		require.NoError(t, s.Kube.CoreV1().Pods(leader.Namespace).Delete(t.Context(), leader.Name, uidOf(leader)))
		come(gangsPerTakeover - gangsPerTakeover/2 - 1)
		leads := awaitTakeover(s, component, leader.Name)
		come(1) // work for the new leader, if the former one has done all else
		held[component] = append(held[component], leads.Sub(began))
		worked[component] = append(worked[component], awaitWork(s, component, leads).Sub(began))
	}
	for _, component := range installation.Components {
		t.Logf("muster-%s: the other replica held the lease %s after the deletion, and worked %s after it",
			component, figures(held[component]), figures(worked[component]))
		assert.Less(t, median(worked[component]), takeoverLimit, component)
	}

	s.Within(timeout, "all Jobs have completed", func() bool { return len(uncompleted(s, jobs)) == 0 }, func() any { return uncompleted(s, jobs) })
	for _, name := range jobs {
		status := s.Job(s.Name(name)).Status
		assert.EqualValues(t, 4, status.Succeeded, name)
		assert.Zero(t, status.RetryCount, name)
		assert.Len(t, s.Log.PodsOf(s.Name(name)), 4, "pods of %s", name)
	}
	incarnations := s.WholeGangs(s.Namespace, takeoverLimit)
	assert.Len(t, incarnations, takeovers*gangsPerTakeover)
	t.Logf("the slowest gang had its minimum bound %s after its first pod was bound", slowest(incarnations))
}

// awaitLeader waits until both replicas of a component are ready and one of them leads, and returns its pod.
func awaitLeader(s *harness.Story, component string) *corev1.Pod {
	s.T.Helper()
	var leader *corev1.Pod
	eventually(s, timeout, "two replicas of "+component+" are ready, and one leads", func() (bool, error) {
		pods, err := replicas(s, component)
		if err != nil {
			return false, err
		}
		name, _, err := holder(s, component)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
		if i < 0 || len(pods) != 2 || !isReady(&pods[0]) || !isReady(&pods[1]) {
			return false, fmt.Errorf("%d pods, led by %q", len(pods), name)
		}
		leader = &pods[i]
		return true, nil
	})
	return leader
}

// awaitTakeover waits until another pod holds the lease, and returns when it got it.
func awaitTakeover(s *harness.Story, component, former string) time.Time {
	s.T.Helper()
	var acquired time.Time
	eventually(s, timeout, "another replica of "+component+" leads", func() (bool, error) {
		name, since, err := holder(s, component)
		acquired = since
		return name != "" && name != former, err
	})
	return acquired
}

// awaitWork waits for the first thing that a new leader does: the scheduler binds a pod, the controller creates one.
func awaitWork(s *harness.Story, component string, leads time.Time) time.Time {
	s.T.Helper()
	moment := func(p watchlog.Pod) time.Time { return p.Created }
	if component == "scheduler" {
		moment = func(p watchlog.Pod) time.Time { return p.Bound }
	}
	var first time.Time
	s.Within(timeout, "the new leader of "+component+" works", func() bool {
		for _, pod := range s.Log.Pods(s.In(func(p watchlog.Pod) bool { return moment(p).After(leads) })) {
			if first.IsZero() || moment(pod).Before(first) {
				first = moment(pod)
			}
		}
		return !first.IsZero()
	}, func() any { return "nothing" })
	return first
}

// holder is the pod that holds the lease of a component, and since when; empty if none does.
func holder(s *harness.Story, component string) (pod string, since time.Time, err error) {
	lease, err := s.Kube.CoordinationV1().Leases(localcluster.SystemNamespace).Get(s.Ctx, "muster-"+component, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || lease.Spec.AcquireTime == nil {
		return "", since, err
	}
	pod, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod, lease.Spec.AcquireTime.Time, nil
}

func uncompleted(s *harness.Story, jobs []string) []string {
	var found []string
	for _, name := range jobs {
		if state := s.Log.Job(s.Name(name)); state.Phase != batchv1alpha1.Completed {
			found = append(found, fmt.Sprintf("%s: %s", name, state))
		}
	}
	return found
}

func slowest(all []watchlog.Incarnation) time.Duration {
	var most time.Duration
	for _, incarnation := range all {
		if spread, reached := incarnation.Spread(); reached {
			most = max(most, spread)
		}
	}
	return most.Round(time.Millisecond)
}

// figures are the median and the maximum.
func figures(all []time.Duration) string {
	return fmt.Sprintf("%s (median; at most %s)", median(all).Round(time.Millisecond), slices.Max(all).Round(time.Millisecond))
}

func median(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }
