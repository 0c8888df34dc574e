package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/gang"
)

// Headings that pages of several kinds have.
const (
	headingNow     = "What does it do now?"
	headingBefore  = "Who is before it?"
	headingFrees   = "What would free it?"
	headingOptions = "What can you do?"
)

// Job makes the page of a Job.
func Job(f Facts) Page {
	status := &f.Job.Status
	phase := cmp.Or(status.State.Phase, "not seen by muster-controller yet")
	page := Page{Title: fmt.Sprintf("Job %s/%s: %s, for %s", f.Job.Namespace, f.Job.Name, phase, short(f.Now.Sub(since(f.Job))))}
	page.add(headingNow, f.doesNow()...)
	if waitsOn(f.Job) {
		f.addWait(&page, jobCauses, status.State.Reason, status.State.Message)
	}
	f.addEnd(&page)
	f.stop(&page, "job", f.Job.Name)
	return page
}

// PodGroup makes the page of a PodGroup.
func PodGroup(f Facts) Page {
	group := f.Group
	page := Page{Title: fmt.Sprintf("PodGroup %s/%s: %s", group.Namespace, group.Name, cmp.Or(group.Status.Phase, schedulingv1beta1.PodGroupPending))}
	now := []string{fmt.Sprintf("%d pods run, %d have succeeded, %d have failed; %d start together.",
		group.Status.Running, group.Status.Succeeded, group.Status.Failed, group.Spec.MinMember)}
	if owner := batchv1alpha1.JobOf(group); owner != nil {
		now = append(now, fmt.Sprintf("It belongs to Job %s: see muster explain job %s.", owner.Name, owner.Name))
	}
	page.add(headingNow, now...)
	if waits(group) {
		reason, message := "PodGroupPending", ""
		if admitted(group) == 1 {
			reason = "Unschedulable"
		}
		if c := schedulingv1beta1.CurrentCondition(group.Status.Conditions); c != nil {
			message = c.Message
		}
		f.addWait(&page, jobCauses, reason, message)
	}
	f.addEnd(&page)
	return page
}

// Pod makes the page of a pod. nil is a pod that does not exist any more.
func Pod(f Facts, namespace, name string, pod *corev1.Pod) Page {
	page := Page{Title: fmt.Sprintf("Pod %s/%s", namespace, name)}
	if pod == nil {
		page.Title += ": does not exist"
		f.addEnd(&page)
		return page
	}
	page.Title += ": " + string(pod.Status.Phase)
	now := "It has no node."
	if pod.Spec.NodeName != "" {
		now = "Its node is " + pod.Spec.NodeName + "."
	}
	lines := []string{now}
	if f.Group != nil {
		lines = append(lines, "It starts together with its gang: "+titleOf(f.Group)+".")
	}
	page.add(headingNow, lines...)
	if c := gang.ScheduledCondition(pod); pod.Spec.NodeName == "" && !ended(pod) {
		reason, message := "", "The scheduler has not tried it yet. Does spec.schedulerName ("+pod.Spec.SchedulerName+") name one that runs?"
		if c != nil && c.Status == corev1.ConditionFalse {
			reason, message = c.Reason, c.Message
		}
		f.addWait(&page, podCauses, reason, message)
	}
	f.addEnd(&page)
	return page
}

// since is when a Job entered its phase.
func since(job *batchv1alpha1.Job) time.Time {
	if at := job.Status.State.LastTransitionTime; !at.IsZero() {
		return at.Time
	}
	return job.CreationTimestamp.Time
}

// waitsOn says whether a Job waits for something.
func waitsOn(job *batchv1alpha1.Job) bool {
	switch job.Status.State.Phase {
	case "", batchv1alpha1.Pending:
		return true
	case batchv1alpha1.Running:
		_, known := jobCauses[job.Status.State.Reason]
		return known
	}
	return false
}

