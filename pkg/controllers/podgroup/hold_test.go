package podgroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

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
			s.admission.notice(group)
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
			s.admission.notice(group)
			_, err := s.admission.Sync(t.Context(), allCandidates)
			require.NoError(t, err)
			_, err = s.Sync(t.Context(), "default/g")
			require.NoError(t, err)
			assert.Equal(t, c.want, s.group("g").Status.Phase)
		})
	}
}

// TestPatienceForgetsAPodGroupThatWasCreatedAnewUnseen: after a lost watch an informer shows both in one update, and no deletion. The
// record of the old one stayed for as long as the controller ran.
func TestPatienceForgetsAPodGroupThatWasCreatedAnewUnseen(t *testing.T) {
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
	assert.Len(t, c.patience.since, 1, "the old one is forgotten")
	require.NoError(t, groups.Delete(group("new")))
	sync()
	assert.Empty(t, c.patience.since)
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
