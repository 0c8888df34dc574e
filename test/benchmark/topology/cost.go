package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/coscheduling"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// shape is gangs that come one after another to 5,000 nodes in racks of 100. Upstream's benchmark has these.
type shape struct{ gangs, pods int }

var shapes = []shape{{1000, 3}, {3, 1000}}

// measureSpeed compares the processor time of gangs, each in one rack, with that of the same gangs without a topology.
func measureSpeed(t *testing.T, o *options) (figures []report.Figure, err error) {
	network := racks(5000, 100)
	inOneRack := &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1)}
	for _, s := range shapes {
		of := func(within *schedulingv1beta1.NetworkTopologySpec) []gang {
			return s.of(gang{requests: []string{"cpu", "100m", "memory", "500Mi"}, within: within})
		}
		ratio, err := compare(o.rounds,
			func() error { return (&replay{}).run(t, network, false, of(nil)) },
			func() error { return (&replay{}).run(t, network, true, of(inOneRack)) })
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("speed of %d gangs of %d in one rack each, over the same without a topology", s.gangs, s.pods)
		figures = append(figures, report.AtLeast(name, ratio, 0.9, ""))
	}
	return figures, nil
}

// measureUnused compares the shipped profile with one without the score. Gangs ask for GPUs, and no domain is known.
func measureUnused(t *testing.T, o *options) ([]report.Figure, error) {
	network, gangs := racks(5000, 100), shapes[0].of(gang{requests: []string{"cpu", "100m", gpus, "1"}})
	ratio, err := compare(2*o.rounds+1,
		func() error { return (&replay{}).run(t, network, false, gangs) },
		func() error { return (&replay{change: withoutScore}).run(t, network, false, gangs) })
	return []report.Figure{report.AtMost("time of gangs that ask for GPUs while no domain is known, over the same without the score", ratio, 1.01, "")}, err
}

func withoutScore(profile *schedulerapi.KubeSchedulerProfile) {
	for _, set := range []*schedulerapi.PluginSet{&profile.Plugins.PreScore, &profile.Plugins.Score} {
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p schedulerapi.Plugin) bool { return p.Name == coscheduling.Name })
		set.Disabled = append(set.Disabled, schedulerapi.Plugin{Name: coscheduling.Name})
	}
}

// of are the gangs of a shape.
func (s shape) of(like gang) []gang {
	like.submit, like.pods = time.Minute, s.pods
	return slices.Repeat([]gang{like}, s.gangs)
}

// compare is the median over some rounds of the processor time of one run over that of another.
func compare(rounds int, one, other func() error) (float64, error) {
	ratios := make([]float64, rounds)
	for i := range ratios {
		a, err := timeOf(one)
		if err != nil {
			return 0, err
		}
		b, err := timeOf(other)
		if err != nil {
			return 0, err
		}
		ratios[i] = a.Seconds() / b.Seconds()
	}
	slices.Sort(ratios)
	return ratios[rounds/2], nil
}

// timeOf is the processor time of a run.
func timeOf(run func() error) (time.Duration, error) {
	runtime.GC()
	begun := processorTime()
	err := run()
	return processorTime() - begun, err
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measureMemory measures what the tree of 5,000 nodes takes.
func measureMemory(*testing.T, *options) ([]report.Figure, error) {
	network := racks(5000, 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tree := network.tree()
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes, domains := float64(after.HeapAlloc)-float64(before.HeapAlloc), float64(len(tree.Domains))
	runtime.KeepAlive(network)
	return []report.Figure{
		report.AtMost("memory of the tree for each node, beside 1 KiB for each domain", max(0, bytes-1024*domains)/float64(len(tree.Nodes))/1024, 0.3, "KiB"),
	}, nil
}