// doesNow counts the pods of a Job, and says why it ended if it has.
func (f *Facts) doesNow() []string {
	s := &f.Job.Status
	lines := []string{fmt.Sprintf("%s running, %d pending, %d succeeded, %d failed, %d terminating; %d start together.",
		count(int(s.Running), "pod"), s.Pending, s.Succeeded, s.Failed, s.Terminating, s.MinAvailable)}
	tasks := make([]string, 0, len(f.Job.Spec.Tasks))
	for i := range f.Job.Spec.Tasks {
		task := nameOf(f.Job, i)
		tasks = append(tasks, fmt.Sprintf("%s %d/%d", task, s.TaskStatusCount[task].Phase[corev1.PodRunning], f.Job.Spec.Tasks[i].Replicas))
	}
	lines = append(lines, "Running by task: "+strings.Join(first(10, tasks), ", ")+".")
	if s.RetryCount > 0 {
		lines = append(lines, fmt.Sprintf("It was restarted %s; it fails when that would be more than %d.", count(int(s.RetryCount), "time"), f.Job.Spec.MaxRetry))
	}
	if !waitsOn(f.Job) && s.State.Reason != "" {
		lines = append(lines, joined("Why it is "+string(s.State.Phase)+": "+s.State.Reason, s.State.Message))
	}
	for _, delayed := range s.Delayed {
		lines = append(lines, fmt.Sprintf("A policy will answer %s of %s.", delayed.Event, cmp.Or(delayed.Task, "the Job")))
	}
	return lines
}

// nameOf is the name of a task, with its default.
func nameOf(job *batchv1alpha1.Job, i int) string {
	return cmp.Or(job.Spec.Tasks[i].Name, batchv1alpha1.DefaultTaskSpec+strconv.Itoa(i))
}

// addWait says why something waits, what is before it, what would free it and whether it can ever run.
func (f *Facts) addWait(page *Page, causes map[string]cause, reason, message string) {
	if c := f.unsupported(); c != nil {
		causes, reason, message = jobCauses, c.Reason, c.Message
	}
	known, isKnown := causes[reason]
	if inner, found := f.podReason(); found && reason == "Unschedulable" {
		known, reason = podCauses[inner], inner
	}
	if !isKnown {
		known = cause{ever: byAmounts}
	}
	var why []string
	if known.means != "" {
		why = append(why, known.means+" ("+reason+")")
	}
	if message != "" {
		why = append(why, "It says: "+inOneLine(message))
	}
	var found amounts
	if known.ever == byAmounts && f.Group != nil {
		found.add(f.inQueues(f.Group))
		found.add(f.ofUser(f.Group))
		found.add(f.onNodes(f.demands()))
	}
	page.add("Why does it wait?", append(why, found.holds...)...)
	if f.Group != nil {
		page.add(headingBefore, f.before()...)
	}
	frees := found.frees
	if known.frees != "" {
		frees = append(frees, known.frees)
	}
	page.add(headingFrees, frees...)
	page.add("Can it ever run?", ever(known.ever, found, isKnown)...)
	f.addTry(page)
}

// unsupported is the condition of a PodGroup that waits because it asks for what Muster does not have, else nil.
func (f *Facts) unsupported() *schedulingv1beta1.PodGroupCondition {
	if f.Group == nil || !waits(f.Group) {
		return nil
	}
	if c := schedulingv1beta1.CurrentCondition(f.Group.Status.Conditions); c != nil && c.Reason == schedulingv1beta1.NotSupportedReason {
		return c
	}
	return nil
}

func ever(p prospect, found amounts, isKnown bool) []string {
	switch {
	case p != byAmounts:
		return []string{inWords[p]}
	case len(found.never) > 0:
		return found.never
	case !isKnown:
		return []string{"Nothing that is known is against it."}
	}
	return []string{"Yes: it fits into its queue and on these nodes when enough of what runs has ended."}
}

// podReason is the reason of the first waiting member whose reason has a row.
func (f *Facts) podReason() (string, bool) {
	for i := range f.Members {
		if c := gang.ScheduledCondition(&f.Members[i]); c != nil && c.Status == corev1.ConditionFalse && !ended(&f.Members[i]) {
			if _, known := podCauses[c.Reason]; known {
				return c.Reason, true
			}
		}
	}
	return "", false
}

// before says at which place of its queue a PodGroup waits, and what is before it.
func (f *Facts) before() []string {
	name := usage.QueueOf(f.Group)
	waiting := f.waiting(name)
	place := slices.IndexFunc(waiting, func(group *schedulingv1beta1.PodGroup) bool { return group.UID == f.Group.UID })
	if place < 0 {
		return nil
	}
	if len(waiting) == 1 {
		return append([]string{"It is the only one that waits in queue " + name + "."}, f.beforeOnNodes()...)
	}
	lines := append([]string{fmt.Sprintf("It is the %s of %d that wait in queue %s.", ordinal(place+1), len(waiting), name)}, f.beforeOnNodes()...)
	var ahead []string
	for _, group := range waiting[:place] {
		why := "older"
		switch {
		case admitted(group) > admitted(f.Group):
			why = "already admitted"
		case f.priority(group) > f.priority(f.Group):
			why = fmt.Sprintf("priority %d, not %d", f.priority(group), f.priority(f.Group))
		}
		ahead = append(ahead, titleOf(group)+" ("+why+")")
	}
	lines = append(lines, first(5, ahead)...)
	if queue := f.queue(name); place > 0 && queue != nil && queue.Spec.DequeueStrategy == schedulingv1beta1.DequeueStrategyFIFO {
		return append(lines, "The queue is first in, first out: none of them is passed.")
	}
	return lines
}

