package podgroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// member is a member of PodGroup g in a phase. It has a node unless it is Pending.
func member(name string, phase corev1.PodPhase) *corev1.Pod {
	pod := mustertesting.MakePod(name).UID(name).Group("g").Requests("cpu", "1").Phase(phase)
	if phase != corev1.PodPending {
		pod.Node("n")
	}
	return pod.Obj()
}

// show puts a pod where the informers show it, and reports it. remove takes it away.
func (s *stage) show(pod *corev1.Pod) {
	s.t.Helper()
	s.cache(pod)
	s.podHandler().OnAdd(pod, false)
}

func (s *stage) remove(pod *corev1.Pod) {
	s.t.Helper()
	require.NoError(s.t, s.kubeInformers.Core().V1().Pods().Informer().GetStore().Delete(pod))
	s.podHandler().OnDelete(pod)
}

// step has the status of PodGroup g written, and returns it as it is in the API.
func (s *stage) step() schedulingv1beta1.PodGroupStatus {
	s.t.Helper()
	s.time.Step(time.Hour) // no write waits
	_, err := s.Sync(s.t.Context(), "default/g")
	require.NoError(s.t, err)
	s.cache(s.group("g"))
	return s.group("g").Status
}

// newRun is PodGroup g of three members in a queue of 4 cpu, and admitted.
func newRun(t *testing.T) *stage {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "4").State(openState).Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(3).MinResources("cpu", "3").Phase(inqueue).Obj()
	s.serve(group)
	s.cache(group)
	return s
}

// free is how much cpu of queue q is neither used nor kept.
func (s *stage) free() int64 {
	for cpu := int64(4); cpu > 0; cpu-- {
		if s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 1000 * cpu}) == nil {
			return cpu
		}
	}
	return 0
}

// TestAMemberThatHasSucceededCountsWhenItsPodIsRemoved: by a TTL controller, by cleanPodPolicy or by garbage collection.
func TestAMemberThatHasSucceededCountsWhenItsPodIsRemoved(t *testing.T) {
	s := newRun(t)
	for _, name := range []string{"a", "b", "c"} {
		s.show(member(name, corev1.PodRunning))
	}
	require.Equal(t, running, s.step().Phase)
	s.show(member("a", corev1.PodSucceeded))
	s.step()
	s.remove(member("a", corev1.PodSucceeded))
	status := s.step()
	assert.Equal(t, running, status.Phase)
	assert.EqualValues(t, 1, status.Succeeded)
	assert.EqualValues(t, 4, s.free(), "nothing is kept for a pod that never comes")

	s.show(member("b", corev1.PodSucceeded))
	s.remove(member("b", corev1.PodSucceeded))
	status = s.step()
	assert.EqualValues(t, 2, status.Succeeded, "the second one was removed before it was counted")
	assert.Equal(t, running, status.Phase)

	s.remove(member("c", corev1.PodRunning)) // its node is lost
	s.show(member("d", corev1.PodPending))
	status = s.step()
	assert.Equal(t, inqueue, status.Phase)
	assert.EqualValues(t, 2, status.Succeeded, "so the replacement alone completes the minimum")
	assert.EqualValues(t, 3, s.free(), "only its own part is kept")

	s.show(member("d", corev1.PodSucceeded))
	require.Equal(t, completed, s.step().Phase)
	s.remove(member("d", corev1.PodSucceeded))
	status = s.step()
	assert.Equal(t, completed, status.Phase)
	assert.EqualValues(t, 3, status.Succeeded)
}

