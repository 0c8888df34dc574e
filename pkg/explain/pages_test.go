package explain

import (
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

// waitingJob is a Job of four pods of one cpu each that its queue has not admitted.
func waitingJob() Facts {
	job := mustertesting.MakeJob("training").Namespace("ml").UID("1").Queue("team").MinAvailable(4).
		Task(mustertesting.MakeTask("worker", 4).Requests("cpu", "1")).Obj()
	job.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Minute))
	job.Status = batchv1alpha1.JobStatus{MinAvailable: 4, State: batchv1alpha1.JobState{
		Phase: batchv1alpha1.Pending, Reason: "PodGroupPending", Message: "the queue is full", LastTransitionTime: job.CreationTimestamp}}
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).Namespace("ml").UID("g1").Owner(job).Queue("team").MinMember(4).
		MinResources("cpu", "4").Phase(schedulingv1beta1.PodGroupPending).Created(now.Add(-9 * time.Minute)).Obj()
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{
		{Type: schedulingv1beta1.PodGroupScheduled, Message: "an earlier run", LastTransitionTime: metav1.NewTime(now.Add(-8 * time.Minute))},
		{Type: schedulingv1beta1.PodGroupUnschedulableType, Message: "6 used", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
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

// TestAGangWhoseQueueLeavesNoNode: the queue or an ancestor names node groups.
func TestAGangWhoseQueueLeavesNoNode(t *testing.T) {
	f := waitingJob()
	f.Nodes = append(f.Nodes, *mustertesting.MakeNode("n2").Label(schedulingv1beta1.NodeGroupLabel, "gpu").Allocatable("cpu", "8", "pods", "110").Obj())
	f.Queues[0].Spec.Affinity = &schedulingv1beta1.Affinity{NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []string{"gpu", "lab"}}}
	f.Queues[1].Spec.Affinity = &schedulingv1beta1.Affinity{NodeGroupAntiAffinity: &schedulingv1beta1.NodeGroupAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []string{"gpu"}}}
	page := Job(f)
	why := section(page, "Why does it wait?")
	assert.Contains(t, why, `  1 node takes none: it is not in the node groups of queue "root" (gpu, lab)`)
	assert.Contains(t, why, `  1 node takes none: it is in a node group that queue "team" keeps off (gpu)`)
	assert.Contains(t, section(page, "Can it ever run?"), `Not on these nodes: all of them, empty, take 0 of 4 pods of task "worker" that need 1 cpu each.`)
}

func TestAJobThatItsQueueHasNoRoomFor(t *testing.T) {
	f := waitingJob()
	page := Job(f)
	assert.Equal(t, "Job ml/training: Pending, for 10m", page.Title)
	assert.Equal(t, []string{
		"The queue has not admitted the Job, so no pod is created. (PodGroupPending)",
		"It says: the queue is full",
		"Queue team: 6 of 8 cpu are used or reserved, so 2 are free; 4 are asked for.",
		`Nodes: 2 of 4 pods of task "worker" find a place now; each needs 1 cpu.`,
	}, section(page, "Why does it wait?"))
	assert.Equal(t, []string{
		"2 cpu of queue team: Jobs there have to end, or its capability has to be raised.",
		"Room on nodes for 2 pods more, with 1 cpu each: pods there have to end, or nodes have to be added.",
	}, section(page, "What would free it?"))
	assert.Equal(t, []string{"Yes: it fits into its queue and on these nodes when enough of what runs has ended."}, section(page, "Can it ever run?"))
	assert.Equal(t, []string{"2026-11-25 11:59:00Z, 60s ago: 6 used"}, section(page, "What was tried last?"))
	assert.Equal(t, []string{"It is the only one that waits in queue team."}, section(page, "Who is before it?"))
}

