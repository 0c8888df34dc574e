package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

// says gives the PodGroup a condition, as muster-controller does. The Job repeats it.
func (f *Facts) says(phase schedulingv1beta1.PodGroupPhase, reason, message string) {
	f.Group.Status.Phase = phase
	f.Group.Status.Conditions[1].Reason, f.Group.Status.Conditions[1].Message = reason, message
	f.Groups[0] = *f.Group
	f.Job.Status.State.Reason, f.Job.Status.State.Message = reason, message
	if reason == schedulingv1beta1.NotEnoughResourcesReason {
		f.Job.Status.State.Reason = "PodGroupPending"
		if phase == schedulingv1beta1.PodGroupInqueue {
			f.Job.Status.State.Reason = "Unschedulable"
		}
	}
}

// member is a waiting pod of the Job with a condition, as the scheduler writes it.
func member(reason, message string) corev1.Pod {
	return *mustertesting.MakePod("training-worker-0").Namespace("ml").Phase(corev1.PodPending).
		Condition(corev1.PodScheduled, corev1.ConditionFalse, reason, message).Obj()
}

// TestEachPageQuotesTheSameFinding: why something waits, and whether it can ever run, is what muster-controller and the scheduler found. So
// the pages of a Job, its PodGroup and its pod cannot differ.
func TestEachPageQuotesTheSameFinding(t *testing.T) {
	const pending, inqueue = schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupInqueue
	const noRoom, noQuota = schedulingv1beta1.NotEnoughResourcesReason, schedulingv1beta1.QuotaExceededReason
	for name, c := range map[string]struct {
		phase           schedulingv1beta1.PodGroupPhase
		reason, message string
		pod             string // the reason of the pods; "" if there are none
		ever            Ever
		answer, frees   string
	}{
		"the queue is full": {pending, noQuota, lacksTwo, "", notRuledOut, "Nothing that was found rules it out.",
			"2 cpu of queue team: Jobs there have to end, or its capability has to be raised."},
		"more than the capability": {pending, noQuota, `can never fit queue "team": 4 cpu asked, its capability is 3`, "", never,
			"No: it asks for more than the whole capability of queue team. Ask for less, or raise that.", ""},
		"more than the quota of the user": {pending, noQuota, `can never fit user "ann" of queue "team": 4 cpu asked, its quota is 3`, "", never,
			"No: it asks for more than the whole quota of user ann in queue team. Ask for less, or raise that.", ""},
		"more than the cluster": {pending, noRoom, "the minimum needs 40 cpu, more than 1.2 times the 10 that all nodes have together (found at 2026-11-25T11:59:00Z)", "", never,
			"No, not on the nodes that there are: ask for less, or add nodes that its pods may use.", ""},
		"the cluster is full": {pending, noRoom, "minResources need 4 cpu, and 40 are used or kept for admitted PodGroups: together more than 1.2 times the 30 that all nodes have together", "",
			notRuledOut, "Nothing that was found rules it out.", ""},
		"no room on nodes": {inqueue, noRoom, `4/4 tasks in gang unschedulable: room for 1 of the 4 members that start together; 3 more of task "worker" need 1 cpu, 2Gi memory each; nearest: n1 lacks 1 cpu`,
			"Unschedulable", notRuledOut, "Nothing that was found rules it out.",
			"Room on nodes for 3 more pods, with 1 cpu, 2Gi memory each: pods there have to end, or nodes that its pods may use have to be added."},
		"no node lets it in": {inqueue, noRoom, "4/4 tasks in gang unschedulable: room for 0 of the 4 members that start together; 4 more find no node (node(s) were unschedulable); they need 1 cpu each; it would not fit into an empty cluster either",
			"Unschedulable", never, "No, not on the nodes that there are: ask for less, or add nodes that its pods may use.", ""},
		"only others of a higher priority could make room": {inqueue, noRoom, "4/4 tasks in gang unschedulable: room for 0 of the 4 members that start together; 4 more need 1 cpu each; no room is reserved for it: it would not fit either if everything of its priority and below had ended",
			"Unschedulable", notRuledOut, "Not soon: pods of a higher priority would have to end, or nodes would have to be added or changed.",
			"Room on nodes for 4 more pods, with 1 cpu each: pods there have to end, or nodes that its pods may use have to be added."},
		"the quota was taken meanwhile": {inqueue, noQuota, `4/4 tasks in gang unschedulable: the gang's 4 members wait for quota: queue "root" has no cpu free of its capability, 4 needed`,
			"WaitingForQuota", notRuledOut, "Nothing that was found rules it out.", "4 cpu of queue root: Jobs there have to end, or its capability has to be raised."},
		"its victims have not gone": {inqueue, noRoom, "4/4 tasks in gang unschedulable: waiting until 2 pods have gone that were evicted for the gang",
			"WaitingForEvictions", byItself, "This wait ends by itself.", "Their grace period ends."},
		"asks for what Muster does not have": {pending, schedulingv1beta1.NotSupportedReason, "spec.subGroupPolicy is not supported", "WaitingForAdmission", afterChange,
			"Not as it is. Waiting does not help: it has to be changed.", "Remove what the message names, delete it and create it anew."},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitingJob()
			f.says(c.phase, c.reason, c.message)
			pages := map[string]Page{}
			if c.pod != "" {
				f.Members = []corev1.Pod{member(c.pod, c.message)}
				pages["Pod"] = Pod(f, "ml", "training-worker-0", &f.Members[0])
			}
			pages["Job"], pages["PodGroup"] = Job(f), PodGroup(f)
			for kind, page := range pages {
				require.NotNil(t, page.Wait, kind)
				assert.Equal(t, c.ever, page.Wait.Ever, kind)
				assert.Equal(t, bare(c.message), page.Wait.Message, kind)
				assert.Equal(t, []string{c.answer}, section(page, "Can it ever run?"), kind)
				if c.frees == "" {
					assert.Empty(t, section(page, headingFrees), kind)
				} else {
					assert.Equal(t, []string{c.frees}, section(page, headingFrees), kind)
				}
				assert.Equal(t, 1, strings.Count(pageText(t, page), bare(c.message)), "%s: the message stands once", kind)
			}
		})
	}
}

