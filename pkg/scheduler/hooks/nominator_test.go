package hooks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestNominatedPodsAreAddedUpOnce, and anew when they change, against the real queue.
func TestNominatedPodsAreAddedUpOnce(t *testing.T) {
	metrics.Register()
	ctx, logger := t.Context(), klog.Background()
	pod := func(version, cpu string) *corev1.Pod {
		p := mustertesting.MakePod("p").UID("p").Requests("cpu", cpu).Obj()
		p.ResourceVersion, p.Status.NominatedNodeName = version, "n"
		return p
	}
	first := pod("1", "1")
	queue := upstream.NewTestQueueWithObjects(ctx, func(_, _ fwk.QueuedEntityInfo) bool { return false }, []runtime.Object{first})
	asks := &asking{}
	InstallNominator(&scheduler.Scheduler{SchedulingQueue: queue, Profiles: profile.Map{"p": asks}})
	n := asks.nominator
	nominated := func() fwk.PodInfo {
		pods := n.NominatedPodsForNode("n")
		require.Len(t, pods, 1)
		return pods[0]
	}
	milliCPU := func() int64 { return nominated().CalculateResource().Resource.GetMilliCPU() }

	assert.Empty(t, n.NominatedPodsForNode("n"))
	queue.Add(ctx, first)
	assert.EqualValues(t, 1000, milliCPU())
	once, again := nominated(), nominated()
	assert.Same(t, once, again)

	second := pod("2", "2")
	queue.Update(ctx, first, second)
	assert.EqualValues(t, 2000, milliCPU())
	once, again = nominated(), nominated()
	assert.Same(t, once, again)

	n.DeleteNominatedPodIfExists(second)
	assert.Empty(t, n.NominatedPodsForNode("n"))

	// Another pod of the same name is another.
	queue.Delete(logger, second)
	third := pod("2", "3")
	third.UID = "q"
	queue.Add(ctx, third)
	// It comes with its sum, which goroutines that share it could not make without a race.
	last := nominated()
	last.GetPod().Spec.Containers = nil
	assert.EqualValues(t, 3000, last.CalculateResource().Resource.GetMilliCPU())
}

// asking is a profile that asks its nominator.
type asking struct {
	framework.Framework
	nominator fwk.PodNominator
}

func (a *asking) SetPodNominator(n fwk.PodNominator) { a.nominator = n }