func TestAnAdmittedJobWhoseQuotaIsTakenMeanwhile(t *testing.T) {
	f := waitingJob()
	f.Group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	f.Queues[1].Status.Reservation.Resource = mustertesting.Resources("cpu", "4")
	assert.Contains(t, section(Job(f), "Why does it wait?"), "Queue team: 6 of 8 cpu are used or reserved, so 2 are free; 4 are asked for.",
		"what is kept is kept for it")
	f.Members = []corev1.Pod{*mustertesting.MakePod("training-worker-0").Namespace("ml").Requests("cpu", "1").Node("n1").Phase(corev1.PodRunning).Obj()}
	assert.Contains(t, section(Job(f), "What would free it?"), "1 cpu of queue team: Jobs there have to end, or its capability has to be raised.",
		"one of its four pods has its part")
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
	f.Queues[1].Status.Reservation.Resource = mustertesting.Resources("cpu", "4")
	assert.Contains(t, section(Job(f), "Why does it wait?"), "Queue team: 10 of 8 cpu are used or reserved, so 0 are free; 4 are asked for.")
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

func TestAJobThatCanNeverRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"more than the capability": {func(f *Facts) { f.Queues[1].Spec.Capability = mustertesting.Resources("cpu", "3") },
			"No. It asks for 4 cpu, and the capability of queue team is 3: ask for less, or raise the capability."},
		"more than that of an ancestor": {func(f *Facts) { f.Queues[0].Spec.Capability = mustertesting.Resources("cpu", "3") },
			"No. It asks for 4 cpu, and the capability of queue root is 3: ask for less, or raise the capability."},
		"more than the capability that is valid": {func(f *Facts) {
			f.Queues[1].Status.Conditions = []metav1.Condition{{Type: schedulingv1beta1.QueueValidCondition, Status: metav1.ConditionFalse}}
			f.Queues[1].Status.Muster = &schedulingv1beta1.QueueStatusExtension{LastValid: &schedulingv1beta1.QueueTerms{Capability: mustertesting.Resources("cpu", "3")}}
		}, "No. It asks for 4 cpu, and the capability of queue team is 3: ask for less, or raise the capability."},
		"more than the nodes have": {func(f *Facts) { f.Nodes[0].Status.Allocatable = mustertesting.Resources("cpu", "3", "pods", "110") },
			`Not on these nodes: all of them, empty, take 3 of 4 pods of task "worker" that need 1 cpu each.`},
		"no node lets it in": {func(f *Facts) { f.Nodes[0].Spec.Unschedulable = true },
			`Not on these nodes: all of them, empty, take 0 of 4 pods of task "worker" that need 1 cpu each.`},
		"invalid": {func(f *Facts) { f.Job.Status.State.Reason = "Invalid" },
			"Not as it is. Waiting does not help: it has to be changed."},
		"closed queue": {func(f *Facts) { f.Job.Status.State.Reason = "QueueNotOpen" },
			"Yes, but only when what is in the way is removed. Waiting alone does not help."},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitingJob()
			c.change(&f)
			assert.Equal(t, []string{c.want}, section(Job(f), "Can it ever run?"))
		})
	}
}

func TestWhyNodesTakeNoPod(t *testing.T) {
	f := waitingJob()
	node := func(name string, change func(*corev1.Node)) corev1.Node {
		n := mustertesting.MakeNode(name).Allocatable("cpu", "8", "pods", "110").Obj()
		change(n)
		return *n
	}
	f.Nodes = []corev1.Node{
		node("full", func(*corev1.Node) {}),
		node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("tainted", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "only", Effect: corev1.TaintEffectNoSchedule}}
		}),
		node("small", func(n *corev1.Node) { n.Status.Allocatable = mustertesting.Resources("cpu", "500m", "pods", "110") }),
		node("away", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}
		}),
	}
	f.Bound = []corev1.Pod{*mustertesting.MakePod("other").Requests("cpu", "7500m").Node("full").Obj()}
	lines := section(Job(f), "Why does it wait?")
	assert.Equal(t, []string{
		`Nodes: 0 of 4 pods of task "worker" find a place now; each needs 1 cpu.`,
		"  node full lacks 500m cpu for one",
		"  1 node takes none: it is cordoned",
		"  1 node takes none: it is not ready",
		"  1 node takes none: it is too small for one pod, even when it is empty",
		`  1 node takes none: its taint "gpu=only" is not tolerated`,
	}, lines[len(lines)-6:])
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
		"2026-11-25 11:58:00Z  2m ago   Pod training-worker-1: Reclaimed: " + why,
		"2026-11-25 11:58:00Z  2m ago   Pod training-worker-0: Reclaimed: " + why,
	}, section(page, "What happened?"))
	for range 20 {
		f.Events = append(f.Events, corev1.Event{Reason: "Again", LastTimestamp: at(1), InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "training"}})
	}
	assert.Len(t, section(Job(f), "What happened?"), shownOccurrences+1)
	assert.Equal(t, "(9 earlier)", section(Job(f), "What happened?")[0])
}

