package eviction

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// cluster is a scheduler's snapshot.
type cluster struct {
	fwk.Handle // only the method below is used
	snapshot   *cache.Snapshot
}

func (c *cluster) SnapshotSharedLister() fwk.SharedLister { return c.snapshot }

func pod(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Node("node").Requests("cpu", "1").Priority(5)
}

func TestWhoIsAskedForAGang(t *testing.T) {
	controller := true
	daemon := pod("daemon").Obj()
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: &controller}}
	going, stuck := pod("going").Terminating(time.Now()).Obj(), pod("stuck").Terminating(time.Now().Add(-2*stuckAfter)).Obj()
	lingers := pod("lingers").Group("g").Terminating(time.Now().Add(time.Hour)).Obj()
	lingers.DeletionGracePeriodSeconds = ptr.To[int64](3600)
	pods := []*corev1.Pod{
		lingers, pod("single").Obj(), pod("member").Group("g").Obj(), pod("high").Priority(10).Obj(), daemon, going, stuck,
		pod("mirror").Annotation(corev1.MirrorPodAnnotationKey, "x").Obj(), pod("critical").Priority(2_000_000_000).Obj(),
		pod("native").NativeGroup("n").Obj(), pod("loose").Group("without-podgroup").Obj(),
	}
	node := mustertesting.MakeNode("node").Allocatable("cpu", "16").Obj()
	tracker := gangs.New(clocktesting.NewFakeClock(time.Now()))
	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Obj())
	s := New(tracker.Victims, &cluster{snapshot: cache.NewSnapshot(pods, []*corev1.Node{node})}, nil)
	infos, err := s.handle.SnapshotSharedLister().NodeInfos().List()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		claimant evict.Claimant
		singles  []string
	}{
		"by priority alone": {evict.Claimant{Priority: 10}, []string{"single", "daemon", "lingers", "loose"}},
		"by shares, too":    {evict.Claimant{Priority: 0, Account: "q"}, []string{"single", "high", "daemon", "lingers", "loose"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := s.census(infos, &c.claimant)
			var singles []string
			for _, info := range found.singles {
				singles = append(singles, info.GetPod().Name)
			}
			assert.ElementsMatch(t, c.singles, singles)
			require.Len(t, found.order, 1)
			assert.Len(t, found.order[0].Pods, 1)
			assert.Equal(t, int64(16_000), found.total[corev1.ResourceCPU])
			assert.Len(t, found.leaving, 1, "a pod that should be gone for long is not expected to go")
			assert.Equal(t, "going", found.leaving[0].AllPods()[0].Name)
		})
	}
	assert.Empty(t, s.census(infos, &evict.Claimant{Priority: 5}).gangs, "nothing has a lower priority")
}
