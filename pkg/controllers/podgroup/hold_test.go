package podgroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestNoPodVouchesForItsPodGroup: every user with the right to create pods can name a Job as their owner, and its PodGroup. No PodGroup
// gets into a closed queue, or into a full one, by that.
func TestNoPodVouchesForItsPodGroup(t *testing.T) {
	for name, queue := range map[string]*mustertesting.QueueWrapper{
		"closed": mustertesting.MakeQueue("q").Capability("cpu", "4").State(closedState),
		"full":   mustertesting.MakeQueue("q").Capability("cpu", "2").State(openState),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cache(queue.Obj())
			job := mustertesting.MakeJob("j").UID("job").Obj()
			s.cache(job)
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "3").Owner(job).Obj()
			s.serve(group)
			s.cache(group)
			for _, name := range []string{"a", "b"} {
				s.cache(mustertesting.MakePod(name).UID(name).Group("g").Owner(job).Node("n").Phase(corev1.PodRunning).Obj())
			}
			s.admission.observe(group)
			s.restore()
			for range 2 {
				_, err := s.admission.Sync(t.Context(), allCandidates)
				require.NoError(t, err)
				_, err = s.Sync(t.Context(), "default/g")
				require.NoError(t, err)
			}
			assert.Equal(t, pending, s.group("g").Status.Phase)
			assert.Nil(t, s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 2000}), "nothing is kept for it")
		})
	}
}

// TestAPodGroupThatReplacesThatOfARunningGangIsAdmitted: a client has deleted the PodGroup of a Job that runs, and the job controller has
// made it anew. The Job's status, which no user writes, shows that it was admitted.
func TestAPodGroupThatReplacesThatOfARunningGangIsAdmitted(t *testing.T) {
	for name, c := range map[string]struct {
		phase   batchv1alpha1.JobPhase
		members int
		want    schedulingv1beta1.PodGroupPhase
	}{
		"it runs":                    {batchv1alpha1.Running, 2, running},
		"it waits":                   {batchv1alpha1.Pending, 2, pending},
		"it runs, and has lost pods": {batchv1alpha1.Running, 1, pending},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cache(mustertesting.MakeQueue("q").State(closedState).Obj())
			job := mustertesting.MakeJob("j").UID("job").Status(batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: c.phase}}).Obj()
			s.cache(job)
			group := mustertesting.MakePodGroup("g").UID("new").Queue("q").MinMember(2).Owner(job).Obj()
			s.serve(group)
			s.cache(group)
			for i := range c.members {
				name := fmt.Sprint(i)
				s.cache(mustertesting.MakePod(name).UID(name).Group("g").Owner(job).Node("n").Phase(corev1.PodRunning).Obj())
			}
			s.admission.observe(group)
			_, err := s.admission.Sync(t.Context(), allCandidates)
			require.NoError(t, err)
			_, err = s.Sync(t.Context(), "default/g")
			require.NoError(t, err)
			assert.Equal(t, c.want, s.group("g").Status.Phase)
		})
	}
}

// TestHoldTimeoutsForgetAPodGroupThatWasCreatedAnewUnseen: after a lost watch an informer shows both in one update, and no deletion. The
// record of the old one stayed for as long as the controller ran.
func TestHoldTimeoutsForgetAPodGroupThatWasCreatedAnewUnseen(t *testing.T) {
	kube, muster := kubefake.NewSimpleClientset(), musterfake.NewSimpleClientset()
	kubeInformers, musterInformers := informers.NewSharedInformerFactory(kube, 0), musterinformers.NewSharedInformerFactory(muster, 0)
	tracker, err := usage.New(kubeInformers, musterInformers)
	require.NoError(t, err)
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	c, err := New(Config{
		KubeClient: kube, MusterClient: muster, KubeInformers: kubeInformers, MusterInformers: musterInformers,
		Usage: tracker, Recorder: record.NewFakeRecorder(10), Clock: clock, HoldTimeout: time.Minute,
	})
	require.NoError(t, err)
	groups := musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore()
	group := func(uid string) *schedulingv1beta1.PodGroup {
		return mustertesting.MakePodGroup("g").UID(uid).MinMember(2).Phase(inqueue).Obj()
	}
	sync := func() time.Duration {
		left, err := c.Sync(t.Context(), "default/g")
		require.NoError(t, err)
		return left
	}

	require.NoError(t, groups.Add(group("old")))
	assert.Equal(t, time.Minute, sync())
	clock.Step(50 * time.Second)
	require.NoError(t, groups.Update(group("new")))
	assert.Equal(t, time.Minute, sync(), "it has only just come")
	assert.Len(t, c.holdTimeouts.since, 1, "the old one is forgotten")
	require.NoError(t, groups.Delete(group("new")))
	sync()
	assert.Empty(t, c.holdTimeouts.since)
}