func pageText(t *testing.T, page Page) string {
	t.Helper()
	out := &strings.Builder{}
	require.NoError(t, page.Write(out, nil))
	return out.String()
}

// TestAPhJobThatCanNeverFit: its page quotes its PodGroup, too.
func TestAPhJobThatCanNeverFit(t *testing.T) {
	f := waitingPhJob()
	f.Group.Status.Conditions[0].Message = `can never fit queue "team": 2 cpu asked, its capability is 1`
	page := PhJob(f)
	assert.Equal(t, never, page.Wait.Ever)
	assert.Equal(t, []string{"No: it asks for more than the whole capability of queue team. Ask for less, or raise that."}, section(page, "Can it ever run?"))
}

// TestNothingFoundYet: a page makes no guess before the controller or the scheduler has decided.
func TestNothingFoundYet(t *testing.T) {
	for want, change := range map[string]func(*Facts){
		"Nothing has been found yet: muster-controller has not made its PodGroup yet.":      func(f *Facts) { f.Group = nil },
		"Nothing has been found yet: muster-controller has not looked at its PodGroup yet.": func(f *Facts) { f.Group.Status.Phase = "" },
		"Nothing has been found yet: its queue has not been asked yet.":                     func(*Facts) {},
		"Nothing has been found yet: its queue has admitted it, and its pods do not exist yet.": func(f *Facts) {
			f.Group.Status.Phase = schedulingv1beta1.PodGroupInqueue
		},
		"Nothing has been found yet: the scheduler has not decided on it yet.": func(f *Facts) {
			f.Group.Status.Phase = schedulingv1beta1.PodGroupInqueue
			f.Members = []corev1.Pod{*mustertesting.MakePod("p").Obj()}
		},
	} {
		f := waitingJob()
		f.Job.Status.State.Reason, f.Job.Status.State.Message, f.Group.Status.Conditions = "", "", nil
		change(&f)
		page := Job(f)
		assert.Equal(t, []string{want}, section(page, "Why does it wait?"))
		assert.Equal(t, notKnown, page.Wait.Ever)
		assert.Equal(t, []string{"Not known: nothing has been found yet."}, section(page, "Can it ever run?"))
	}
	pod := mustertesting.MakePod("p").Namespace("ml").SchedulerName("typo").Phase(corev1.PodPending).Obj()
	page := Pod(Facts{Now: now}, "ml", "p", pod)
	assert.Equal(t, []string{"Nothing has been found yet: no scheduler has tried it. Look whether one runs that spec.schedulerName (typo) names."}, section(page, "Why does it wait?"))
}

