package explain

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/admission"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/phjob/phase"
	"github.com/muster-sched/muster/pkg/text"
)

// noQueue stands in for the reason of a PhJob whose group is no queue. Its status keeps the reason that it had before.
const noQueue = "NoQueue"

// phJobCauses has a row for each reason that a PhJob waits for, of status.reason.
var phJobCauses = map[string]cause{
	noQueue:                                   {"No queue, or more than one, has the labels of its group.", "An administrator gives them to one queue.", afterOthers},
	string(primehubv1alpha1.ReasonOverQuota):  {"The group or the user has too little quota left, so no pod is created.", "", notRuledOut},
	string(primehubv1alpha1.ReasonPodPending): {"Its pod did not start in time, or has not started yet.", "", notRuledOut},
}

// PhJob makes the page of a PhJob.
func PhJob(f Facts) Page {
	job := f.PhJob
	page := Page{
		Title: fmt.Sprintf("PhJob %s/%s: %s, created %s", job.Namespace, job.Name, cmp.Or(string(job.Status.Phase), notSeen), f.ago(job.CreationTimestamp.Time)),
		Kind:  "PhJob", Namespace: job.Namespace, Name: job.Name, Phase: string(job.Status.Phase), Since: &job.CreationTimestamp,
	}
	page.add(headingNow, append(f.phJobDoes(), expected(f.Group)...)...)
	page.add("Its group and its user", f.groupAndUser()...)
	page.add("Its schedule", f.schedule()...)
	switch job.Status.Phase {
	case "", primehubv1alpha1.PhJobPending, primehubv1alpha1.PhJobPreparing:
		f.addWait(&page, f.findingOfPhJob())
	}
	f.addEnd(&page)
	if !phase.IsFinal(job.Status.Phase) {
		page.add(headingOptions, fmt.Sprintf("muster phjob cancel -n %s %s    cancels it", job.Namespace, job.Name))
	}
	return page
}

// findingOfPhJob is why a PhJob waits. While it has no pod its PodGroup says that: the first status of each PhJob says that quota is short.
func (f *Facts) findingOfPhJob() finding {
	status := &f.PhJob.Status
	if queue, _ := f.queueOfGroup(); queue == nil && len(f.Queues) > 0 {
		return findingOf(phJobCauses, noQueue, status.Message)
	}
	if status.Phase == primehubv1alpha1.PhJobPreparing || f.Group == nil || !waits(f.Group) {
		return f.best(findingOf(phJobCauses, string(status.Reason), status.Message))
	}
	found := f.ofGroup()
	if found.cause != nil && found.cause.ever == notRuledOut && admitted(f.Group) == 0 {
		own := phJobCauses[string(primehubv1alpha1.ReasonOverQuota)]
		found.reason, found.cause = string(primehubv1alpha1.ReasonOverQuota), &own
	}
	return found
}

// phJobDoes says what a PhJob runs and where its pod is. It adds how often it went back to its queue, and why it ended.
func (f *Facts) phJobDoes() []string {
	spec, status := &f.PhJob.Spec, &f.PhJob.Status
	lines := []string{fmt.Sprintf("It runs %q with image %s on instance type %s.", spec.DisplayName, spec.Image, spec.InstanceType)}
	if len(f.Members) > 0 {
		line := "Its pod " + f.Members[0].Name + " has no node yet."
		if node := f.Members[0].Spec.NodeName; node != "" {
			line = "Its pod " + f.Members[0].Name + " is on node " + node + "."
		}
		lines = append(lines, line)
	}
	if status.Requeued > 0 {
		line := "It went back to its queue " + text.Count(int(status.Requeued), "time") + ", because its pod did not start in time"
		if spec.RequeueLimit != nil {
			line += fmt.Sprintf("; it fails when that would be more than %d", *spec.RequeueLimit)
		}
		lines = append(lines, line+".")
	}
	if phase.IsFinal(status.Phase) {
		lines = append(lines, joined("Why it is "+string(status.Phase)+": "+string(status.Reason), status.Message))
	}
	return lines
}

// groupAndUser says which queue the group of a PhJob is, and what its user has there.
func (f *Facts) groupAndUser() []string {
	spec := &f.PhJob.Spec
	queue, problem := f.queueOfGroup()
	if queue == nil {
		if len(f.Queues) == 0 {
			return nil // They could not be read, and the page says so.
		}
		return []string{fmt.Sprintf("Group %s has no queue: %s", spec.GroupName, problem)}
	}
	lines := []string{fmt.Sprintf("Group %s is queue %s.", spec.GroupName, queue.Name)}
	user := primehubv1alpha1.LabelOf(phjob.UserOf(spec))
	limit := quotaOf(queue, user)
	if len(limit) == 0 {
		return append(lines, fmt.Sprintf("User %s has no quota of its own there: only the queue limits it.", user))
	}
	line := fmt.Sprintf("User %s may use %s there.", user, withoutPods(limit))
	if queue.Status.Muster != nil {
		if used, known := usedBy(queue.Status.Muster, user); known {
			maps.DeleteFunc(used, func(name corev1.ResourceName, _ int64) bool {
				_, isLimited := limit[name]
				return !isLimited
			})
			line = fmt.Sprintf("User %s uses %s there, of %s.", user, withoutPods(used), withoutPods(limit))
		}
	}
	return append(lines, line)
}

// queueOfGroup is the queue of a PhJob's PodGroup, or else that of its group. Nil, and why, if there is none.
func (f *Facts) queueOfGroup() (*schedulingv1beta1.Queue, error) {
	if f.Group != nil {
		if queue := f.queue(admission.QueueOf(f.Group)); queue != nil {
			return queue, nil
		}
	}
	queues := make([]*schedulingv1beta1.Queue, 0, len(f.Queues))
	for i := range f.Queues {
		queues = append(queues, &f.Queues[i])
	}
	return phjob.FindQueue(queues, &f.PhJob.Spec)
}

// schedule says which PhSchedule created a PhJob, and when it creates the next one.
func (f *Facts) schedule() []string {
	name := f.PhJob.Labels[primehubv1alpha1.ScheduledByLabel]
	switch {
	case name == "":
		return nil
	case f.PhSchedule == nil:
		return []string{"PhSchedule " + name + " created it, and does not exist any more."}
	case f.PhSchedule.Status.NextRunTime == nil:
		return []string{joined("PhSchedule "+name+" created it, and creates no further ones now", f.PhSchedule.Status.Message)}
	}
	return []string{fmt.Sprintf("PhSchedule %s created it. The next one comes at %s.", name, f.PhSchedule.Status.NextRunTime.UTC().Format("2006-01-02 15:04:05Z"))}
}