// TestTheNextRunOfAGangMeetsItsMinimumAnew: all members have succeeded and are removed. Then members of the same PodGroup come again.
func TestTheNextRunOfAGangMeetsItsMinimumAnew(t *testing.T) {
	s := newRun(t)
	for _, name := range []string{"a", "b", "c"} {
		s.show(member(name, corev1.PodSucceeded))
	}
	require.Equal(t, completed, s.step().Phase)
	for _, name := range []string{"a", "b", "c"} {
		s.remove(member(name, corev1.PodSucceeded))
	}
	require.EqualValues(t, 3, s.step().Succeeded)

	s.show(member("d", corev1.PodPending))
	status := s.step()
	assert.Equal(t, inqueue, status.Phase)
	assert.Zero(t, status.Succeeded)
	assert.Empty(t, status.Conditions, "nothing is known of this run yet")
	for _, name := range []string{"d", "e", "f"} {
		s.show(member(name, corev1.PodRunning))
	}
	assert.Equal(t, running, s.step().Phase)
	s.show(member("d", corev1.PodSucceeded))
	s.remove(member("d", corev1.PodSucceeded))
	assert.EqualValues(t, 1, s.step().Succeeded)
}

// TestWhatHasSucceededIsKnownAfterARestart: the status says it. Finished gangs get no room of the queue.
func TestWhatHasSucceededIsKnownAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		phase     schedulingv1beta1.PodGroupPhase
		succeeded int32
		pods      []*corev1.Pod
		wantPhase schedulingv1beta1.PodGroupPhase
		want      int32
		free      int64
	}{
		"all have succeeded and are removed":       {completed, 3, nil, completed, 3, 4},
		"one of them is still there":               {completed, 3, []*corev1.Pod{member("a", corev1.PodSucceeded)}, completed, 3, 4},
		"one is removed, two run":                  {running, 1, []*corev1.Pod{member("b", corev1.PodRunning), member("c", corev1.PodRunning)}, running, 1, 4},
		"one is removed, one runs, one waits":      {inqueue, 1, []*corev1.Pod{member("b", corev1.PodRunning), member("c", corev1.PodPending)}, inqueue, 1, 2},
		"one more has succeeded while it was down": {running, 1, []*corev1.Pod{member("a", corev1.PodSucceeded), member("b", corev1.PodSucceeded)}, inqueue, 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRun(t)
			group := s.group("g")
			group.Status.Phase, group.Status.Succeeded = c.phase, c.succeeded
			require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"), group, "default"))
			s.cache(group)
			for _, pod := range c.pods {
				s.show(pod)
			}
			s.restore()
			assert.Equal(t, c.free, s.free())
			status := s.step()
			assert.Equal(t, c.wantPhase, status.Phase)
			assert.Equal(t, c.want, status.Succeeded)
		})
	}
}

