package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/phjob"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// waitingPhJob asks for 2 cpu in the queue of its group, which has 8. Each user may have 4, and its user has 3.
func waitingPhJob() Facts {
	job := &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: "job-a", Namespace: "hub", UID: "p1", CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute))},
		Spec:       primehubv1alpha1.PhJobSpec{DisplayName: "Train it", UserName: "ann", GroupID: "g", GroupName: "phusers", InstanceType: "small", Image: "base"},
		Status:     primehubv1alpha1.PhJobStatus{Phase: primehubv1alpha1.PhJobPending, Reason: primehubv1alpha1.ReasonOverQuota, Message: "too little quota"},
	}
	limits := mustertesting.Resources("cpu", "2")
	group := phjob.PodGroup(job, "team", limits)
	group.UID, group.CreationTimestamp = "g1", job.CreationTimestamp
	group.Status.Phase = schedulingv1beta1.PodGroupPending
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
		Type: schedulingv1beta1.PodGroupUnschedulableType, Reason: schedulingv1beta1.QuotaExceededReason,
		Message: `user "ann" of queue "team" has 1 cpu free of its quota, 2 needed (found at 2026-11-25T11:59:00Z)`,
	}}
	team := queueUsing("team", "8", "6")
	team.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: "g"}
	team.Spec.DequeueStrategy = schedulingv1beta1.DequeueStrategyFIFO
	team.Spec.Muster = &schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources("cpu", "4")}}
	team.Status.Muster = &schedulingv1beta1.QueueStatusExtension{Users: []schedulingv1beta1.UserUsage{{Name: "ann", Allocated: mustertesting.Resources("cpu", "3", "memory", "1Gi")}}}
	return Facts{
		Now: now, PhJob: job, Group: group, Groups: []schedulingv1beta1.PodGroup{*group},
		Queues: []schedulingv1beta1.Queue{*queueUsing("root", "", "0"), *team},
	}
}

func TestAPhJobThatLacksItsUsersQuota(t *testing.T) {
	f := waitingPhJob()
	earlier := f.Group.DeepCopy()
	earlier.UID, earlier.OwnerReferences[0].Name, earlier.CreationTimestamp = "g0", "job-0", metav1.NewTime(now.Add(-time.Hour))
	f.Groups = append(f.Groups, *earlier)
	page := PhJob(f)
	assert.Equal(t, "PhJob hub/job-a: Pending, created 10m ago", page.Title)
	assert.Equal(t, []string{`It runs "Train it" with image base on instance type small.`}, section(page, headingNow))
	assert.Equal(t, []string{"Group phusers is queue team.", "User ann uses 3 cpu there, of 4 cpu."}, section(page, "Its group and its user"))
	assert.Equal(t, []string{
		"The group or the user has too little quota left, so no pod is created. (OverQuota)",
		`It says, 60s ago: user "ann" of queue "team" has 1 cpu free of its quota, 2 needed`,
	}, section(page, "Why does it wait?"))
	assert.Equal(t, []string{
		"It is the 2nd of 2 that wait in queue team.", "PhJob hub/job-0 (older)",
		"The queue is first in, first out: none of them is passed.",
	}, section(page, headingBefore))
	assert.Equal(t, []string{"PhJob hub/job-0 holds it up: that one has to start first, or to be deleted."}, section(page, headingFrees))
	assert.Equal(t, []string{"Nothing that was found rules it out."}, section(page, "Can it ever run?"))
	assert.Equal(t, []string{"2026-11-25 11:50:00Z  10m ago  the PhJob was created"}, section(page, "What happened?"))
	assert.Equal(t, []string{"muster phjob cancel -n hub job-a    cancels it"}, section(page, headingOptions))
	assert.Nil(t, section(page, "Its schedule"))
}

