package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
)

// Queue makes the page of a queue that exists.
func Queue(f Facts, name string) Page {
	queue := f.queue(name)
	page := Page{Title: fmt.Sprintf("Queue %s: %s", name, cmp.Or(queue.Status.State, "not seen by muster-controller yet"))}
	page.add("How full is it?", f.fullness(queue)...)
	if c := meta.FindStatusCondition(queue.Status.Conditions, schedulingv1beta1.QueueValidCondition); c != nil && c.Status == metav1.ConditionFalse {
		page.add("What is wrong with it?", inOneLine(c.Message))
	}
	page.add("Whether it takes Jobs", f.takes(queue)...)
	page.add("Who uses it?", users(queue)...)
	var running []string
	for i := range f.Groups {
		if group := &f.Groups[i]; usage.QueueOf(group) == name && group.Status.Phase == schedulingv1beta1.PodGroupRunning {
			running = append(running, fmt.Sprintf("%s: %s", titleOf(group), withoutPods(usage.MinimumOf(group))))
		}
	}
	slices.Sort(running)
	page.add("What runs, and what does its minimum need?", first(10, running)...)
	var waiting []string
	for i, group := range f.waiting(name) {
		line := fmt.Sprintf("%d. %s: needs %s", i+1, titleOf(group), withoutPods(usage.MinimumOf(group)))
		if c := schedulingv1beta1.CurrentCondition(group.Status.Conditions); c != nil {
			line += "; " + inOneLine(c.Message)
		}
		waiting = append(waiting, line)
	}
	page.add("What waits, and in which order?", first(10, waiting)...)
	f.addEnd(&page)
	return page
}

// fullness has a line for each resource that is used or limited in the queue, or limited in an ancestor.
func (f *Facts) fullness(queue *schedulingv1beta1.Queue) []string {
	var lines []string
	for _, q := range f.path(queue.Name) {
		used, limit, kept := resources.FromResourceList(q.Status.Allocated), limitOf(q), reservedFor(q)
		deserved, guarantee := shareOf(q), resources.FromResourceList(q.Spec.Guarantee.Resource)
		names := limit.Clone()
		if q == queue {
			names.Add(used)
		}
		for _, name := range sorted(names) {
			if name == corev1.ResourcePods && limit[name] == 0 {
				continue
			}
			lines = append(lines, fullnessOf(q.Name, name, used[name], kept[name], limit, deserved, guarantee))
		}
	}
	if len(lines) == 0 {
		return []string{"Nothing is used, and nothing is limited."}
	}
	return lines
}

// shareOf is what a queue is owed: as muster-controller has worked it out, or else as it is written.
func shareOf(queue *schedulingv1beta1.Queue) resources.List {
	if extension := queue.Status.Muster; extension != nil && extension.Deserved != nil {
		return resources.FromResourceList(extension.Deserved)
	}
	return resources.FromResourceList(queue.Spec.Deserved)
}

func fullnessOf(queue string, name corev1.ResourceName, used, reserved int64, limit, deserved, guarantee resources.List) string {
	line := fmt.Sprintf("%s: %s %s used", queue, format(name, used), name)
	if most, limited := limit[name]; limited {
		line = fmt.Sprintf("%s: %s of %s %s used", queue, format(name, used), format(name, most), name)
		if most > 0 {
			line += fmt.Sprintf(" (%d%%)", used*100/most)
		}
	}
	var more []string
	if reserved > 0 {
		more = append(more, format(name, reserved)+" reserved for Jobs that start")
	}
	if share, written := deserved[name]; written {
		more = append(more, "share "+format(name, share))
	}
	if kept, written := guarantee[name]; written {
		more = append(more, "guaranteed "+format(name, kept))
	}
	return strings.Join(append([]string{line}, more...), ", ")
}

// takes says whether Jobs may be created in a queue, and what to do where they may not.
func (f *Facts) takes(queue *schedulingv1beta1.Queue) []string {
	for i := range f.Queues {
		if f.Queues[i].ParentName() == queue.Name {
			return []string{fmt.Sprintf("No: there are queues below it, as %s. Create Jobs there.", f.Queues[i].Name)}
		}
	}
	switch {
	case queue.Name == schedulingv1beta1.RootQueue:
		return []string{"No: it is the root of all queues."}
	case queue.Status.State == schedulingv1beta1.QueueStateOpen:
		return []string{"Yes."}
	case queue.Annotations[schedulingv1beta1.ClosedByParentAnnotation] == "true":
		return []string{fmt.Sprintf("No: its parent is closed. Open it with muster queue open %s.", queue.ParentName())}
	case queue.Status.State == schedulingv1beta1.QueueStateClosed, queue.Status.State == schedulingv1beta1.QueueStateClosing:
		return []string{fmt.Sprintf("No: it is closed. Open it with muster queue open %s.", queue.Name)}
	}
	return []string{"Not yet: muster-controller has not opened it."}
}

// users lists the users of a queue by cpu, the most first.
func users(queue *schedulingv1beta1.Queue) []string {
	if queue.Status.Muster == nil {
		return nil
	}
	all := slices.Clone(queue.Status.Muster.Users)
	slices.SortStableFunc(all, func(a, b schedulingv1beta1.UserUsage) int { return b.Allocated.Cpu().Cmp(*a.Allocated.Cpu()) })
	var lines []string
	for _, user := range all {
		lines = append(lines, user.Name+": "+withoutPods(resources.FromResourceList(user.Allocated)))
	}
	if n := int(queue.Status.Muster.OtherUsers); n > 0 {
		lines = append(lines, "and "+count(n, "other user"))
	}
	return lines
}

func withoutPods(amounts resources.List) string {
	delete(amounts, corev1.ResourcePods)
	return cmp.Or(amounts.InWords(), "nothing")
}