// TestAPodBeyondTheMinimum: its gang runs, so no minimum waits.
func TestAPodBeyondTheMinimum(t *testing.T) {
	f := waitingJob()
	f.Group.Status.Phase = schedulingv1beta1.PodGroupRunning
	pod := member("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
	page := Pod(f, "ml", "training-worker-0", &pod)
	assert.Equal(t, []string{"It has no node.", "Its gang runs: Job ml/training. It comes beyond the minimum, and is scheduled by itself."}, section(page, headingNow))
	assert.Equal(t, []string{"The scheduler found no nodes for it. (Unschedulable)", "It says: 0/1 nodes are available: 1 Insufficient cpu."},
		section(page, "Why does it wait?"))
	assert.Empty(t, section(page, headingBefore))
}

// TestPhJobsOfOneSecond start in the order of their names, as muster-controller admits them. Their PodGroups have other names and times. The page names the one that holds up the others.
func TestPhJobsOfOneSecond(t *testing.T) {
	f := waitingPhJob()
	first := *f.Group.DeepCopy()
	first.Name, first.UID, first.OwnerReferences[0].Name = "phjob-zz", "g0", "job-0"
	first.CreationTimestamp = metav1.NewTime(now) // its PodGroup came late
	first.Status.Conditions[0].Message = `queue "team" has 1 cpu free of its capability, 2 needed`
	f.Group.Status.Conditions[0].Message = "an earlier job of the group waits, and jobs of a group start in the order of their creation"
	f.Group.Status.Conditions[0].Reason = schedulingv1beta1.NotEnoughResourcesReason
	f.Groups = []schedulingv1beta1.PodGroup{*f.Group, first}
	for _, name := range []string{"job-a", "job-0"} {
		f.PhJobs = append(f.PhJobs, primehubv1alpha1.PhJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "hub", CreationTimestamp: f.PhJob.CreationTimestamp}})
	}
	page := PhJob(f)
	assert.Equal(t, "PhJob hub/job-0 (of the same second, and first by name)", section(page, headingBefore)[1])
	assert.Equal(t, []string{"PhJob hub/job-0 holds it up: that one has to start first, or to be deleted."}, section(page, headingFrees))
	assert.Equal(t, 2, page.Wait.Position)

	// The quota of another user holds up that user only.
	f.Groups[1].Labels = map[string]string{schedulingv1beta1.UserLabel: "bob"}
	f.Groups[1].Status.Conditions[0].Message = `user "bob" of queue "team" has 1 cpu free of its quota, 2 needed`
	assert.Nil(t, PhJob(f).Wait.HeldUpBy)
}

