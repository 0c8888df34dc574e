package explain

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// section returns the lines of a section; none if the page does not have it.
func section(page Page, heading string) []string {
	for _, s := range page.Sections {
		if s.Heading == heading {
			return s.Lines
		}
	}
	return nil
}

// lacksTwo is what muster-controller found of the waiting Job a minute ago.
const lacksTwo = `queue "team" has 2 cpu free of its capability, 4 needed (found at 2026-11-25T11:59:00Z)`

// waitingJob is a Job of four pods of one cpu each that its queue has not admitted.
func waitingJob() Facts {
	job := mustertesting.MakeJob("training").Namespace("ml").UID("1").Queue("team").MinAvailable(4).
		Task(mustertesting.MakeTask("worker", 4).Requests("cpu", "1")).Obj()
	job.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Minute))
	job.Status = batchv1alpha1.JobStatus{MinAvailable: 4, State: batchv1alpha1.JobState{
		Phase: batchv1alpha1.Pending, Reason: "QuotaExceeded", Message: lacksTwo, LastTransitionTime: job.CreationTimestamp}}
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).Namespace("ml").UID("g1").Owner(job).Queue("team").MinMember(4).
		MinResources("cpu", "4").Phase(schedulingv1beta1.PodGroupPending).Created(now.Add(-9 * time.Minute)).Obj()
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{
		{Type: schedulingv1beta1.PodGroupScheduled, Message: "an earlier run", LastTransitionTime: metav1.NewTime(now.Add(-8 * time.Minute))},
		{Type: schedulingv1beta1.PodGroupUnschedulableType, Reason: schedulingv1beta1.QuotaExceededReason, Message: lacksTwo, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
	}
	return Facts{
		Now: now, Job: job, Group: group, Groups: []schedulingv1beta1.PodGroup{*group},
		Queues: []schedulingv1beta1.Queue{*queueUsing("root", "", "0"), *queueUsing("team", "8", "6")},
		Nodes:  []corev1.Node{*mustertesting.MakeNode("n1").Allocatable("cpu", "8", "pods", "110").Obj()},
		Bound:  []corev1.Pod{*mustertesting.MakePod("other").Requests("cpu", "6").Node("n1").Obj()},
	}
}

func queueUsing(name, limit, used string) *schedulingv1beta1.Queue {
	wrapper := mustertesting.MakeQueue(name).State(schedulingv1beta1.QueueStateOpen)
	if limit != "" {
		wrapper = wrapper.Capability("cpu", limit)
	}
	queue := wrapper.Obj()
	queue.Status.Allocated = mustertesting.Resources("cpu", used)
	return queue
}

// groupLike is another PodGroup that waits in the queue of the Job.
func groupLike(f Facts, name string, change func(*schedulingv1beta1.PodGroup)) schedulingv1beta1.PodGroup {
	other := *f.Group.DeepCopy()
	other.Name, other.UID, other.OwnerReferences = name, "", nil
	other.CreationTimestamp = metav1.NewTime(now)
	if change != nil {
		change(&other)
	}
	return other
}

func TestHowLongAGangIsExpectedToRun(t *testing.T) {
	f := waitingJob()
	line := func(page Page) string { lines := section(page, headingNow); return lines[len(lines)-1] }
	assert.NotContains(t, line(Job(f)), "expected")
	f.Group.Status.Estimate = &schedulingv1beta1.PodGroupEstimate{
		Runtime: &metav1.Duration{Duration: 90 * time.Minute}, Source: schedulingv1beta1.EstimateFromHistory, Message: "the mean of the last two runs of this kind",
	}
	assert.Equal(t, "It is expected to run for 90m: the mean of the last two runs of this kind.", line(Job(f)))
	assert.Equal(t, line(Job(f)), line(PodGroup(f)))
	f.Group.Status.Estimate = &schedulingv1beta1.PodGroupEstimate{Message: "the estimate of its user, 1m0s, is not used"}
	assert.Equal(t, "How long it runs is not known: the estimate of its user, 1m0s, is not used.", line(PodGroup(f)))
	f.Group.Status.Phase = schedulingv1beta1.PodGroupCompleted
	assert.NotContains(t, line(PodGroup(f)), "How long")
}

