package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// The nodes of the part plan have planCPU cores, full with podsPerNode pods. A member of the gang takes the room of planVictims pods, and
// there is one member for each gangPart nodes.
const (
	planCPU     = 8
	podsPerNode = 10
	planVictims = 5
	gangPart    = 5
)

// owner and borrower are the queues: the borrower uses the whole cluster, of which half is the owner's.
const (
	owner    = "owner"
	borrower = "borrower"
)

// measurePlan takes room back for a gang, several times, and gives the median of each figure.
func measurePlan(ctx context.Context, o *options) ([]report.Figure, error) {
	b, err := ours.up(ctx, o.nodes, strconv.Itoa(planCPU))
	if err != nil {
		return nil, err
	}
	defer b.down(ctx)
	half := strconv.Itoa(o.nodes * planCPU / 2)
	if err := b.createQueues(ctx, "cpu", half, half); err != nil {
		return nil, err
	}
	var plans, starts, victims []float64
	for round := range o.rounds {
		p, err := b.plan(ctx, o.nodes)
		if err != nil {
			return nil, err
		}
		fmt.Printf("round %d: plan %.3f s, start %.2f s, %d victims\n", round+1, p.plan, p.start, p.victims)
		plans, starts, victims = append(plans, p.plan), append(starts, p.start), append(victims, float64(p.victims))
	}
	size := o.nodes / gangPart
	gang := fmt.Sprintf("gang of %d, %d nodes, %d pods: ", size, o.nodes, o.nodes*podsPerNode)
	return []report.Figure{
		report.AtMost(gang+"plan", report.Median(plans), 0.1, "s"),
		report.AtMost(gang+"victims gone to last bind", report.Median(starts), 5, "s"),
		report.AtMost(gang+"victims", report.Median(victims), float64(size*planVictims), "pods"),
	}, nil
}

// createQueues creates the two queues with what each is owed of a resource.
func (b *bench) createQueues(ctx context.Context, resource, owned, borrowed string) error {
	for name, amount := range map[string]string{owner: owned, borrower: borrowed} {
		queue := mustertesting.MakeQueue(name).Deserved(resource, amount).Obj()
		if _, err := b.Muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating queue %s: %w", name, err)
		}
	}
	return nil
}

// planned is how one gang got its room. It has the seconds of decisions, those from the last victim's end to the last bind, and the
// victims.
type planned struct {
	plan, start float64
	victims     int
}

// plan fills the nodes, submits the gang and waits until it is bound.
func (b *bench) plan(ctx context.Context, nodes int) (p planned, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b.pods.reset()
	var pods []*corev1.Pod
	cpu := fmt.Sprintf("%dm", planCPU*1000/podsPerNode)
	for i := range nodes * podsPerNode {
		pods = append(pods, podOn("runs-"+strconv.Itoa(i), borrower, i%nodes, "cpu", cpu, "memory", "100Mi"))
	}
	if err := b.fill(ctx, pods); err != nil {
		return p, err
	}
	if err := b.settle(ctx, localcluster.MusterScheduler); err != nil {
		return p, err
	}
	before, err := b.Metrics(ctx, localcluster.MusterScheduler)
	if err != nil {
		return p, err
	}
	size := nodes / gangPart
	if _, err := b.submit(ctx, ours, owner, fmt.Sprintf("%dm", planVictims*planCPU*1000/podsPerNode), 1, size); err != nil {
		return p, err
	}
	if err := b.pods.await(ctx, "the gang is bound", func() bool { return b.pods.role(waits).bound == size }); err != nil {
		return p, err
	}
	after, err := b.Metrics(ctx, localcluster.MusterScheduler)
	if err != nil {
		return p, err
	}
	const decisions = "muster_gang_decision_duration_seconds"
	p.plan = after.Seconds(decisions) - before.Seconds(decisions)
	r := b.pods.role(runs)
	p.victims = r.gone
	p.start = max(0, b.pods.role(waits).lastBound.Sub(r.lastGone).Seconds())
	return p, b.empty(ctx, ours)
}
