package phjob

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// facts are the facts of a PhJob in a phase, whose pod is in another.
func facts(phase primehubv1alpha1.PhJobPhase, pod corev1.PodPhase, changes ...func(*Facts)) *Facts {
	f := &Facts{Job: job(), Config: DefaultConfig(), Now: now}
	f.Job.Status.Phase = phase
	if pod != "" {
		f.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "job-1", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
		f.Pod.Status.Phase, f.Pod.Spec.NodeName = pod, "node-1"
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

func cancelled(f *Facts) { f.Job.Spec.Cancel = true }
func admitted(f *Facts)  { f.Admitted = true }
func short(f *Facts)     { f.Shortage = "4 needed" }
func refused(f *Facts)   { f.Refused = CannotCreate(errors.New("Image not found: base")) }
func tooMuch(f *Facts)   { f.Refused = AboveQuota() }
func old(f *Facts)       { f.Pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute)) }
func going(f *Facts)     { f.Pod.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
func lost(f *Facts)      { f.NodeLost = true }
func message(text string) func(*Facts) {
	return func(f *Facts) { f.Job.Status.Message = text }
}
func requeued(n, limit int32) func(*Facts) {
	return func(f *Facts) { f.Job.Status.Requeued, f.Job.Spec.RequeueLimit = n, ptr.To(limit) }
}
func started(ago time.Duration) func(*Facts) {
	return func(f *Facts) { f.Job.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-ago))) }
}
func deadline(seconds int64) func(*Facts) {
	return func(f *Facts) { f.Job.Spec.ActiveDeadlineSeconds = ptr.To(seconds) }
}
func unschedulable(f *Facts) {
	f.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node fits"}}
}
func noImage(f *Facts) {
	f.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}}}
}
func exited(code int32, text string) func(*Facts) {
	return func(f *Facts) {
		f.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Error", ExitCode: code, Message: text, StartedAt: metav1.NewTime(now.Add(-time.Second))}}}}
	}
}
func evicted(f *Facts) {
	f.Pod.Status.Reason, f.Pod.Status.Message = "Evicted", "The node was low on memory"
}

