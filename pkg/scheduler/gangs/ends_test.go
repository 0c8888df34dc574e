package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// boundAt is a pod that was bound some seconds after the start of the clock.
func boundAt(pod *corev1.Pod, seconds int) *corev1.Pod {
	pod = on(pod, "n")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1000+int64(seconds), 0)}}
	return pod
}

// estimated is an object that is expected to run for so long.
func estimated[T metav1.Object](object T, runtime string) T {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[schedulingv1beta1.RunningEstimateAnnotation] = runtime
	object.SetAnnotations(annotations)
	return object
}

func gangFor(name, runtime string, minMember int32) *schedulingv1beta1.PodGroup {
	return estimated(mustertesting.MakePodGroup(name).UID(name).MinMember(minMember).Phase(schedulingv1beta1.PodGroupInqueue).Obj(), runtime)
}

// TestWhenPodsAreExpectedToEnd: a pod of a gang ends with the gang, whose run began with its first member. The times of bindings are whole seconds,
// so they count as a second later.
func TestWhenPodsAreExpectedToEnd(t *testing.T) {
	limited := func(pod *corev1.Pod, seconds int64) *corev1.Pod {
		pod.Spec.ActiveDeadlineSeconds = &seconds
		return pod
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int // seconds after the start of the clock, -1 for unknown
	}{
		"the first of a gang":                    {boundAt(memberNamed("m0").Obj(), 5), 606},
		"a later one ends with it":               {boundAt(memberNamed("m1").Obj(), 300), 606},
		"surplus does, too":                      {boundAt(memberNamed("m2").Obj(), 400), 606},
		"a gang without an estimate":             {boundAt(mustertesting.MakePod("u0").UID("u0").Group("u").SchedulerName("muster").Obj(), 5), -1},
		"a member that holds room":               {mustertesting.MakePod("v0").UID("v0").Group("v").SchedulerName("muster").Obj(), 500 + 2 + 60},
		"a pod without an estimate":              {boundAt(singleNamed("s", "").Obj(), 5), -1},
		"a pod whose user says so":               {boundAt(estimated(singleNamed("s", "").Obj(), "10m"), 5), 606},
		"its estimate is no duration":            {boundAt(estimated(singleNamed("s", "").Obj(), "soon"), 5), -1},
		"it is negative":                         {boundAt(estimated(singleNamed("s", "").Obj(), "-1h"), 5), -1},
		"a pod with a limit":                     {boundAt(limited(singleNamed("s", "").Obj(), 1200), 5), 1206},
		"the limit is nearer than the estimate":  {boundAt(limited(estimated(singleNamed("s", "").Obj(), "1h"), 1200), 5), 1206},
		"the limit is absurd":                    {boundAt(limited(singleNamed("s", "").Obj(), 1<<62), 5), -1},
		"a pod that is being deleted":            {deleting(boundAt(singleNamed("s", "").Obj(), 5)), 1000},
		"a pod of a DaemonSet runs as the node":  {boundAt(estimated(ofDaemonSet(singleNamed("s", "").Obj()), "10m"), 5), -1},
		"so does a static pod, whatever it says": {mirror(boundAt(estimated(singleNamed("s", "").Obj(), "10m"), 5)), -1},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPodGroup(gangFor("g", "10m", 2))
			tr.SetPodGroup(gangFor("u", "", 1))
			tr.SetPodGroup(gangFor("v", "1m", 1))
			setPods(tr, boundAt(memberNamed("m0").Obj(), 5), boundAt(memberNamed("m1").Obj(), 300), boundAt(memberNamed("m2").Obj(), 400))
			tr.SetPod(mustertesting.MakePod("v0").UID("v0").Group("v").SchedulerName("muster").Obj())
			tr.SetPod(c.pod)
			clock.Step(500 * time.Second)
			end, known := tr.EndOf(c.pod)
			require.Equal(t, c.want >= 0, known)
			if known {
				assert.Equal(t, time.Duration(c.want)*time.Second, end.Sub(time.Unix(1000, 0)))
			}
		})
	}
}