// beforeOnNodes counts the gangs of other queues that wait for nodes before an admitted one: nodes are for all queues.
func (f *Facts) beforeOnNodes() []string {
	n := 0
	for i := range f.Groups {
		other := &f.Groups[i]
		if waits(other) && admitted(other) == 1 && usage.QueueOf(other) != usage.QueueOf(f.Group) && f.compare(other, f.Group) < 0 {
			n++
		}
	}
	if n == 0 || admitted(f.Group) == 0 {
		return nil
	}
	return []string{count(n, "gang") + " of other queues, of a higher priority or older, may take nodes before it."}
}

// addTry says what the scheduler, or the queue, found last, and when.
func (f *Facts) addTry(page *Page) {
	if f.Group == nil {
		return
	}
	if c := schedulingv1beta1.CurrentCondition(f.Group.Status.Conditions); c != nil {
		page.add("What was tried last?", fmt.Sprintf("%s, %s: %s", c.LastTransitionTime.UTC().Format("2006-01-02 15:04:05Z"),
			f.ago(c.LastTransitionTime.Time), inOneLine(c.Message)))
		return
	}
	page.add("What was tried last?", "Nothing yet.")
}

// demands are the pods that have to start together, kind by kind. They are waiting pods or, where no pod exists yet, pods that the Job will
// create. More may exist than the minimum needs; then the minimums of the tasks count.
func (f *Facts) demands() []Demand {
	if f.Job == nil {
		return f.demandsOfPods()
	}
	var demands []Demand
	for i := range f.Job.Spec.Tasks {
		task := &f.Job.Spec.Tasks[i]
		name := nameOf(f.Job, i)
		least := int(task.Replicas)
		if task.MinAvailable != nil {
			least = int(*task.MinAvailable)
		}
		if len(f.Job.Spec.Tasks) == 1 {
			least = min(int(task.Replicas), int(max(f.Job.Status.MinAvailable, f.Job.Spec.MinAvailable)))
		}
		for n := range f.Members {
			if pod := &f.Members[n]; pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Annotations[batchv1alpha1.TaskSpecKey] == name {
				least--
			}
		}
		if least > 0 {
			demands = append(demands, Demand{name, &corev1.Pod{ObjectMeta: task.Template.ObjectMeta, Spec: task.Template.Spec}, least})
		}
	}
	return demands
}

// demandsOfPods takes the waiting pods of a PodGroup as of one kind, that of the first.
func (f *Facts) demandsOfPods() []Demand {
	var waiting []*corev1.Pod
	bound := 0
	for i := range f.Members {
		switch pod := &f.Members[i]; {
		case ended(pod):
		case pod.Spec.NodeName == "":
			waiting = append(waiting, pod)
		default:
			bound++
		}
	}
	if left := int(f.Group.Spec.MinMember) - bound; left > 0 && len(waiting) > 0 {
		return []Demand{{"", waiting[0], min(left, len(waiting))}}
	}
	return nil
}

// addEnd adds what every page ends with.
func (f *Facts) addEnd(page *Page) {
	page.add("Who evicted its pods?", f.evicted()...)
	page.add("What happened?", f.happened()...)
	page.add("What is missing here?", f.Unread...)
}

// stop names the commands that stop a Job, or go on with it.
func (f *Facts) stop(page *Page, kind, name string) {
	suffix := fmt.Sprintf(" -n %s %s", f.Job.Namespace, name)
	lines := []string{"muster " + kind + " suspend" + suffix + "    stops it; resume goes on", "muster " + kind + " cancel" + suffix + "     deletes it"}
	if f.Job.Status.State.Phase == batchv1alpha1.Aborted {
		lines[0] = "muster " + kind + " resume" + suffix + "     goes on with it"
	}
	page.add(headingOptions, lines...)
}