func TestWhatTheMembersSayIsMoreThanUnschedulable(t *testing.T) {
	f := waitingJob()
	f.Job.Status.State.Reason = "Unschedulable"
	f.Group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	f.Members = []corev1.Pod{*mustertesting.MakePod("training-worker-0").Namespace("ml").
		Condition(corev1.PodScheduled, corev1.ConditionFalse, "WaitingForEvictions", "they go").Obj()}
	page := Job(f)
	assert.Contains(t, section(page, "Why does it wait?"), "Pods were evicted to make room for it, and have not gone yet. (WaitingForEvictions)")
	assert.Equal(t, []string{"Yes. It goes on by itself."}, section(page, "Can it ever run?"))
}

func TestAJobThatRuns(t *testing.T) {
	f := waitingJob()
	f.Job.Status.State = batchv1alpha1.JobState{Phase: batchv1alpha1.Running, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}
	f.Job.Status.Running, f.Job.Status.RetryCount, f.Job.Spec.MaxRetry = 4, 1, 3
	f.Job.Status.TaskStatusCount = map[string]batchv1alpha1.TaskState{"worker": {Phase: map[corev1.PodPhase]int32{corev1.PodRunning: 4}}}
	page := Job(f)
	assert.Equal(t, []string{
		"4 pods running, 0 pending, 0 succeeded, 0 failed, 0 terminating; 4 start together.",
		"Running by task: worker 4/4.",
		"It was restarted 1 time; it fails when that would be more than 3.",
	}, section(page, "What does it do now?"))
	assert.Nil(t, section(page, "Why does it wait?"))
	assert.Contains(t, section(page, "What can you do?"), "muster job suspend -n ml training    stops it; resume goes on")
}

func TestAPodThatIsGone(t *testing.T) {
	f := Facts{Now: now, Events: []corev1.Event{{Reason: "Preempted", Message: "evicted for PodGroup a/b", LastTimestamp: metav1.NewTime(now),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}}}}
	page := Pod(f, "ml", "p", nil)
	assert.Equal(t, "Pod ml/p: does not exist", page.Title)
	assert.Equal(t, []string{"p, 0s ago: evicted for PodGroup a/b"}, section(page, "Who evicted its pods?"))
}

func TestAPodThatNoSchedulerHasTried(t *testing.T) {
	pod := mustertesting.MakePod("p").Namespace("ml").SchedulerName("typo").Phase(corev1.PodPending).Obj()
	page := Pod(Facts{Now: now}, "ml", "p", pod)
	assert.Equal(t, []string{"It says: The scheduler has not tried it yet. Does spec.schedulerName (typo) name one that runs?"}, section(page, "Why does it wait?"))
}

func TestAQueue(t *testing.T) {
	f := waitingJob()
	f.Groups = append(f.Groups, groupLike(f, "runs", func(g *schedulingv1beta1.PodGroup) { g.Status.Phase = schedulingv1beta1.PodGroupRunning }))
	f.Queues[1].Spec.Deserved = mustertesting.Resources("cpu", "5")
	page := Queue(f, "team")
	assert.Equal(t, "Queue team: Open", page.Title)
	assert.Equal(t, []string{"team: 6 of 8 cpu used (75%), share 5"}, section(page, "How full is it?"))
	assert.Equal(t, []string{"PodGroup ml/runs: 4 cpu"}, section(page, "What runs, and what does its minimum need?"))
	assert.Equal(t, []string{"1. Job ml/training: needs 4 cpu; 6 used"}, section(page, "What waits, and in which order?"))
	f.Queues[1].Status.Reservation.Resource = mustertesting.Resources("cpu", "1")
	f.Queues[1].Status.Conditions = []metav1.Condition{{Type: schedulingv1beta1.QueueValidCondition, Status: metav1.ConditionFalse, Message: "guarantee is above capability"}}
	f.Queues[1].Status.Muster = &schedulingv1beta1.QueueStatusExtension{Deserved: mustertesting.Resources("cpu", "7"), OtherUsers: 2,
		LastValid: &schedulingv1beta1.QueueTerms{Capability: mustertesting.Resources("cpu", "12")},
		Users:     []schedulingv1beta1.UserUsage{{Name: "ann", Allocated: mustertesting.Resources("cpu", "1")}, {Name: "bob", Allocated: mustertesting.Resources("cpu", "3")}}}
	page = Queue(f, "team")
	assert.Equal(t, []string{"team: 6 of 12 cpu used (50%), 1 reserved for Jobs that start, share 7"}, section(page, "How full is it?"))
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
