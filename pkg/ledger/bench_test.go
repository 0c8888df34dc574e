package ledger

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/resources"
)

// BenchmarkChargeAndAsk charges a pod three queues below the root, asks for room beside it and releases it.
func BenchmarkChargeAndAsk(b *testing.B) {
	l := New()
	l.SetQueue(queue("a", "", "1000000"))
	l.SetQueue(queue("b", "a", "1000000"))
	l.SetQueue(queue("c", "b", "1000000"))
	amount := resources.List{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8 << 30, corev1.ResourcePods: 1}
	for n := range 1000 {
		l.Charge(types.UID(fmt.Sprint("other-", n)), "c", amount)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Charge("pod", "c", amount)
		if l.Room("c", amount) != nil {
			b.Fatal("there is room")
		}
		l.Release("pod")
	}
}
