package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAdmissionThatNoStatusTellsOfIsKnownFromThePods: an earlier run may have ended before it wrote down whom it had admitted. Room
// is kept for them before anybody else is admitted.
func TestAdmissionThatNoStatusTellsOfIsKnownFromThePods(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("job").Obj()
	pod := func() *mustertesting.PodWrapper { return mustertesting.MakePod("p").Group("g").Owner(job) }
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"none":                       {nil, false},
		"one of the Job":             {[]*corev1.Pod{pod().Obj()}, true},
		"one that has finished":      {[]*corev1.Pod{pod().Phase(corev1.PodSucceeded).Obj()}, false},
		"one that the Job is not of": {[]*corev1.Pod{mustertesting.MakePod("p").Group("g").Obj()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kube, muster := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0), musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0)
			tracker, err := usage.New(kube, muster)
			require.NoError(t, err)
			c1, err := New(Config{KubeInformers: kube, MusterInformers: muster, Usage: tracker, Recorder: record.NewFakeRecorder(10)})
			require.NoError(t, err)
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "3").Obj()
			group.OwnerReferences = pod().Obj().OwnerReferences
			require.NoError(t, muster.Scheduling().V1beta1().PodGroups().Informer().GetStore().Add(group))
			for _, pod := range c.pods {
				require.NoError(t, kube.Core().V1().Pods().Informer().GetStore().Add(pod))
			}
			c1.admission.notice(group)
			var told []string
			c1.Watch(func(group *schedulingv1beta1.PodGroup) { told = append(told, group.Name) })
			tracker.Ledger().SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())

			c1.restore()
			assert.Equal(t, c.want, c1.Admitted(group))
			assert.Equal(t, c.want, len(told) == 1, "the Job goes on")
			short := tracker.Ledger().Room("q", resources.List{corev1.ResourceCPU: 2000})
			assert.Equal(t, c.want, short != nil, "its minimum is kept for it: %v", short)
		})
	}
}

// TestPatienceForgetsAPodGroupThatWasCreatedAnewUnseen: after a lost watch an informer tells of both in one update, and of no
// deletion. What was remembered of the old one stayed for as long as the controller ran.
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