// TestAGangThatAsksForMoreWhileItRunsClosesNoQueue: when it loses a pod, no more is kept for it than its queue has room for.
func TestAGangThatAsksForMoreWhileItRunsClosesNoQueue(t *testing.T) {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "4").State(openState).Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "9").Phase(running).Obj()
	s.serve(group)
	s.cache(group)
	s.cache(mustertesting.MakePod("a").UID("a").Group("g").Node("n").Phase(corev1.PodRunning).Obj())
	s.restore()
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	require.Equal(t, inqueue, s.group("g").Status.Phase)
	assert.Nil(t, s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 4000}))
}

// app is a PodGroup of a driver, with what it and its executors need.
func app(cpu string, phase schedulingv1beta1.PodGroupPhase) *mustertesting.PodGroupWrapper {
	return mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).MinResources("cpu", cpu).Phase(phase)
}

// part is a member of 1 cpu that is bound.
func part(name string, bound time.Time, phase corev1.PodPhase) *corev1.Pod {
	pod := mustertesting.MakePod(name).UID(name).Group("g").Requests("cpu", "1").Node("n").Phase(phase)
	pod.Condition(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	made := pod.Obj()
	made.Status.Conditions[0].LastTransitionTime = metav1.NewTime(bound)
	return made
}

// TestRoomIsKeptForMembersBeyondTheMinimum: a driver starts with minResources of 3 cpu for itself and two executors.
func TestRoomIsKeptForMembersBeyondTheMinimum(t *testing.T) {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "4").State(openState).Obj())
	start := s.time.Now()
	group := app("3", inqueue).Obj()
	settle := func(phase schedulingv1beta1.PodGroupPhase, pods ...*corev1.Pod) time.Duration {
		next := group.Status.DeepCopy()
		next.Phase = phase
		left := s.settleHold(group, pods, 0, next)
		group.Status = *next
		return left
	}
	reserved := func() int64 { return group.Status.Reserved.Cpu().Value() }

	settle(inqueue)
	assert.Empty(t, group.Status.Reserved)
	assert.Equal(t, time.Minute, settle(running, part("driver", start, corev1.PodRunning)))
	assert.EqualValues(t, 3, reserved())
	assert.EqualValues(t, 1, s.free())
	s.time.Step(50 * time.Second)
	assert.Equal(t, 60*time.Second, settle(running, part("driver", start, corev1.PodRunning), part("one", s.time.Now(), corev1.PodRunning)), "the time starts anew")
	s.time.Step(59 * time.Second)
	pods := []*corev1.Pod{part("driver", start, corev1.PodRunning), part("one", start.Add(50*time.Second), corev1.PodSucceeded)}
	assert.Equal(t, time.Second, settle(running, pods...))
	s.time.Step(time.Second)
	assert.Zero(t, settle(running, pods...))
	assert.Empty(t, group.Status.Reserved)
	assert.EqualValues(t, 4, s.free())
	assert.Equal(t, "no quota is kept for further members any more: members have not used all of minResources, and none was bound for 1m0s",
		schedulingv1beta1.CurrentCondition(group.Status.Conditions).Message)
	settle(running, append(pods, part("two", s.time.Now(), corev1.PodRunning))...)
	assert.Empty(t, group.Status.Reserved, "it was released for good")
}