func ofDaemonSet(pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	return pod
}

func mirror(pod *corev1.Pod) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.MirrorPodAnnotationKey, "x")
	return pod
}

// TestAPodGroupThatIsDeletedChangesNoEnd: its pods may go a moment later, and until then a start of another gang counts on their end.
func TestAPodGroupThatIsDeletedChangesNoEnd(t *testing.T) {
	tr, clock := newTestTracker(t)
	group, pod := gangFor("g", "10m", 1), boundAt(memberNamed("m0").Obj(), 5)
	tr.SetPodGroup(group)
	tr.SetPod(pod)
	clock.Step(500 * time.Second)
	before, known := tr.EndOf(pod)
	require.True(t, known)
	tr.DeletePodGroup(group)
	after, known := tr.EndOf(pod)
	require.True(t, known)
	assert.Equal(t, before, after)
}

// TestARunBeginsAnew: what is bound when all members of a gang have gone is another run. Another member that goes does not change when it began.
func TestARunBeginsAnew(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(gangFor("g", "10m", 1))
	first, second := boundAt(memberNamed("m0").Obj(), 5), boundAt(memberNamed("m1").Obj(), 60)
	setPods(tr, first, second)
	began := func() int64 { return tr.Gangs[theGang].Began.Unix() - 1001 }
	assert.EqualValues(t, 5, began())
	tr.DeletePod(first)
	assert.EqualValues(t, 5, began())
	tr.DeletePod(second)
	assert.True(t, tr.Gangs[theGang].Began.IsZero())
	tr.SetPod(boundAt(memberNamed("m2").Obj(), 90))
	assert.EqualValues(t, 90, began())
}

// TestWhoIsLetPastAStart: gangs and pods that are expected to end by then, and older ones.
func TestWhoIsLetPastAStart(t *testing.T) {
	tr, clock := newTestTracker(t)
	args := testArgs
	args.ReservationDepth = 1
	require.NoError(t, tr.Configure("muster", args))
	older := gangOf(tr, "older", 1, 1)[0]
	clock.Step(time.Minute)
	large := gangOf(tr, "large", 2, 2)
	decide := func(start time.Time) *gangs.Snapshot {
		if g := tr.Gangs[keyNamed("large")]; g.Refusal != nil {
			g.Refusal.Woken = true
		}
		require.Empty(t, tr.Gate(large[0]))
		s := tr.Decisions.Snapshot(large[0])
		d := no(s, "no room", large[0], "NodeResourcesFit")
		if s.Problem.Reserve {
			d.Reserve = &placement.Places{Of: map[types.UID]string{large[0].UID: "n", large[1].UID: "m"}, Start: start}
		}
		_, ok := tr.Decisions.Commit(s, d)
		require.True(t, ok)
		return s
	}
	s := decide(clock.Now().Add(10 * time.Minute))
	require.True(t, s.Problem.Reserve && s.Problem.OnlyWithStart, "it becomes the first of all")
	clock.Step(time.Second)

	for name, c := range map[string]struct {
		pod  *corev1.Pod
		past bool
	}{
		"a pod that ends by then":      {estimated(singleNamed("a", "").Obj(), "9m"), true},
		"a pod that ends after":        {estimated(singleNamed("b", "").Obj(), "10m"), false},
		"a pod without an estimate":    {singleNamed("c", "").Obj(), false},
		"a pod of a higher priority":   {singleNamed("d", "").Priority(5).Obj(), true},
		"one whose estimate is absurd": {estimated(singleNamed("e", "").Obj(), "87600h"), false},
	} {
		c.pod.CreationTimestamp = metav1.NewTime(clock.Now())
		assert.Equal(t, c.past, reservedAgainst(tr, c.pod) == nil, name)
	}
	for name, c := range map[string]struct {
		runtime string
		past    bool
	}{"short": {"9m", true}, "long": {"1h", false}, "unknown": {"", false}} {
		tr.SetPodGroup(gangFor(name, c.runtime, 1))
		pod := mustertesting.MakePod(name+"-0").UID(name+"-0").Group(name).SchedulerName("muster").Requests("cpu", "1").Obj()
		tr.SetPod(pod)
		require.Empty(t, tr.Gate(pod))
		s := tr.Decisions.Snapshot(pod)
		require.NotNil(t, s)
		assert.Equal(t, c.past, len(s.Problem.Kept) == 0, name)
		assert.Empty(t, s.Problem.Held, "what is kept depends on what runs on the node")
	}
	require.Empty(t, tr.Gate(older))
	assert.Empty(t, tr.Decisions.Snapshot(older).Problem.Kept)
}