// TestAGangThatAsksForWhatMusterDoesNotHave: each page quotes the condition of the PodGroup.
func TestAGangThatAsksForWhatMusterDoesNotHave(t *testing.T) {
	f := waitingJob()
	f.Group.Status.Conditions[1].Reason, f.Group.Status.Conditions[1].Message = schedulingv1beta1.NotSupportedReason, "spec.subGroupPolicy is not supported"
	pod := mustertesting.MakePod("p").Group(f.Group.Name).Obj()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "WaitingForAdmission", Message: "the queue"}}
	for name, page := range map[string]Page{"PodGroup": PodGroup(f), "Job": Job(f), "Pod": Pod(f, "ml", "p", pod)} {
		assert.Equal(t, []string{"It asks for something that Muster does not have. (NotSupported)", "It says: spec.subGroupPolicy is not supported"},
			section(page, "Why does it wait?"), name)
		assert.Equal(t, []string{"Not as it is. Waiting does not help: it has to be changed."}, section(page, "Can it ever run?"), name)
	}
}

func TestWhoIsBeforeAJob(t *testing.T) {
	f := waitingJob()
	f.Priorities = map[string]int32{"high": 10}
	f.Groups = append(f.Groups,
		groupLike(f, "younger", nil),
		groupLike(f, "important", func(g *schedulingv1beta1.PodGroup) { g.Spec.PriorityClassName = "high" }),
		groupLike(f, "admitted", func(g *schedulingv1beta1.PodGroup) { g.Status.Phase = schedulingv1beta1.PodGroupInqueue }),
		groupLike(f, "runs", func(g *schedulingv1beta1.PodGroup) { g.Status.Phase = schedulingv1beta1.PodGroupRunning }),
		groupLike(f, "elsewhere", func(g *schedulingv1beta1.PodGroup) { g.Spec.Queue = "other"; g.Spec.PriorityClassName = "high" }),
		groupLike(f, "older", func(g *schedulingv1beta1.PodGroup) { g.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }))
	assert.Equal(t, []string{
		"It is the 4th of 5 that wait in queue team.",
		"PodGroup ml/admitted (already admitted)",
		"PodGroup ml/important (priority 10, not 0)",
		"PodGroup ml/older (older)",
	}, section(Job(f), "Who is before it?"))
	f.Queues[1].Spec.DequeueStrategy = schedulingv1beta1.DequeueStrategyFIFO
	assert.Contains(t, section(Job(f), "Who is before it?"), "The queue is first in, first out: none of them is passed.")
}

func TestGangsOfOtherQueuesMayTakeNodesBefore(t *testing.T) {
	f := waitingJob()
	inOther := func(g *schedulingv1beta1.PodGroup) {
		g.Spec.Queue, g.Status.Phase = "other", schedulingv1beta1.PodGroupInqueue
		g.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	}
	f.Groups = append(f.Groups, groupLike(f, "admitted", inOther), groupLike(f, "not-admitted", func(g *schedulingv1beta1.PodGroup) {
		inOther(g)
		g.Status.Phase = schedulingv1beta1.PodGroupPending
	}))
	assert.Len(t, section(Job(f), "Who is before it?"), 1, "it is not admitted, so nodes are not what it waits for")
	f.Group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	f.Groups[0].Status.Phase = schedulingv1beta1.PodGroupInqueue
	assert.Equal(t, []string{
		"It is the only one that waits in queue team.",
		"1 gang of other queues, of a higher priority or older, may take nodes before it.",
	}, section(Job(f), "Who is before it?"))
}

func TestWhoEvictedPodsAndWhatHappened(t *testing.T) {
	f := waitingJob()
	at := func(minutes int) metav1.Time { return metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)) }
	started := at(5)
	f.Job.Status.Conditions = []batchv1alpha1.JobCondition{{Status: batchv1alpha1.Running, LastTransitionTime: &started, Message: "the minimum runs"}}
	const why = `evicted to make room for PodGroup a/b: queue "team" is above its share, and queue "x" is below its own`
	for _, pod := range []string{"training-worker-1", "training-worker-0"} {
		f.Events = append(f.Events, corev1.Event{Reason: "Reclaimed", Message: why, LastTimestamp: at(2),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod}})
	}
	page := Job(f)
	assert.Equal(t, []string{"training-worker-0 and 1 other pod, 2m ago: " + why}, section(page, "Who evicted its pods?"))
	assert.Equal(t, []string{
		"2026-11-25 11:50:00Z  10m ago  the Job was created",
		"2026-11-25 11:55:00Z  5m ago   the Job became Running: the minimum runs",
		"2026-11-25 11:58:00Z  2m ago   Pod training-worker-1 and 1 other: Reclaimed, as said above",
	}, section(page, "What happened?"))
	for i := range 20 {
		f.Events = append(f.Events, corev1.Event{Reason: "Again", Message: strconv.Itoa(i), LastTimestamp: at(1), InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "training"}})
	}
	assert.Len(t, section(Job(f), "What happened?"), shownOccurrences+1)
	assert.Equal(t, "(8 earlier)", section(Job(f), "What happened?")[0])
}

