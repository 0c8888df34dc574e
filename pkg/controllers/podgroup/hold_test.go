package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

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