func TestDecide(t *testing.T) {
	const (
		pending, preparing, running = primehubv1alpha1.PhJobPending, primehubv1alpha1.PhJobPreparing, primehubv1alpha1.PhJobRunning
		timedOut                    = "Job failed due to System Error: phJob has failed because it was active longer than specified deadline"
		givenUp                     = "Job failed due to System Error: phJob has failed because it was requeued more than specified times"
	)
	for name, c := range map[string]struct {
		facts *Facts
		want  string // phase, reason and message
		after time.Duration
	}{
		"new":                                  {facts("", ""), "Pending OverQuota Insufficient group/user quota", 0},
		"waits for quota":                      {facts(pending, "", short), "Pending OverQuota Insufficient group/user quota: 4 needed", 0},
		"has quota":                            {facts(pending, "", admitted, short), "Preparing PodPending ", 0},
		"names no image":                       {facts(pending, "", refused, admitted), "Failed PodCreationFailed Image not found: base", 0},
		"above a whole quota":                  {facts(pending, "", tooMuch), "Failed OverQuota Your instance type resource limit is bigger than your user or group quota.", 0},
		"cancelled while it waits":             {facts(pending, "", cancelled, admitted, refused), "Cancelled Cancelled Cancelled by user", 0},
		"its pod is to be made":                {facts(preparing, "", admitted), "Preparing PodPending ", 0},
		"its pod cannot be made":               {facts(preparing, "", refused), "Failed PodCreationFailed Image not found: base", 0},
		"its pod finds no node":                {facts(preparing, corev1.PodPending, unschedulable), "Preparing PodPending no node fits", 2 * time.Minute},
		"its image cannot be pulled":           {facts(preparing, corev1.PodPending, noImage), "Preparing PodPending ImagePullBackOff: Back-off pulling image", 2 * time.Minute},
		"its pod did not start in time":        {facts(preparing, corev1.PodPending, old, unschedulable), "Pending PodPending Back to pending due to: no node fits", 0},
		"for the second time, without a word":  {facts(preparing, corev1.PodPending, old, message("Back to pending due to: x")), "Pending PodPending Back to pending due to: x", 0},
		"for no known reason":                  {facts(preparing, corev1.PodPending, old), "Pending PodPending Back to pending due to: the pod did not start in time", 0},
		"may go back once more":                {facts(preparing, corev1.PodPending, old, requeued(2, 3)), "Pending PodPending Back to pending due to: the pod did not start in time", 0},
		"may go back no more":                  {facts(preparing, corev1.PodPending, old, requeued(3, 3)), "Failed OverRequeueLimit " + givenUp, 0},
		"may never go back":                    {facts(preparing, corev1.PodPending, old, requeued(0, 0)), "Failed OverRequeueLimit " + givenUp, 0},
		"its pod is being deleted":             {facts(preparing, corev1.PodPending, old, going), "Preparing PodPending ", time.Second},
		"back in the queue":                    {facts(pending, "", message("Back to pending due to: x")), "Pending  Back to pending due to: x", 0},
		"its pod runs":                         {facts(preparing, corev1.PodRunning, old), "Running PodRunning Job is currently running", 24 * time.Hour},
		"runs on":                              {facts(running, corev1.PodRunning, started(time.Hour)), "Running PodRunning Job is currently running", 23 * time.Hour},
		"may run for ever":                     {facts(running, corev1.PodRunning, started(time.Hour), deadline(0)), "Running PodRunning Job is currently running", 0},
		"has run for long enough":              {facts(running, corev1.PodRunning, started(time.Minute), deadline(60)), "Failed OverActivateDeadline " + timedOut, 0},
		"has run for the default":              {facts(running, corev1.PodRunning, started(24*time.Hour)), "Failed OverActivateDeadline " + timedOut, 0},
		"its node is lost":                     {facts(running, corev1.PodRunning, started(0), deadline(0), lost), "Running PodRunning Node node-1 which was running pod job-1 is unresponsive", 0},
		"cancelled on a lost node":             {facts(running, corev1.PodRunning, lost, cancelled), "Cancelled Cancelled Cancelled by user", 0},
		"succeeded":                            {facts(running, corev1.PodSucceeded, started(0)), "Succeeded PodSucceeded Job completed", 0},
		"succeeded before it was seen to run":  {facts(preparing, corev1.PodSucceeded, exited(0, "")), "Succeeded PodSucceeded Job completed", 0},
		"failed":                               {facts(running, corev1.PodFailed, exited(3, "no such file")), "Failed PodFailed Job failed due to Error: no such file", 0},
		"failed without a word":                {facts(running, corev1.PodFailed, exited(3, "")), "Failed PodFailed Job failed due to Error: exit code 3", 0},
		"evicted, no container has an end":     {facts(running, corev1.PodFailed, evicted), "Failed PodFailed Job failed due to Evicted: The node was low on memory", 0},
		"failed, and nothing is known":         {facts(running, corev1.PodFailed), "Failed PodFailed Job failed due to Unknown", 0},
		"its pod is gone":                      {facts(running, "", func(f *Facts) { f.Job.Status.PodName = "job-1" }), "Failed PodUnknown Job failed because its pod job-1 was deleted before it ended", 0},
		"runs, and its image has been deleted": {facts(running, corev1.PodRunning, refused, deadline(0)), "Running PodRunning Job is currently running", 0},
		"cancelled while it runs":              {facts(running, corev1.PodRunning, cancelled), "Cancelled Cancelled Cancelled by user", 0},
		"cancelled, and its pod has failed":    {facts(running, corev1.PodFailed, cancelled), "Cancelled Cancelled Cancelled by user", 0},
	} {
		t.Run(name, func(t *testing.T) {
			next, after := Decide(c.facts)
			assert.Equal(t, c.want, string(next.Phase)+" "+string(next.Reason)+" "+next.Message)
			assert.Equal(t, c.after, after)
			final := next.Phase == primehubv1alpha1.PhJobSucceeded || next.Phase == primehubv1alpha1.PhJobFailed || next.Phase == primehubv1alpha1.PhJobCancelled
			assert.Equal(t, final, next.FinishTime != nil)
		})
	}
}

// TestEventsOfAPhJob: a new PhJob that starts at once has no event that its quota is short.
func TestEventsOfAPhJob(t *testing.T) {
	const (
		pending, preparing = primehubv1alpha1.PhJobPending, primehubv1alpha1.PhJobPreparing
		overQuota          = primehubv1alpha1.ReasonOverQuota
	)
	type status = primehubv1alpha1.PhJobStatus
	newJob := status{Phase: pending, Reason: overQuota, Message: messageShort}
	lacks := status{Phase: pending, Reason: overQuota, Message: messageShort + ": 4 needed"}
	for name, c := range map[string]struct {
		last, next status
		want       bool
	}{
		"new":                               {status{}, newJob, false},
		"new, and quota is short":           {newJob, lacks, true},
		"less quota is short":               {lacks, status{Phase: pending, Reason: overQuota, Message: messageShort + ": 3 needed"}, false},
		"starts":                            {newJob, status{Phase: preparing, Reason: primehubv1alpha1.ReasonPodPending}, true},
		"goes back to the queue":            {status{Phase: preparing}, status{Phase: pending, Reason: primehubv1alpha1.ReasonPodPending}, true},
		"has another message while it runs": {status{Phase: preparing}, status{Phase: preparing, Message: "a"}, false},
	} {
		assert.Equal(t, c.want, IsNews(&c.last, &c.next), name)
	}
}

