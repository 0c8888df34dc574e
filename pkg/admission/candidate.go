package admission

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
)

// Candidate is a PodGroup that waits for admission, or for its start.
type Candidate struct {
	// Group is the PodGroup.
	Group *schedulingv1beta1.PodGroup
	// Key is its "<namespace>/<name>".
	Key string
	// Queue of it.
	Queue string
	// Account is the charged account: its user's in the queue, or the queue itself.
	Account string
	// Want is the demand of its minimum.
	Want resources.List
	// Lacks is the part of Want that no member has yet. A PodGroup may come after its pods, or anew under its name.
	Lacks resources.List
	// Rank is its place among the candidates of its queue. The creation time and the name are its own, or those of the PhJob that it is for.
	Rank reservations.Rank
	// Purpose says what its minResources are for.
	Purpose Purpose
	// NeverPreempts: nothing that runs may be evicted for it.
	NeverPreempts bool
	// ByQuotaAlone: it is for a PhJob, about which only quota decides, in order. It is admitted though no node has room, and it blocks later
	// candidates of any queue. No room is kept for it otherwise.
	ByQuotaAlone bool
	// IsEarly says that the PodGroup of an earlier PhJob of its group is still to come.
	IsEarly bool
	// Turn is how much longer freed room that it lacks is kept for it from later candidates. It is 0 if it is not.
	Turn time.Duration
	// WaitingTime is how long it waits before it is admitted without room; 0 for as long as it takes.
	WaitingTime time.Duration

	ignored error // says which annotation of it is wrong, and why; nil for none
}

// NewCandidate reads a PodGroup alone: Look and TakePlaceOf add facts of other objects.
func NewCandidate(group *schedulingv1beta1.PodGroup) *Candidate {
	waitingTime, err := WaitingTime(group)
	key, want := groupKey(group.Namespace, group.Name), MinimumOf(group)
	return &Candidate{
		Group: group, Key: key, Queue: QueueOf(group), Account: AccountOf(group), Want: want, Lacks: want,
		Rank:        reservations.Rank{Since: group.CreationTimestamp.Time, Name: key},
		WaitingTime: waitingTime, ignored: err,
	}
}

// TakePlaceOf gives a candidate the place of the PhJob that it is for, by the PhJob's creation time and name.
func (c *Candidate) TakePlaceOf(created time.Time, name string) {
	c.ByQuotaAlone, c.Rank.Since, c.Rank.Name, c.Turn = true, created, groupKey(c.Group.Namespace, name), 0
}

// byTurn orders the candidates of a queue, as the scheduler orders waiting gangs.
func byTurn(a, b *Candidate) int { return a.Rank.Compare(b.Rank) }

// UntilOverdue is how long a candidate has to wait at most. It is 0 if there is no end to that, or it is over.
func (c *Candidate) UntilOverdue(now time.Time) time.Duration {
	if c.WaitingTime == 0 {
		return 0
	}
	return max(0, c.Group.CreationTimestamp.Add(c.WaitingTime).Sub(now))
}

func (c *Candidate) isOverdue(now time.Time) bool {
	return c.WaitingTime > 0 && c.UntilOverdue(now) == 0
}

// Look takes over what the members of a candidate and its PriorityClass say. It forgets its PhJob and its turn.
func (c *Candidate) Look(members []*corev1.Pod, classes Classes) {
	c.Rank.Priority = classes.priorityOf(c.Group, members)
	c.NeverPreempts = classes.neverPreempts(c.Group, members)
	c.ByQuotaAlone, c.IsEarly, c.Turn = false, false, 0
}

// WaitingTime is how long a PodGroup waits before it is admitted without room; 0 if it has no such annotation. The error names the
// annotation and the valid values.
func WaitingTime(group *schedulingv1beta1.PodGroup) (time.Duration, error) {
	for _, name := range []string{schedulingv1beta1.WaitingTimeAnnotation, schedulingv1beta1.OldWaitingTimeAnnotation} {
		text, written := group.Annotations[name]
		if !written {
			continue
		}
		wait, err := time.ParseDuration(text)
		if err != nil || wait <= 0 {
			return 0, fmt.Errorf("annotation %s is %.40q and is ignored: it must be a duration above 0, such as \"1h30m\"", name, text)
		}
		return wait, nil
	}
	return 0, nil
}

// PodGroupOf is the "<namespace>/<name>" of the PodGroup that a pod names, or "". A pod of a native pod group is the native plugin's, whatever
// its annotations say. So the scheduler sees it, too. No PodGroup can have a name with a slash: entries under it would never be read. The
// scheduler has the pod wait for its PodGroup, as it lets pods without one pass.
func PodGroupOf(pod *corev1.Pod) string {
	name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	if name == "" || strings.Contains(name, "/") || pod.Spec.SchedulingGroup != nil {
		return ""
	}
	return groupKey(pod.Namespace, name)
}

// QueueOf is the queue of a PodGroup.
func QueueOf(group *schedulingv1beta1.PodGroup) string {
	if group.Spec.Queue == "" {
		return schedulingv1beta1.DefaultQueue
	}
	return group.Spec.Queue
}

// AccountOf is the account that a PodGroup is charged to: its user's account in its queue, or the queue itself.
func AccountOf(group *schedulingv1beta1.PodGroup) string {
	return quota.Account(QueueOf(group), group.Labels[schedulingv1beta1.UserLabel])
}

func groupKey(namespace, name string) string { return namespace + "/" + name }

// Classes are the PriorityClasses that exist.
type Classes struct {
	values map[string]int32 // by name, and that of the global default by ""
	never  sets.Set[string] // that never preempt
}

// NewClasses reads PriorityClasses.
func NewClasses(all []*schedulingv1.PriorityClass) Classes {
	c := Classes{values: make(map[string]int32, len(all)+1), never: sets.New[string]()}
	for _, class := range all {
		c.values[class.Name] = class.Value
		if class.GlobalDefault {
			c.values[""] = max(c.values[""], class.Value)
		}
		if class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever {
			c.never.Insert(class.Name)
		}
	}
	return c
}

// priorityOf is the priority of a PodGroup: that of its class, but at most the highest among its pods. Without pods the class counts: they may
// not exist yet. A class that does not exist counts as 0.
func (c Classes) priorityOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) int32 {
	class := c.values[group.Spec.PriorityClassName]
	if group.Spec.PriorityClassName == "" {
		return class
	}
	var members gang.Gang
	for _, pod := range pods {
		if !gang.IsFinished(pod) {
			members.Put(gang.MemberOf(pod, nil))
		}
	}
	return members.Priority(&class)
}

// floorOf is the priority that a PodGroup's class gives it: no member counts for less.
func (c Classes) floorOf(group *schedulingv1beta1.PodGroup, g *gang.Gang) int32 {
	if class, known := c.values[group.Spec.PriorityClassName]; known && group.Spec.PriorityClassName != "" {
		return g.Priority(&class)
	}
	return math.MinInt32
}

// neverPreempts says whether nothing may be evicted for a PodGroup: its class forbids it, or one of its pods.
func (c Classes) neverPreempts(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) bool {
	return c.never.Has(group.Spec.PriorityClassName) || slices.ContainsFunc(pods, gang.NeverPreempts)
}
