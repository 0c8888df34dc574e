package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// shape is gangs that come one after another to 5,000 nodes in racks of 100, as in upstream's benchmark of gangs.
type shape struct{ gangs, pods int }

var shapes = []shape{{1000, 3}, {3, 1000}}

// measureSpeed compares the processor time of gangs that must be in one rack with that of the same gangs without a topology.
func measureSpeed(t *testing.T, o *options) (figures []report.Figure, err error) {
	network := racks(5000, 100)
	inOneRack := &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1)}
	for _, s := range shapes {
		var ratios []float64
		for range o.rounds {
			free, err := timeOf(t, network, s, false, nil)
			if err != nil {
				return nil, err
			}
			bound, err := timeOf(t, network, s, true, inOneRack)
			if err != nil {
				return nil, err
			}
			ratios = append(ratios, free.Seconds()/bound.Seconds())
		}
		slices.Sort(ratios)
		name := fmt.Sprintf("speed of %d gangs of %d in one rack each, over the same without a topology", s.gangs, s.pods)
		figures = append(figures, report.AtLeast(name, ratios[len(ratios)/2], 0.9, ""))
	}
	return figures, nil
}

// timeOf is the processor time from the first gang that comes until the last one has started.
func timeOf(t *testing.T, n *network, s shape, describe bool, within *schedulingv1beta1.NetworkTopologySpec) (took time.Duration, err error) {
	gangs := make([]gang, s.gangs)
	for i := range gangs {
		gangs[i] = gang{submit: time.Minute, pods: s.pods, requests: []string{"cpu", "100m", "memory", "500Mi"}, within: within}
	}
	runtime.GC()
	begun := processorTime()
	err = (&replay{}).run(t, n, describe, gangs)
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
