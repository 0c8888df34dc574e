package timeline_test

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/timeline"
)

// busyCluster has 5,000 nodes of eight devices, 5,000 runs and 1,000 gangs that wait.
func busyCluster(random *rand.Rand, unknown bool) *timeline.Cluster {
	const nodes, runs, gangs = 5000, 5000, 1000
	amount := func(devices int) resources.List {
		return resources.List{corev1.ResourceCPU: int64(devices) * 8000, corev1.ResourceMemory: int64(devices) << 36, "nvidia.com/gpu": int64(devices)}
	}
	c := &timeline.Cluster{Now: now, Queues: []resources.List{amount(100), amount(1000)}}
	free := make([]int, nodes)
	for i := range runs {
		run := timeline.Run{Queues: []int{i % 2}, End: in(random.IntN(100_000))}
		if unknown && random.IntN(10) == 0 {
			run.End = time.Time{}
		}
		for range 1 + random.IntN(3) {
			if n, devices := random.IntN(nodes), 1+random.IntN(8); free[n]+devices <= 8 {
				free[n] += devices
				run.On = append(run.On, timeline.Amount{Node: n, Of: amount(devices)})
			}
		}
		c.Runs = append(c.Runs, run)
	}
	for _, used := range free {
		c.Nodes = append(c.Nodes, amount(8-used))
	}
	for devices := 1; devices <= 8; devices *= 2 {
		c.Kinds = append(c.Kinds, timeline.Kind{Requests: amount(devices)})
	}
	for range gangs {
		g := timeline.Gang{Needs: []timeline.Need{{Kind: random.IntN(4), Count: 1 << random.IntN(8)}}, For: time.Duration(1+random.IntN(100_000)) * time.Second}
		if random.IntN(4) == 0 {
			g.Needs = append(g.Needs, timeline.Need{Kind: random.IntN(4), Count: 1})
		}
		if random.IntN(3) == 0 {
			g.Queues = []int{random.IntN(2)}
		}
		if unknown && random.IntN(10) == 0 {
			g.For = 0
		}
		c.Gangs = append(c.Gangs, g)
	}
	return c
}

func BenchmarkPlan(b *testing.B) {
	for name, unknown := range map[string]bool{"all is known": false, "a tenth is not": true} {
		b.Run(name, func(b *testing.B) {
			c := busyCluster(rand.New(rand.NewPCG(1, 2)), unknown)
			for b.Loop() {
				timeline.Plan(c)
			}
		})
	}
}
