package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfANativeGangSeeEachOthersQuotaWhileTheyAreTried goes through what upstream does with a native pod group: it tries each pod and
// reserves for it, takes all back, and reserves for real without asking again.
func TestPodsOfANativeGangSeeEachOthersQuotaWhileTheyAreTried(t *testing.T) {
	s := openStore()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	var pods []*corev1.Pod
	for i := range 3 {
		pods = append(pods, mustertesting.MakePod(fmt.Sprint(i)).UID(fmt.Sprint(i)).NativeGroup("native").QueueName("q").
			SchedulerName("muster").Requests("cpu", "1").Obj())
	}
	for _, pod := range pods[:2] {
		require.Nil(t, s.QuotaShortage(pod))
		s.TryNative(pod)
	}
	assert.NotNil(t, s.QuotaShortage(pods[2]), "two of them are all that the queue holds")
	// One of them is found to be bound by an earlier attempt, of which the answer was lost.
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "node"
	s.SetPod(bound)
	for _, pod := range pods[:2] {
		s.EndTryOfNative(pod)
	}
	_, _, charged := s.ledger.Charged(bound.UID)
	assert.True(t, charged, "what the API says stays")
	_, all := s.ledger.Totals("q")
	assert.EqualValues(t, 1000, all[corev1.ResourceCPU], "nothing is left of the trial")
	s.Reserve(pods[1], "node")
	assert.EqualValues(t, 2000, s.ledger.Used("q")[corev1.ResourceCPU])
	assert.NotNil(t, s.QuotaShortage(pods[2]))

	queueless := mustertesting.MakePod("p").UID("p").NativeGroup("native").Requests("cpu", "1").Obj()
	s.TryNative(queueless)
	assert.NotContains(t, s.ledger.Queues(), "", "who names no queue takes nothing of any")
	s.EndTryOfNative(queueless)
}