// TestWhatIsKeptForFurtherMembers: when they have used it, when it is less, and for whom nothing is kept.
func TestWhatIsKeptForFurtherMembers(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("job").Obj()
	bound := []*corev1.Pod{part("driver", time.Unix(9_990, 0), corev1.PodRunning), part("one", time.Unix(9_990, 0), corev1.PodRunning)}
	reserved := func(w *mustertesting.PodGroupWrapper, cpu string) *schedulingv1beta1.PodGroup {
		group := w.Obj()
		group.Status.Reserved = mustertesting.Resources("cpu", cpu)
		return group
	}
	for name, c := range map[string]struct {
		group *schedulingv1beta1.PodGroup
		held  bool // before it started
		next  schedulingv1beta1.PodGroupPhase
		want  int64
	}{
		"the gang starts":                        {app("4", inqueue).Obj(), true, running, 4},
		"it starts with all that it asked for":   {app("2", inqueue).Obj(), true, running, 0},
		"nothing was kept for it any more":       {app("4", inqueue).Obj(), false, running, 0},
		"it is the gang of a Job":                {app("4", inqueue).Owner(job).Obj(), true, running, 0},
		"it runs":                                {reserved(app("4", running), "4"), true, running, 4},
		"it runs, and the controller is new":     {reserved(app("4", running), "4"), false, running, 4},
		"it runs and uses all of it":             {reserved(app("2", running), "2"), true, running, 0},
		"minResources were lowered":              {reserved(app("3", running), "4"), true, running, 3},
		"minResources were raised":               {reserved(app("9", running), "4"), false, running, 4},
		"minResources were raised without a use": {app("9", running).Obj(), false, running, 0},
		"it has finished":                        {reserved(app("4", running), "4"), true, completed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cache(mustertesting.MakeQueue("q").Capability("cpu", "9").State(openState).Obj())
			if c.held {
				s.usage.Grant(c.group, admission.MinimumOf(c.group))
			}
			next := c.group.Status.DeepCopy()
			next.Phase = c.next
			s.settleHold(c.group, bound, 0, next)
			assert.Equal(t, c.want, next.Reserved.Cpu().Value())
		})
	}
}

// TestRoomIsKeptForAMinuteForPodsThatDoNotCome: a PodGroup of 16 CPUs has one small pod. Each pod that comes begins the minute anew.
func TestRoomIsKeptForAMinuteForPodsThatDoNotCome(t *testing.T) {
	s := newStage(t)
	s.holdTimeouts.limit = 5 * time.Minute
	clock := testingclock.NewFakeClock(time.Unix(10_000, 0))
	s.Controller.clock = clock
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "16").State(openState).Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(3).MinResources("cpu", "16").Phase(inqueue).Obj()
	s.cache(group)
	pod := func(name string) *corev1.Pod {
		made := mustertesting.MakePod(name).UID(name).Group("g").Requests("cpu", "10m").Obj()
		made.CreationTimestamp = metav1.NewTime(clock.Now())
		return made
	}
	kept := func(pods ...*corev1.Pod) bool {
		s.settleHold(group, pods, 0, group.Status.DeepCopy())
		return s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 1000}) != nil
	}
	first := pod("first")
	assert.True(t, kept(first))
	clock.Step(59 * time.Second)
	assert.True(t, kept(first))
	second := pod("second")
	clock.Step(59 * time.Second)
	assert.True(t, kept(first, second))
	clock.Step(time.Second)
	assert.False(t, kept(first, second))
	third := pod("third")
	assert.True(t, kept(first, second, third), "the minimum exists")
	clock.Step(2 * time.Minute)
	assert.True(t, kept(first, second, third))
}