func TestAQuotaOfAUser(t *testing.T) {
	f := waitingPhJob()
	team := &f.Queues[1]
	team.Spec.Muster.UserQuota.Users = []schedulingv1beta1.NamedQuota{{Name: "ann", Quota: mustertesting.Resources("cpu", "1")}}
	assert.Contains(t, section(PhJob(f), "Its group and its user"), "User ann uses 3 cpu there, of 1 cpu.", "the quota by name counts")

	f = waitingPhJob()
	team = &f.Queues[1]
	team.Status.Muster.Users, team.Status.Muster.OtherUsers = nil, 3
	assert.Contains(t, section(PhJob(f), "Its group and its user"), "User ann may use 4 cpu there.", "it is not known what she uses")

	team.Status.Muster.OtherUsers = 0
	assert.Contains(t, section(PhJob(f), "Its group and its user"), "User ann uses nothing there, of 4 cpu.")
	team.Spec.Muster = nil
	assert.Contains(t, section(PhJob(f), "Its group and its user"), "User ann has no quota of its own there: only the queue limits it.")
}

func TestAPhJobWithoutAQueue(t *testing.T) {
	f := waitingPhJob()
	f.Group, f.Queues[1].Labels = nil, nil
	page := PhJob(f)
	assert.Contains(t, section(page, "Why does it wait?"), "No queue, or more than one, has the labels of its group. (NoQueue)")
	assert.Contains(t, section(page, "Its group and its user")[0], "Group phusers has no queue: cannot get group info")
	assert.Equal(t, []string{inWords[afterOthers]}, section(page, "Can it ever run?"))
	f.Queues = nil
	assert.Nil(t, section(PhJob(f), "Its group and its user"), "queues that cannot be read are none")
}

func TestAPhJobThatRunsAndThatHasEnded(t *testing.T) {
	f := waitingPhJob()
	job := f.PhJob
	job.Labels = map[string]string{primehubv1alpha1.ScheduledByLabel: "nightly"}
	job.Spec.RequeueLimit = ptr.To[int32](3)
	started := metav1.NewTime(now.Add(-time.Minute))
	job.Status = primehubv1alpha1.PhJobStatus{Phase: primehubv1alpha1.PhJobRunning, Reason: primehubv1alpha1.ReasonPodRunning, Requeued: 1, StartTime: &started}
	f.Members = []corev1.Pod{*mustertesting.MakePod("job-a").Node("n1").Obj()}
	page := PhJob(f)
	assert.Contains(t, section(page, headingNow), "Its pod job-a is on node n1.")
	assert.Contains(t, section(page, headingNow), "It went back to its queue 1 time, because its pod did not start in time; it fails when that would be more than 3.")
	assert.Equal(t, []string{"PhSchedule nightly created it, and does not exist any more."}, section(page, "Its schedule"))
	assert.Nil(t, section(page, "Why does it wait?"))
	next := metav1.NewTime(now.Add(time.Hour))
	f.PhSchedule = &primehubv1alpha1.PhSchedule{Status: primehubv1alpha1.PhScheduleStatus{NextRunTime: &next}}
	assert.Equal(t, []string{"PhSchedule nightly created it. The next one comes at 2026-11-25 13:00:00Z."}, section(PhJob(f), "Its schedule"))
	f.PhSchedule.Status = primehubv1alpha1.PhScheduleStatus{Invalid: true, Message: "no such hour"}
	assert.Equal(t, []string{"PhSchedule nightly created it, and creates no further ones now: no such hour"}, section(PhJob(f), "Its schedule"))

	job.Status.Phase, job.Status.Reason, job.Status.Message, job.Status.FinishTime = primehubv1alpha1.PhJobFailed, primehubv1alpha1.ReasonPodFailed, "exit code 1", &started
	page = PhJob(f)
	assert.Contains(t, section(page, headingNow), "Why it is Failed: PodFailed: exit code 1")
	assert.Contains(t, section(page, "What happened?")[2], "the PhJob became Failed")
	assert.Nil(t, section(page, headingOptions))
}