// TestHowManyMembersHaveSucceeded reports pods in every way that informers may.
func TestHowManyMembersHaveSucceeded(t *testing.T) {
	succeeded := func(name string) *corev1.Pod { return member(name, corev1.PodSucceeded) }
	killed := member("k", corev1.PodSucceeded)
	killed.DeletionTimestamp, killed.DeletionGracePeriodSeconds = mustertesting.MakePod("k").Terminating(time.Unix(1, 0)).Obj().DeletionTimestamp, new(int64)
	*killed.DeletionGracePeriodSeconds = 30
	ofJob := mustertesting.MakePod("j").UID("j").Group("g").Phase(corev1.PodSucceeded).Owner(mustertesting.MakeJob("j").UID("job").Obj()).Obj()
	for name, c := range map[string]struct {
		uid    types.UID
		status schedulingv1beta1.PodGroupStatus // before the last count
		first  func(s *successes)               // before the first count
		then   func(s *successes)
		late   func(s *successes) // after the last count
		pods   []*corev1.Pod
		want   int32
	}{
		"no event has told of it yet":    {pods: []*corev1.Pod{succeeded("a")}, want: 1},
		"one is reported twice":          {then: func(s *successes) { s.saw(succeeded("a")); s.saw(succeeded("a")) }, want: 1},
		"it is gone":                     {then: func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")) }, want: 1},
		"one is gone, another succeeds":  {then: func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")); s.saw(succeeded("b")) }, want: 2},
		"a pod exits when it is deleted": {then: func(s *successes) { s.saw(killed); s.gone(killed) }},
		"a pod of a Job of ours":         {then: func(s *successes) { s.saw(ofJob) }},
		"another PodGroup of the name":   {uid: "new", first: func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")) }},
		"it has the same pods":           {uid: "new", first: func(s *successes) { s.saw(succeeded("a")) }, pods: []*corev1.Pod{succeeded("a")}, want: 1},
		"the next run begins": {
			first:  func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")) },
			status: schedulingv1beta1.PodGroupStatus{Phase: completed, Succeeded: 1}, pods: []*corev1.Pod{member("b", corev1.PodPending)},
		},
		"a pod of the run before is reported late": {
			first: func(s *successes) { s.saw(succeeded("a")) }, late: func(s *successes) { s.gone(succeeded("a")) },
			status: schedulingv1beta1.PodGroupStatus{Phase: completed, Succeeded: 1}, pods: []*corev1.Pod{member("b", corev1.PodPending)},
		},
		"a member has failed and is replaced": {
			first:  func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")) },
			status: schedulingv1beta1.PodGroupStatus{Phase: completed, Succeeded: 1, Failed: 1}, pods: []*corev1.Pod{member("b", corev1.PodPending)}, want: 1,
		},
		"completed, and nothing comes": {
			first:  func(s *successes) { s.saw(succeeded("a")); s.gone(succeeded("a")) },
			status: schedulingv1beta1.PodGroupStatus{Phase: completed, Succeeded: 1}, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuccesses()
			group := mustertesting.MakePodGroup("g").UID("g").MinMember(1).Obj()
			if c.first != nil {
				c.first(s)
			}
			count := func(pods []*corev1.Pod) int32 {
				_, n := s.count(group, func() []*corev1.Pod { return pods })
				return n
			}
			count(nil)
			if c.then != nil {
				c.then(s)
			}
			group.UID, group.Status = c.uid, c.status
			if c.uid == "" {
				group.UID = "g"
			}
			assert.Equal(t, c.want, count(c.pods))
			if c.late != nil {
				c.late(s)
				assert.Equal(t, c.want, count(c.pods))
			}
		})
	}
}

// TestTheGangOfAJobIsCompletedWhenTheJobIs: between the stages of a Job, and before failed pods are replaced, all of its pods have finished.
func TestTheGangOfAJobIsCompletedWhenTheJobIs(t *testing.T) {
	for name, c := range map[string]struct {
		job  batchv1alpha1.JobPhase
		pods []corev1.PodPhase
		want schedulingv1beta1.PodGroupPhase
	}{
		"the first stage has succeeded":   {batchv1alpha1.Running, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded}, running},
		"all stages have succeeded":       {batchv1alpha1.Running, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodSucceeded}, completed},
		"all pods have failed":            {batchv1alpha1.Running, []corev1.PodPhase{corev1.PodFailed, corev1.PodFailed}, running},
		"the Job has failed with them":    {batchv1alpha1.Failed, []corev1.PodPhase{corev1.PodFailed, corev1.PodFailed}, completed},
		"the Job has completed with some": {batchv1alpha1.Completed, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded}, completed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			job := mustertesting.MakeJob("j").UID("job").Status(batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: c.job}}).Obj()
			job.Spec.Tasks = []batchv1alpha1.TaskSpec{{Name: "one", Replicas: 2}, {Name: "two", Replicas: 2}}
			s.cache(job)
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(running).Owner(job).Obj()
			s.serve(group)
			s.cache(group)
			for i, phase := range c.pods {
				name := fmt.Sprint(i)
				s.cache(mustertesting.MakePod(name).UID(name).Group("g").Owner(job).Node("n").Phase(phase).Obj())
			}
			assert.Equal(t, c.want, s.step().Phase)
		})
	}
}
