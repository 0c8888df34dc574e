package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/text"
)

// Job makes the page of a Job.
func Job(f Facts) Page {
	status := &f.Job.Status
	current := cmp.Or(string(status.State.Phase), notSeen)
	page := Page{
		Title: fmt.Sprintf("Job %s/%s: %s, for %s", f.Job.Namespace, f.Job.Name, current, short(f.Now.Sub(since(f.Job)))),
		Kind:  "Job", Namespace: f.Job.Namespace, Name: f.Job.Name, Phase: string(status.State.Phase), Since: &metav1.Time{Time: since(f.Job)},
	}
	page.add(headingNow, append(f.doesNow(), expected(f.Group)...)...)
	switch {
	case waitsOn(f.Job) && status.State.Reason == "" && f.Group == nil:
		f.addWait(&page, finding{message: "muster-controller has not made its PodGroup yet"})
	case waitsOn(f.Job):
		f.addWait(&page, f.best(findingOf(jobCauses, status.State.Reason, text.WithoutOutlook(status.State.Message))))
	}
	f.addEnd(&page)
	page.add(headingOptions, f.options()...)
	return page
}

// PodGroup makes the page of a PodGroup.
func PodGroup(f Facts) Page {
	group := f.Group
	current := cmp.Or(group.Status.Phase, schedulingv1beta1.PodGroupPending)
	page := Page{
		Title: fmt.Sprintf("PodGroup %s/%s: %s", group.Namespace, group.Name, current),
		Kind:  "PodGroup", Namespace: group.Namespace, Name: group.Name, Phase: string(current),
	}
	now := []string{fmt.Sprintf("%s running, %d have succeeded, %d have failed; %d start together.",
		text.Are(int(group.Status.Running), "pod"), group.Status.Succeeded, group.Status.Failed, group.Spec.Minimum())}
	if kind, name := ownerOf(group); kind != "PodGroup" {
		now = append(now, fmt.Sprintf("It belongs to %s %s: see muster explain %s %s.", kind, name, strings.ToLower(kind), name))
	}
	page.add(headingNow, append(now, expected(group)...)...)
	if waits(group) {
		f.addWait(&page, f.ofGroup())
	}
	f.addEnd(&page)
	return page
}

// Pod makes the page of a pod. nil is a pod that does not exist any more.
func Pod(f Facts, namespace, name string, pod *corev1.Pod) Page {
	page := Page{Title: fmt.Sprintf("Pod %s/%s", namespace, name), Kind: "Pod", Namespace: namespace, Name: name}
	if pod == nil {
		page.Title += ": does not exist"
		f.addEnd(&page)
		return page
	}
	page.Phase = string(pod.Status.Phase)
	page.Title += ": " + page.Phase
	now := "It has no node."
	if pod.Spec.NodeName != "" {
		now = "Its node is " + pod.Spec.NodeName + "."
	}
	lines := []string{now}
	isWaiting := pod.Spec.NodeName == "" && !ended(pod)
	switch {
	case f.Group != nil && isWaiting && !waits(f.Group):
		lines = append(lines, "Its gang runs: "+titleOf(f.Group)+". It comes beyond the minimum, and is scheduled by itself.")
	case f.Group != nil:
		lines = append(lines, "It starts together with its gang: "+titleOf(f.Group)+".")
	}
	page.add(headingNow, lines...)
	if isWaiting {
		found := finding{message: "no scheduler has tried it. Look whether one runs that spec.schedulerName (" + pod.Spec.SchedulerName + ") names"}
		if c := gang.ScheduledCondition(pod); c != nil && c.Status == corev1.ConditionFalse {
			found = findingOf(podCauses, c.Reason, c.Message)
		}
		f.addWait(&page, f.best(found))
	}
	f.addEnd(&page)
	return page
}

// expected says how long a PodGroup is expected to run, and why. It is nothing if nothing is known.
func expected(group *schedulingv1beta1.PodGroup) []string {
	if group == nil || group.Status.Estimate == nil || group.Status.Phase == schedulingv1beta1.PodGroupCompleted {
		return nil
	}
	estimate := group.Status.Estimate
	if estimate.Runtime == nil {
		return []string{joined("How long it runs is not known", estimate.Message) + "."}
	}
	return []string{joined("It is expected to run for "+short(estimate.Runtime.Duration), estimate.Message) + "."}
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
		text.Count(int(s.Running), "pod"), s.Pending, s.Succeeded, s.Failed, s.Terminating, s.MinAvailable)}
	tasks := make([]string, 0, len(f.Job.Spec.Tasks))
	for i := range f.Job.Spec.Tasks {
		task := nameOf(f.Job, i)
		tasks = append(tasks, fmt.Sprintf("%s %d/%d", task, s.TaskStatusCount[task].Phase[corev1.PodRunning], f.Job.Spec.Tasks[i].Replicas))
	}
	lines = append(lines, "Running by task: "+strings.Join(first(10, tasks), ", ")+".")
	if line := f.runs(); line != "" {
		lines = append(lines, line)
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

// runs says how often a Job has begun, if that is more than once. The last of maxRetry runs is counted as a retry when it has failed.
func (f *Facts) runs() string {
	retries, most := int(f.Job.Status.RetryCount), f.Job.Spec.MaxRetry
	switch {
	case retries == 0:
		return ""
	case retries >= int(most):
		return fmt.Sprintf("It has run %s, and maxRetry allows no more.", text.Count(retries, "time"))
	}
	return fmt.Sprintf("It was restarted %s; it may run %d times in all (maxRetry).", text.Count(retries, "time"), most)
}

// addEnd adds what every page ends with.
func (f *Facts) addEnd(page *Page) {
	page.add("Who evicted its pods?", f.evicted(page)...)
	page.Happened, page.MayNotRead = f.happened(), f.Unread
	page.add("What happened?", f.written(page)...)
	page.add("What is missing here?", f.missing()...)
}

// options names the commands that do something to a Job as it is.
func (f *Facts) options() []string {
	job, current := f.Job, f.Job.Status.State.Phase
	suffix := fmt.Sprintf(" -n %s %s", job.Namespace, job.Name)
	var lines []string
	switch {
	case phase.Ended(current):
	case ptr.Deref(job.Spec.Suspend, false):
		lines = append(lines, fmt.Sprintf(`kubectl -n %s patch vcjob %s --type merge -p '{"spec":{"suspend":false}}'    goes on with it: its field spec.suspend holds it`,
			job.Namespace, job.Name))
	case current == batchv1alpha1.Aborted, current == batchv1alpha1.Aborting:
		lines = append(lines, "muster job resume"+suffix+"     goes on with it")
	case current == "" || phase.Honours(current, busv1alpha1.AbortJobAction):
		lines = append(lines, "muster job suspend"+suffix+"    stops it; resume goes on")
	}
	if job.Status.StartTime != nil || len(f.Members) > 0 {
		lines = append(lines, "muster job logs"+suffix+"       prints what its pods wrote")
	}
	return append(lines, "muster job cancel"+suffix+"     deletes it")
}