// TestWhyNothingIsTakenBack: a queue gets its share back from borrowers, and no more.
func TestWhyNothingIsTakenBack(t *testing.T) {
	shared := func(name, share, used string) schedulingv1beta1.Queue {
		queue := queueUsing(name, "", used)
		queue.Spec.Parent = "root"
		queue.Status.Muster = &schedulingv1beta1.QueueStatusExtension{Deserved: mustertesting.Resources("cpu", share)}
		return *queue
	}
	const message = "4/4 tasks in gang unschedulable: room for 0 of the 4 members that start together; 4 more need 1 cpu each"
	for name, c := range map[string]struct {
		share, borrower string
		want            bool
	}{
		"more than its share":      {"3", "9", true},
		"within its share":         {"4", "9", false},
		"and nothing is borrowed":  {"3", "5", false},
		"what is used counts, too": {"5", "9", true},
	} {
		f := waitingJob()
		f.says(schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.NotEnoughResourcesReason, message)
		f.Members = []corev1.Pod{member("Unschedulable", message)}
		used := "0"
		if c.share == "5" {
			used = "2"
		}
		f.Queues = []schedulingv1beta1.Queue{f.Queues[0], shared("team", c.share, used), shared("other", "5", c.borrower)}
		lines := section(Job(f), "Why does it wait?")
		want := "Other queues borrow cpu, and nothing is taken back for it: the share of queue team is " + c.share + ", it uses " + used + ", and the minimum asks for 4."
		assert.Equal(t, c.want, lines[len(lines)-1] == want, "%s: %v", name, lines)
	}
}

// TestTheCommandsOfAPage do something to the Job as it is.
func TestTheCommandsOfAPage(t *testing.T) {
	const suspend, resume, logs = "muster job suspend -n ml training    stops it; resume goes on", "muster job resume -n ml training     goes on with it",
		"muster job logs -n ml training       prints what its pods wrote"
	const cancel = "muster job cancel -n ml training     deletes it"
	for name, c := range map[string]struct {
		phase     batchv1alpha1.JobPhase
		suspended bool
		started   bool
		want      []string
	}{
		"waits":                  {batchv1alpha1.Pending, false, false, []string{suspend, cancel}},
		"runs":                   {batchv1alpha1.Running, false, true, []string{suspend, logs, cancel}},
		"is suspended":           {batchv1alpha1.Aborted, false, true, []string{resume, logs, cancel}},
		"is held by its spec":    {batchv1alpha1.Aborted, true, false, []string{`kubectl -n ml patch vcjob training --type merge -p '{"spec":{"suspend":false}}'    goes on with it: its field spec.suspend holds it`, cancel}},
		"has failed":             {batchv1alpha1.Failed, false, true, []string{logs, cancel}},
		"has completed":          {batchv1alpha1.Completed, false, true, []string{logs, cancel}},
		"was ended for good":     {batchv1alpha1.Terminated, false, true, []string{logs, cancel}},
		"is not seen by anybody": {"", false, false, []string{suspend, cancel}},
	} {
		f := waitingJob()
		f.Job.Status.State.Phase = c.phase
		if c.suspended {
			f.Job.Spec.Suspend = ptr.To(true)
		}
		if c.started {
			f.Job.Status.StartTime = &metav1.Time{Time: now}
		}
		assert.Equal(t, c.want, section(Job(f), headingOptions), name)
	}
}

// TestHowOftenAJobHasRun: the last restart that maxRetry does not allow is counted as a retry, and is no run.
func TestHowOftenAJobHasRun(t *testing.T) {
	for _, c := range []struct {
		phase   batchv1alpha1.JobPhase
		retries int32
		want    string
	}{
		{batchv1alpha1.Running, 0, ""},
		{batchv1alpha1.Running, 1, "It was restarted 1 time; it may run 3 times in all (maxRetry)."},
		{batchv1alpha1.Running, 2, "It was restarted 2 times; it may run 3 times in all (maxRetry)."},
		{batchv1alpha1.Restarting, 3, "It has run 3 times, and maxRetry allows no more."},
		{batchv1alpha1.Failed, 3, "It has run 3 times, and maxRetry allows no more."},
	} {
		f := waitingJob()
		f.Job.Status.State.Phase, f.Job.Status.RetryCount, f.Job.Spec.MaxRetry = c.phase, c.retries, 3
		assert.Equal(t, c.want, f.runs())
	}
}

