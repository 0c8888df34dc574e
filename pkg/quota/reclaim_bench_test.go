package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// BenchmarkReclaim asks of 5,000 candidates in 50 queues on 3 levels, and takes 2,000 of them.
func BenchmarkReclaim(b *testing.B) {
	tree := NewTree()
	tree.Set("waits", Terms{})
	var units []Unit
	for i := range 50 {
		parent := fmt.Sprint("org-", i/10)
		tree.Set(parent, Terms{})
		tree.Set(fmt.Sprint("team-", i), Terms{Parent: parent})
	}
	for i := range 5000 {
		u := Unit{Account: fmt.Sprint("team-", i%50), Requests: resources.List{corev1.ResourceCPU: 1000 + int64(i%4), corev1.ResourceMemory: 1 << 30, "nvidia.com/gpu": 1, corev1.ResourcePods: 1}}
		units = append(units, u)
		tree.Add(u.Account, u.Requests)
	}
	want := resources.List{corev1.ResourceCPU: 2_000_000, corev1.ResourceMemory: 2000 << 30, "nvidia.com/gpu": 2000, corev1.ResourcePods: 2000}
	sums := resources.Sums{}
	sums.Add(want)
	total := tree.Total(Root).List()
	tree.Set("waits", Terms{Deserved: want})
	shares := tree.ShareOut(total, map[string]resources.Sums{"waits": sums})
	for b.Loop() {
		r, taken := tree.Reclaim(shares, "waits", 0, want), 0
		for _, u := range units {
			if r.Rule(u) != ByShare {
				b.Fatal("not a candidate")
			}
		}
		for _, u := range units {
			if taken < 2000 && r.Take(u) {
				taken++
			}
		}
		if taken != 2000 {
			b.Fatal("taken: ", taken)
		}
	}
}
