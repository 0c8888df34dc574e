package coscheduling

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"

	"github.com/muster-sched/muster/pkg/scheduler/state"
)

const (
	limitsKey fwk.StateKey = "Limits" + Name

	roomReserved  = "room is reserved for a gang that has waited longer"
	minimumWaits  = "the minimum of a gang waits for this room"
	otherNodeOnly = "the gang was decided to fit with the pod on another node"
	otherDomain   = "the network topology of the gang does not allow this node"
	beyondBound   = "the gang runs in %s, which is wider than its network topology allows: restart it to place it anew"
)

// limits are what a pod is held to in its cycle. Pods that are held to nothing have none, and skip Filter.
type limits struct {
	rejected  bool // in PreFilter
	entry     state.Entry
	nominated string // the node that is kept for the pod already, "" for none
	endOf     func(*corev1.Pod) (time.Time, bool)
	requests  resources.List // what the pod takes, if room is reserved for gangs or needed by them
	names     []corev1.ResourceName
	barred    atomic.Bool // a node was refused because of that
}

// Clone returns the limits themselves: they hold for the cycle and all copies of its state.
func (l *limits) Clone() fwk.StateData { return l }

func limitsOf(cycle fwk.CycleState) *limits {
	data, err := cycle.Read(limitsKey)
	if err != nil {
		return nil
	}
	l, _ := data.(*limits)
	return l
}

// reject rejects a pod in PreFilter.
func reject(cycle fwk.CycleState, why string) (*fwk.PreFilterResult, *fwk.Status) {
	cycle.Write(limitsKey, &limits{rejected: true})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// limit holds a pod to its node, and off what is reserved. The result of PreFilter is not enough. A nominated node or a hint is tried before
// and regardless of it, so Filter checks again.
func limit(cycle fwk.CycleState, pod *corev1.Pod, entry state.Entry, endOf func(*corev1.Pod) (time.Time, bool)) (*fwk.PreFilterResult, *fwk.Status) {
	l := &limits{entry: entry, nominated: pod.Status.NominatedNodeName, endOf: endOf}
	if entry.Near != nil && entry.Node == "" && entry.Near.Missing+entry.Near.Beyond != "" {
		return reject(cycle, whyNoDomain(entry.Near))
	}
	if len(entry.Reserved)+len(entry.Holds) > 0 {
		l.requests = resources.PodRequests(pod)
		l.names = slices.Collect(maps.Keys(l.requests))
	} else if entry.Node == "" && entry.Near == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cycle.Write(limitsKey, l)
	if entry.Node == "" {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(entry.Node)}, nil
}

// whyNoDomain says why no node is close enough for a pod.
func whyNoDomain(near *placement.Near) string {
	if near.Missing != "" {
		return near.Missing
	}
	return fmt.Sprintf(beyondBound, near.Beyond)
}

// refuses says why a pod may not go to a node, or nil.
func (l *limits) refuses(node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if l.entry.Node != "" && l.entry.Node != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, otherNodeOnly)
	}
	if l.entry.Node == "" && l.entry.Near != nil && !l.entry.Near.Allows(name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, otherDomain)
	}
	reserved := l.entry.Reserved.On(name)
	if !reserved && len(l.entry.Holds) == 0 {
		return nil
	}
	free := placement.FreeOn(node, l.names)
	if reserved && l.entry.Reserved.Bars(name, free, l.requests, placement.EndingOn(node, l.names, l.endOf)) {
		l.barred.Store(true)
		return fwk.NewStatus(fwk.Unschedulable, roomReserved)
	}
	if l.nominated == name {
		return nil // no gang gets this room: it would be kept for the pod for nothing
	}
	for _, need := range l.entry.Holds {
		if need.IsHurtBy(name, free, l.requests) {
			l.barred.Store(true)
			return fwk.NewStatus(fwk.Unschedulable, minimumWaits)
		}
	}
	return nil
}
