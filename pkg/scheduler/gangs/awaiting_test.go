package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// requiring is a tracker whose profile muster requires PodGroups, and whose profile other does not.
func requiring(t *testing.T) *gangs.Tracker {
	tr := openTracker(t)
	args := testArgs
	args.RequirePodGroup = true
	require.NoError(t, tr.Configure("other", testArgs))
	require.NoError(t, tr.Configure("muster", args), "the argument may differ between profiles")
	return tr
}

// TestWhoWaitsForAPodGroup: the pods that muster-controller gives a PodGroup.
func TestWhoWaitsForAPodGroup(t *testing.T) {
	single := func() *mustertesting.PodWrapper { return singleNamed("p", "q") }
	gated := single().Obj()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		waits bool
	}{
		"a bare pod":                {single().Obj(), true},
		"one that names a queue":    {singleNamed("p", "q").Obj(), true},
		"important":                 {single().Priority(scheduling.HighestUserDefinablePriority).Obj(), true},
		"of another profile":        {single().SchedulerName("other").Obj(), false},
		"system-critical":           {single().Priority(scheduling.SystemCriticalPriority).Obj(), false},
		"of a native pod group":     {single().NativeGroup("g").Obj(), false},
		"a mirror pod":              {single().Annotation(corev1.MirrorPodAnnotationKey, "x").Obj(), false},
		"held by a scheduling gate": {gated, false},
		"bound":                     {on(single().Obj(), "node"), false},
	} {
		tr := requiring(t)
		tr.SetPod(test.pod)
		want := ""
		if test.waits {
			want = gangs.AwaitsController
		}
		assert.Equal(t, want, tr.Gate(test.pod), name)
		assert.Equal(t, test.waits, report.NewReports(tr).Explains(test.pod), name)
	}
	tr := requiring(t)
	theirs := single().Label(schedulingx.PodGroupLabel, "g").Obj()
	tr.SetPod(theirs)
	assert.Equal(t, "waiting for the pod's PodGroup to be created", tr.Gate(theirs), "one of scheduler-plugins waits for that one")
}

// TestAPodSaysThatItWaitsForTheController: with what to do if that is down.
func TestAPodSaysThatItWaitsForTheController(t *testing.T) {
	tr := requiring(t)
	pod := singleNamed("p", "q").Obj()
	tr.SetPod(pod)
	key, _ := tr.KeyOf(pod)
	waits := report.NewReports(tr).TakeReport(key)
	assert.Equal(t, report.ReasonWaitingForController, waits.Reason)
	assert.Contains(t, waits.Message, "waiting for muster-controller to give the pod its PodGroup")
	assert.Contains(t, waits.Message, "whether muster-controller runs")
	assert.Equal(t, 1, waits.Count)
	assert.Equal(t, isHeld, enter(tr, pod), "also if it has passed the gate as the probe of a standby")
}

// TestAPodThatWaitedForItsPodGroupStartsWithIt: whichever of the tracker and the scheduling queue hears first of the annotation.
func TestAPodThatWaitedForItsPodGroupStartsWithIt(t *testing.T) {
	for name, queueIsLate := range map[string]bool{"the queue hears first": false, "the tracker hears first": true} {
		t.Run(name, func(t *testing.T) {
			clock := newQueueClock(t)
			tr := clock.tracker
			bare := singleNamed("p", "q").Obj()
			tr.SetPod(bare)
			require.Equal(t, gangs.AwaitsController, tr.Gate(bare))
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			adopted := singleNamed("p", "q").Group("g").Obj()
			if !queueIsLate {
				require.Equal(t, gangs.NotSeen, tr.Gate(adopted))
				tr.SetPod(adopted)
				assert.Empty(t, tr.Gate(adopted))
				return
			}
			tr.SetPod(adopted)
			require.Equal(t, gangs.NotSeen, tr.Gate(bare), "the queue's pod is older")
			clock.step(gangs.QueueLag)
			actions := dispatch.NewDispatcher(tr).NextActions(state.ReadyKey)
			assert.Equal(t, []string{"p"}, namesOf(actions.Activate))
			assert.Empty(t, tr.Gate(adopted))
			assert.Len(t, tr.Gangs, 1, "nothing is left of the gang that it was while it waited")
			assert.Empty(t, tr.Detached)
		})
	}
}

// TestAPodThatIsTriedIsNotTriedAgainBecauseTheQueueIsLate: a tick may come before the pause is over. A second activation would look as if a wake-up had been lost. For the
// scheduling queue asks no hints of a pod that is active.
func TestAPodThatIsTriedIsNotTriedAgainBecauseTheQueueIsLate(t *testing.T) {
	tr := requiring(t)
	bare, adopted := singleNamed("p", "q").Obj(), singleNamed("p", "q").Group("g").Obj()
	tr.SetPod(bare)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	tr.SetPod(adopted)
	require.Equal(t, gangs.NotSeen, tr.Gate(bare), "the queue's pod is older")
	actions, _ := dispatch.NewDispatcher(tr).Tick()
	require.Contains(t, namesOf(actions.Activate), "p")
	require.Empty(t, tr.Gate(adopted))
	require.Equal(t, isScout, enter(tr, adopted))
	refuse(t, tr, adopted, "room")
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate)
}

// TestASurplusPodThatWaitedForItsPodGroupIsActivated: its gang runs, so that nothing else happens that would have it tried.
func TestASurplusPodThatWaitedForItsPodGroupIsActivated(t *testing.T) {
	tr := requiring(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupRunning, 1))
	tr.SetPod(on(memberNamed("first").Obj(), "node"))
	dispatch.NewDispatcher(tr).NextActions(theGang)
	bare := singleNamed("p", "q").Obj()
	tr.SetPod(bare)
	require.Equal(t, gangs.AwaitsController, tr.Gate(bare))
	tr.SetPod(memberNamed("p").Obj())
	assert.Equal(t, []string{"p"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Empty(t, tr.Unseen)
}

// TestAPodThatIsDeletedWhileItWaitsForItsPodGroupIsForgotten: nothing is left of it.
func TestAPodThatIsDeletedWhileItWaitsForItsPodGroupIsForgotten(t *testing.T) {
	tr := requiring(t)
	pod := singleNamed("p", "q").Obj()
	tr.SetPod(pod)
	tr.Gate(pod)
	tr.DeletePod(pod)
	assert.Empty(t, tr.Gangs)
	assert.Empty(t, tr.Members)
}

// queueClock is a requiring tracker with its clock.
type queueClock struct {
	tracker *gangs.Tracker
	step    func(time.Duration)
}

func newQueueClock(t *testing.T) queueClock {
	tr, clock := newTestTracker(t)
	args := testArgs
	args.RequirePodGroup = true
	require.NoError(t, tr.Configure("muster", args))
	return queueClock{tr, clock.Step}
}