// TestBackfillIsCounted: gangs that pass a reservation with a start, and starts that become later.
func TestBackfillIsCounted(t *testing.T) {
	tr, clock := newTestTracker(t)
	args := testArgs
	args.ReservationDepth = 1
	require.NoError(t, tr.Configure("muster", args))
	backfilled, postponed := counting(t, tr.Metrics.Backfilled), counting(t, tr.Metrics.Postponed)
	start := func(pod *corev1.Pod) {
		require.Empty(t, tr.Gate(pod))
		release(t, tr, []*corev1.Pod{pod})
	}
	older, alone := gangOf(tr, "older", 1, 1)[0], gangOf(tr, "alone", 1, 1)[0]
	clock.Step(time.Second)
	large := gangOf(tr, "large", 1, 1)[0]
	clock.Step(time.Second)
	younger := gangOf(tr, "younger", 1, 1)[0]
	start(alone)
	for _, in := range []time.Duration{10 * time.Minute, 9 * time.Minute, 11 * time.Minute, 0} {
		if g := tr.Gangs[keyNamed("large")]; g.Refusal != nil {
			g.Refusal.Woken = true
		}
		require.Empty(t, tr.Gate(large))
		s := tr.Decisions.Snapshot(large)
		require.True(t, s.Problem.Reserve)
		d := no(s, "no room", large, "NodeResourcesFit")
		d.Reserve = &placement.Places{Of: map[types.UID]string{large.UID: "m"}, Start: clock.Now().Add(in)}
		_, ok := tr.Decisions.Commit(s, d)
		require.True(t, ok)
		clock.Step(time.Minute)
	}
	assert.InDelta(t, 1, postponed(), 0, "later by three minutes; each is found a minute after the last")
	assert.Zero(t, backfilled(), "no other gang waited when the first one started")
	start(older)
	assert.Zero(t, backfilled(), "it ranks before")
	start(younger)
	assert.InDelta(t, 1, backfilled(), 0)
}

// TestAGangWithoutAStartIsNotAskedAgainAtOnce: a decision may find neither places to reserve nor a reason why there are none. Members that run in
// too wide a domain have such ones.
func TestAGangWithoutAStartIsNotAskedAgainAtOnce(t *testing.T) {
	tr, clock := newTestTracker(t)
	args := testArgs
	args.ReservationDepth = 1
	require.NoError(t, tr.Configure("muster", args))
	pods := gangOf(tr, "g", 2, 2)
	require.Empty(t, tr.Gate(pods[0]))
	s := tr.Decisions.Snapshot(pods[0])
	require.True(t, s.Problem.Reserve && s.Problem.OnlyWithStart)
	_, ok := tr.Decisions.Commit(s, no(s, "no domain", pods[0], "NodeResourcesFit"))
	require.True(t, ok)
	decided := func(after time.Duration) bool {
		clock.Step(after)
		dispatch.NewDispatcher(tr).Tick()
		return tr.Gangs[keyNamed("g")].Refusal.Woken
	}
	assert.False(t, decided(time.Second))
	assert.True(t, decided(time.Minute))
}