func TestTimesAndCounts(t *testing.T) {
	next, _ := Decide(facts(primehubv1alpha1.PhJobPreparing, corev1.PodPending, old, requeued(1, 5)))
	assert.EqualValues(t, 2, next.Requeued)
	assert.Empty(t, next.PodName)

	next, _ = Decide(facts(primehubv1alpha1.PhJobPreparing, corev1.PodSucceeded, exited(0, "")))
	assert.Equal(t, now.Add(-time.Second), next.StartTime.Time, "when its container started")
	assert.Equal(t, now, next.FinishTime.Time)
	assert.Equal(t, "job-1", next.PodName)

	next, _ = Decide(facts(primehubv1alpha1.PhJobPreparing, corev1.PodRunning))
	assert.Equal(t, now, next.StartTime.Time, "when it was seen to run, where nothing says when it started")
	next, _ = Decide(facts(primehubv1alpha1.PhJobRunning, corev1.PodRunning, started(time.Hour), deadline(0)))
	assert.Equal(t, now.Add(-time.Hour), next.StartTime.Time, "the first start stays")
}

func TestHowLongPodsAndRecordsAreKept(t *testing.T) {
	cfg := DefaultConfig()
	ended := func(reason primehubv1alpha1.PhJobReason, ttl *int32) *primehubv1alpha1.PhJob {
		j := job()
		j.Spec.TTLSecondsAfterFinished = ttl
		j.Status = primehubv1alpha1.PhJobStatus{Reason: reason, FinishTime: ptr.To(metav1.NewTime(now.Add(-time.Minute)))}
		return j
	}
	for name, c := range map[string]struct {
		job     *primehubv1alpha1.PhJob
		left    time.Duration
		limited bool
	}{
		"by default seven days": {ended(primehubv1alpha1.ReasonPodSucceeded, nil), 7*24*time.Hour - time.Minute, true},
		"as the job says":       {ended(primehubv1alpha1.ReasonPodFailed, ptr.To[int32](90)), 30 * time.Second, true},
		"its time is up":        {ended(primehubv1alpha1.ReasonPodFailed, ptr.To[int32](30)), 0, true},
		"for ever":              {ended(primehubv1alpha1.ReasonPodFailed, ptr.To[int32](0)), 0, false},
		"cancelled":             {ended(primehubv1alpha1.ReasonCancelled, ptr.To[int32](0)), 0, true},
		"timed out":             {ended(primehubv1alpha1.ReasonOverActivateDeadline, ptr.To[int32](0)), 0, true},
		"given up":              {ended(primehubv1alpha1.ReasonOverRequeueLimit, ptr.To[int32](0)), 0, true},
	} {
		left, limited := KeepsPod(c.job, cfg, now)
		assert.Equal(t, c.left, left, name)
		assert.Equal(t, c.limited, limited, name)
	}
	_, limited := KeepsRecord(ended("", nil), cfg, now)
	assert.False(t, limited)
	cfg.JobSubmission.JobTTLSeconds = 90
	left, limited := KeepsRecord(ended("", nil), cfg, now)
	assert.True(t, limited)
	assert.Equal(t, 30*time.Second, left)
}

// TestAPhJobThatWaitsSaysWhenItStarts: for quota, or for a node.
func TestAPhJobThatWaitsSaysWhenItStarts(t *testing.T) {
	at := metav1.NewTime(now.Add(time.Hour))
	starts := func(f *Facts) { f.ExpectedStart = &at }
	for name, c := range map[string]struct {
		facts *Facts
		want  *metav1.Time
	}{
		"for quota":      {facts(primehubv1alpha1.PhJobPending, "", short, starts), &at},
		"for a node":     {facts(primehubv1alpha1.PhJobPreparing, corev1.PodPending, unschedulable, starts), &at},
		"not known":      {facts(primehubv1alpha1.PhJobPreparing, corev1.PodPending, unschedulable), nil},
		"it runs":        {facts(primehubv1alpha1.PhJobPreparing, corev1.PodRunning, starts), nil},
		"it is refused":  {facts(primehubv1alpha1.PhJobPending, "", refused, starts), nil},
		"it starts anew": {facts(primehubv1alpha1.PhJobPreparing, corev1.PodPending, old, starts), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Job.Status.ExpectedStart = &metav1.Time{Time: now}
			next, _ := Decide(c.facts)
			assert.Equal(t, c.want, next.ExpectedStart)
		})
	}
}
