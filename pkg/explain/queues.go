package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// Queue makes the page of a queue that exists.
func Queue(f Facts, name string) Page {
	queue := f.queue(name)
	page := Page{
		Title: fmt.Sprintf("Queue %s: %s", name, cmp.Or(string(queue.Status.State), notSeen)),
		Kind:  "Queue", Name: name, Phase: string(queue.Status.State),
	}
	page.add("How full is it?", f.fullness(queue)...)
	if c := meta.FindStatusCondition(queue.Status.Conditions, schedulingv1beta1.QueueValidCondition); c != nil && c.Status == metav1.ConditionFalse {
		page.add("What is wrong with it?", inOneLine(c.Message))
	}
	page.add("Whether it takes Jobs", f.takes(queue)...)
	page.add("Who uses it?", users(queue)...)
	var running []string
	for i := range f.Groups {
		if group := &f.Groups[i]; admission.QueueOf(group) == name && group.Status.Phase == schedulingv1beta1.PodGroupRunning {
			page.Running = append(page.Running, inQueue(group))
			running = append(running, fmt.Sprintf("%s: %s", titleOf(group), withoutPods(admission.MinimumOf(group))))
		}
	}
	slices.Sort(running)
	page.add("What runs, and what does its minimum need?", first(10, running)...)
	page.add("What waits, and in which order?", first(10, f.waitingIn(&page, name))...)
	page.add(headingNext, first(10, f.nextHours(name))...)
	page.add("What runs and waits in your namespace?", first(10, f.own(name))...)
	f.addEnd(&page)
	return page
}

func inQueue(group *schedulingv1beta1.PodGroup) InQueue {
	kind, name := ownerOf(group)
	return InQueue{Kind: kind, Namespace: group.Namespace, Name: name, Minimum: admission.MinimumOf(group).ToResourceList()}
}

// waitingIn lists what waits in a queue. A message that several have stands once.
func (f *Facts) waitingIn(page *Page, name string) []string {
	if f.Lacks(PartGroups, PartPriorities, PartPhJobs) {
		return nil
	}
	var lines []string
	for i, group := range f.waiting(name) {
		entry := inQueue(group)
		line := fmt.Sprintf("%d. %s: needs %s", i+1, titleOf(group), withoutPods(admission.MinimumOf(group)))
		if c := schedulingv1beta1.CurrentCondition(group.Status.Conditions); c != nil {
			entry.Message = bare(c.Message)
			if page.hasSaid(entry.Message) {
				line += "; the same"
			} else {
				line = joinedBy(line, inOneLine(entry.Message))
				page.said = append(page.said, entry.Message)
			}
		}
		page.Waiting, lines = append(page.Waiting, entry), append(lines, line)
	}
	return lines
}

func joinedBy(line, more string) string {
	if more == "" {
		return line
	}
	return line + "; " + more
}

// fullness has a line for each resource that is used or limited in the queue, or limited in an ancestor.
func (f *Facts) fullness(queue *schedulingv1beta1.Queue) []string {
	var lines []string
	for _, q := range f.path(queue.Name) {
		figures := f.FiguresOf(q)
		figures.Limit = limitOf(q) // each ancestor has lines of its own
		names := figures.Limit.Clone()
		if q == queue {
			names.Add(figures.Used)
			names.Add(figures.Reserved)
		}
		for _, name := range sorted(names) {
			if name == corev1.ResourcePods && figures.Limit[name] == 0 {
				continue
			}
			lines = append(lines, fullnessOf(q.Name, name, figures))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "Nothing is used, and nothing is limited.")
	}
	if queue.Status.Muster == nil {
		return lines // no controller has counted its Jobs
	}
	running, waiting := JobsOf(queue)
	return append(lines, fmt.Sprintf("Jobs, with those of queues below it: %d running, %d waiting.", running, waiting))
}

func fullnessOf(queue string, name corev1.ResourceName, figures quota.Figures) string {
	used := figures.Used[name]
	line := fmt.Sprintf("%s: %s %s used", queue, format(name, used), name)
	if most, limited := figures.Limit[name]; limited {
		line = fmt.Sprintf("%s: %s of %s %s used", queue, format(name, used), format(name, most), name)
		if most > 0 {
			line += fmt.Sprintf(" (%d%%)", used*100/most)
		}
	}
	var more []string
	if reserved := figures.Reserved[name]; reserved > 0 {
		more = append(more, format(name, reserved)+" reserved for Jobs that start")
	}
	if share, known := figures.Share[name]; known {
		more = append(more, "share "+format(name, share))
	}
	if kept, written := figures.Guarantee[name]; written {
		more = append(more, "guaranteed "+format(name, kept))
	}
	if borrowed := figures.Borrowed()[name]; borrowed > 0 {
		more = append(more, format(name, borrowed)+" borrowed")
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
		lines = append(lines, "and "+text.Count(n, "other user"))
	}
	return lines
}

func withoutPods(amounts resources.List) string {
	delete(amounts, corev1.ResourcePods)
	return cmp.Or(amounts.InWords(), "nothing")
}