func TestAPodThatIsGone(t *testing.T) {
	f := Facts{Now: now, Events: []corev1.Event{{Reason: "Preempted", Message: "evicted for PodGroup a/b", LastTimestamp: metav1.NewTime(now),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}}}}
	page := Pod(f, "ml", "p", nil)
	assert.Equal(t, "Pod ml/p: does not exist", page.Title)
	assert.Equal(t, []string{"p, 0s ago: evicted for PodGroup a/b"}, section(page, "Who evicted its pods?"))
}

func TestAQueue(t *testing.T) {
	f := waitingJob()
	f.Groups = append(f.Groups, groupLike(f, "runs", func(g *schedulingv1beta1.PodGroup) { g.Status.Phase = schedulingv1beta1.PodGroupRunning }))
	page := Queue(f, "team")
	assert.Equal(t, "Queue team: Open", page.Title)
	assert.Equal(t, []string{"team: 6 of 8 cpu used (75%)"}, section(page, "How full is it?"))
	assert.Equal(t, []string{"PodGroup ml/runs: 4 cpu"}, section(page, "What runs, and what does its minimum need?"))
	assert.Equal(t, []string{"1. Job ml/training: needs 4 cpu; " + text.WithoutTime(lacksTwo)}, section(page, "What waits, and in which order?"))
	f.Queues[1].Status.Reservation.Resource = mustertesting.Resources("cpu", "1")
	f.Queues[1].Status.Conditions = []metav1.Condition{{Type: schedulingv1beta1.QueueValidCondition, Status: metav1.ConditionFalse, Message: "guarantee is above capability"}}
	f.Queues[1].Status.Muster = &schedulingv1beta1.QueueStatusExtension{Deserved: mustertesting.Resources("cpu", "7"), OtherUsers: 2,
		LastValid: &schedulingv1beta1.QueueTerms{Capability: mustertesting.Resources("cpu", "12")},
		Users:     []schedulingv1beta1.UserUsage{{Name: "ann", Allocated: mustertesting.Resources("cpu", "1")}, {Name: "bob", Allocated: mustertesting.Resources("cpu", "3")}}}
	page = Queue(f, "team")
	assert.Equal(t, []string{"team: 6 of 12 cpu used (50%), 1 reserved for Jobs that start, share 7",
		"Jobs, with those of queues below it: 0 running, 0 waiting."}, section(page, "How full is it?"))
	assert.Equal(t, []string{"bob: 3 cpu", "ann: 1 cpu", "and 2 other users"}, section(page, "Who uses it?"))
	assert.Equal(t, []string{"guarantee is above capability"}, section(page, "What is wrong with it?"))
	for want, change := range map[string]func(*schedulingv1beta1.Queue){
		"Yes.": func(*schedulingv1beta1.Queue) {},
		"No: it is closed. Open it with muster queue open team.": func(q *schedulingv1beta1.Queue) { q.Status.State = schedulingv1beta1.QueueStateClosing },
		"No: its parent is closed. Open it with muster queue open root.": func(q *schedulingv1beta1.Queue) {
			q.Status.State = schedulingv1beta1.QueueStateClosed
			q.Annotations = map[string]string{schedulingv1beta1.ClosedByParentAnnotation: "true"}
		},
		"Not yet: muster-controller has not opened it.": func(q *schedulingv1beta1.Queue) { q.Status.State = "" },
	} {
		g := waitingJob()
		change(&g.Queues[1])
		assert.Equal(t, []string{want}, section(Queue(g, "team"), "Whether it takes Jobs"))
	}
	assert.Equal(t, []string{"No: there are queues below it, as team. Create Jobs there."}, section(Queue(f, "root"), "Whether it takes Jobs"))
}

func TestAPageIsWritten(t *testing.T) {
	page := Page{Title: "Job a/b: Pending"}
	page.add("Nothing")
	page.add("Why does it wait?", "one", "two")
	out := &strings.Builder{}
	require.NoError(t, page.Write(out, nil))
	assert.Equal(t, "Job a/b: Pending\n\nWhy does it wait?\n  one\n  two\n", out.String())
	out.Reset()
	require.NoError(t, page.Write(out, strings.ToUpper))
	assert.Contains(t, out.String(), "WHY DOES IT WAIT?\n  one")
}

func TestOrdinals(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th", 122: "122nd"} {
		assert.Equal(t, want, ordinal(n))
	}
}
