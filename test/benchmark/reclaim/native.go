package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// shape is a load of gangs on nodes of nativeCPU cores. Each member takes nearly a whole node.
type shape struct {
	name        string
	gangs, size int
	// cpus are the requests of the pods that run on a node.
	cpus func(node int) []string
	// mixed says that the victims on one node are cheaper than the victims on another. Fewer must go than with the native scheduler.
	// Otherwise no more must go, and the gangs must be faster.
	mixed bool
}

// The nodes of this part, and what a member of a gang requests: upstream's workload_preemption, GangPreemptionBasic.
const (
	nativeNodes = 100
	nativeCPU   = "4"
	memberCPU   = "3970m"
)

var (
	tenSmall = slices.Repeat([]string{"40m"}, 10)
	oneLarge = []string{"400m"}
)

var shapes = []shape{
	{name: "gang of 100 over 1,000 pods", gangs: 1, size: 100, cpus: func(int) []string { return tenSmall }},
	{name: "10 gangs of 10 over 1,000 pods", gangs: 10, size: 10, cpus: func(int) []string { return tenSmall }},
	{name: "gang of 50, ten victims or one on a node", gangs: 1, size: 50, mixed: true, cpus: func(node int) []string {
		if node%2 == 0 {
			return oneLarge
		}
		return tenSmall
	}},
}

// outcome is what came of a shape.
type outcome struct {
	seconds float64
	victims int
}

const (
	// speedGoal is how many times as fast as the native scheduler gangs are to be.
	speedGoal = 1.5
	// fewer is the ratio to the native scheduler's victims that must not be exceeded in the mixed shape.
	fewer = 0.99
)

// measureBesideNative runs each shape with both schedulers, in turn.
func measureBesideNative(ctx context.Context, o *options) ([]report.Figure, error) {
	variants := []variant{ours, native}
	clusters := map[string]*bench{}
	defer func() {
		for _, b := range clusters {
			b.down(ctx)
		}
	}()
	for _, v := range variants {
		b, err := v.up(ctx, nativeNodes, nativeCPU)
		if err != nil {
			return nil, fmt.Errorf("starting %s: %w", v.name, err)
		}
		clusters[v.name] = b
	}
	var figures []report.Figure
	for _, s := range shapes {
		outcomes := map[string][]outcome{}
		for round := range o.rounds {
			for _, v := range variants {
				measured, err := clusters[v.name].run(ctx, v, s)
				if err != nil {
					return figures, fmt.Errorf("running %s with %s: %w", s.name, v.name, err)
				}
				fmt.Printf("round %d: %s, %s: %.2f s, %d victims\n", round+1, s.name, v.name, measured.seconds, measured.victims)
				outcomes[v.name] = append(outcomes[v.name], measured)
			}
			slices.Reverse(variants)
		}
		figures = append(figures, s.judge(outcomes[ours.name], outcomes[native.name])...)
	}
	return figures, nil
}

// judge compares the outcomes of a shape by the ratios within each round.
func (s shape) judge(own, upstream []outcome) []report.Figure {
	var speed, victims []float64
	for round := range own {
		speed = append(speed, upstream[round].seconds/own[round].seconds)
		victims = append(victims, float64(own[round].victims)/float64(max(1, upstream[round].victims)))
	}
	if s.mixed {
		return []report.Figure{report.AtMost(s.name+": victims to native", report.Median(victims), fewer, "ratio")}
	}
	return []report.Figure{
		report.AtMost(s.name+": victims to native", report.Median(victims), 1, "ratio"),
		report.AtLeast(s.name+": speed to native", report.Median(speed), speedGoal, "ratio"),
	}
}

// run fills the nodes, submits the gangs and measures until all are bound. Gangs that are not within patience count with that time.
func (b *bench) run(ctx context.Context, v variant, s shape) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b.pods.reset()
	var pods []*corev1.Pod
	for node := range nativeNodes {
		for _, cpu := range s.cpus(node) {
			pods = append(pods, podOn("runs-"+strconv.Itoa(len(pods)), "", node, "cpu", cpu, "memory", "100Mi"))
		}
	}
	if err := b.fill(limited, pods); err != nil {
		return outcome{}, err
	}
	if err := b.settle(limited, b.Options().Scheduler); err != nil {
		return outcome{}, err
	}
	begun, err := b.submit(limited, v, "", memberCPU, s.gangs, s.size)
	if err != nil {
		return outcome{}, err
	}
	all := s.gangs * s.size
	err = b.pods.await(limited, "the gangs are bound", func() bool { return b.pods.role(waits).bound == all })
	result := outcome{b.pods.role(waits).lastBound.Sub(begun).Seconds(), b.pods.role(runs).gone}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		fmt.Printf("%s: only %d of %d pods are bound within %v\n", v.name, b.pods.role(waits).bound, all, timeout)
		result.seconds, err = timeout.Seconds(), nil
	}
	if err != nil {
		return outcome{}, err
	}
	emptying, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	return result, b.empty(emptying, v)
}