// TestALongMessageStandsOnce: an event, a condition and the status repeat what was found.
func TestALongMessageStandsOnce(t *testing.T) {
	f := waitingJob()
	found := text.WithoutTime(lacksTwo)
	f.Job.Status.Conditions = []batchv1alpha1.JobCondition{{Status: batchv1alpha1.Pending, Message: lacksTwo, LastTransitionTime: &metav1.Time{Time: now}}}
	event := func(kind, name, reason, message string) {
		f.Events = append(f.Events, corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}})
	}
	event("Job", "training", "PodGroupPending", "PodGroup ml:training pending, reason: "+lacksTwo)
	event("PodGroup", f.Group.Name, "Unschedulable", "4/4 tasks in gang unschedulable: "+lacksTwo)
	event("Pod", "training-worker-0", "FailedScheduling", lacksTwo)
	event("Pod", "training-worker-1", "FailedScheduling", lacksTwo)
	event("Pod", "training-worker-0", "BackOff", "the image cannot be pulled")
	page := Job(f)
	assert.Equal(t, 1, strings.Count(pageText(t, page), found))
	happened := section(page, "What happened?")
	assert.Contains(t, happened[len(happened)-2], "Pod training-worker-0 and 1 other: FailedScheduling, as said above")
	assert.Contains(t, happened[len(happened)-1], "Pod training-worker-0: BackOff: the image cannot be pulled")
}

// TestAPageForPrograms has fields, and none of the sentences that are made for people.
func TestAPageForPrograms(t *testing.T) {
	f := waitingJob()
	f.Groups = append(f.Groups, groupLike(f, "older", func(g *schedulingv1beta1.PodGroup) { g.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }))
	written, err := json.Marshal(Job(f))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"kind": "Job", "namespace": "ml", "name": "training", "phase": "Pending", "since": "2026-11-25T11:50:00Z",
		"wait": {
			"reason": "QuotaExceeded", "message": "queue \"team\" has 2 cpu free of its capability, 4 needed", "foundAt": "2026-11-25T11:59:00Z",
			"ever": "notRuledOut",
			"short": {"queue": "team", "resource": "cpu", "asked": "4", "free": "2", "missing": "2"},
			"queue": "team", "position": 2, "waiting": 2,
			"before": [{"kind": "PodGroup", "namespace": "ml", "name": "older", "why": "older"}]
		},
		"happened": [{"at": "2026-11-25T11:50:00Z", "event": "the Job was created"}]
	}`, string(written))
}

func TestWhatAMessageIsShortOf(t *testing.T) {
	for message, want := range map[string]string{
		`the cluster has 1 cpu free of its total, 4 needed; 2 cpu are kept for the guarantees of other queues`:                                                     `{"resource":"cpu","asked":"4","free":"1","missing":"3"}`,
		`user "ann" of queue "q" has 500m cpu free of its quota, 4 needed`:                                                                                         `{"queue":"q","user":"ann","resource":"cpu","asked":"4","free":"500m","missing":"3500m"}`,
		`queue "q" has no memory free of its capability, 4Gi needed`:                                                                                               `{"queue":"q","resource":"memory","asked":"4Gi","free":"0","missing":"4Gi"}`,
		"no room for the one pod that the gang needs to start; 1 more needs 1 cpu, 4 nvidia.com/gpu; nearest: n1 lacks 4 nvidia.com/gpu (a (b))":                   `{"pods":1,"each":{"cpu":"1","nvidia.com/gpu":"4"}}`,
		"room for 1 of the 2 members that start together; 1 more finds no node (x; 2 more need y); it needs a place":                                               `{"pods":1}`,
		`room for 1 of the 3 members that start together; 2 more of task "a \"b" need 1Gi memory each where the inter-pod constraints of the gang let them go (x)`: `{"pods":2,"task":"a \"b","each":{"memory":"1Gi"}}`,
		"waiting for the PodGroup": `null`,
	} {
		written, err := json.Marshal(shortIn(message))
		require.NoError(t, err)
		assert.JSONEq(t, want, string(written), message)
	}
}
