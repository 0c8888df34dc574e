package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/apis/config"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/runtimes"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/startreview"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/timeline"
)

// world is a room with a cluster of four nodes of four processors. Jobs run on all of them, and end after one, two, three and four hours. The
// queue q may use all, narrow two processors, closed none.
type world struct {
	ctx    context.Context
	tr     *gangs.Tracker
	clock  *clocktesting.FakeClock
	room   *Room
	client *musterfake.Clientset
	store  cache.Store
	pods   cache.Indexer
	past   *runtimes.Past
}

// tester is a test, or one of many histories.
type tester interface {
	require.TestingT
	Helper()
}

func newWorld(t tester) *world {
	t.Helper()
	w := newStandby(t)
	w.tr.Leadership.Lead()
	return w
}

// newStandby is a world whose process has had no scheduling cycle.
func newStandby(t tester) *world {
	t.Helper()
	w := &world{
		ctx: context.Background(), clock: clocktesting.NewFakeClock(now), client: musterfake.NewSimpleClientset(),
		store: cache.NewStore(cache.MetaNamespaceKeyFunc), past: &runtimes.Past{},
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	w.tr = gangs.New(w.clock)
	require.NoError(t, w.tr.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired, ReservationDepth: 1}))
	w.tr.Quota.EnforceQuota()
	queues := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, queue := range []*schedulingv1beta1.Queue{
		mustertesting.MakeQueue("q").Obj(), mustertesting.MakeQueue("narrow").Capability("cpu", "2").Obj(), mustertesting.MakeQueue("closed").Obj(),
	} {
		if queue.Name == "closed" {
			queue.Labels = map[string]string{schedulingv1beta1.TakesNoJobsLabel: schedulingv1beta1.TakesNoJobsClosed}
		}
		w.tr.SetQueue(queue)
		require.NoError(t, queues.Add(queue))
	}
	w.tr.Feed.Queues = schedulingv1beta1listers.NewQueueLister(queues)
	w.tr.Feed.Open()
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, classes.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 10}))
	w.tr.Classes = schedulinglisters.NewPriorityClassLister(classes)
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range 4 {
		node := mustertesting.MakeNode(fmt.Sprintf("n%d", i)).Allocatable("cpu", "4", "pods", "100").Obj()
		require.NoError(t, nodes.Add(node))
		w.run(t, fmt.Sprintf("train-%d", i), node.Name, time.Duration(i+1)*time.Hour)
	}
	w.room = New(w.tr, w.client, w.clock, newSurvey(w.tr, corelisters.NewNodeLister(nodes), corelisters.NewPodLister(w.pods)))
	w.room.reviews = newReviews(w.client, w.tr, w.clock, w.store, func(context.Context) *runtimes.Past { return w.past })
	return w
}

// run has a gang of one pod run on a whole node.
func (w *world) run(t tester, name, node string, length time.Duration) {
	group := mustertesting.MakePodGroup(name).UID(name).MinMember(1).Queue("q").Phase(schedulingv1beta1.PodGroupRunning).Created(now).Obj()
	group.Annotations = map[string]string{schedulingv1beta1.RunningEstimateAnnotation: length.String()}
	w.tr.SetPodGroup(group)
	pod := mustertesting.MakePod(name).UID(name).Group(name).SchedulerName("muster").Requests("cpu", "4").Node(node).Obj()
	pod.Status.StartTime = &metav1.Time{Time: now.Add(-time.Second)} // with whole seconds it may have begun a second later
	w.put(t, pod)
}

func (w *world) put(t tester, pod *corev1.Pod) {
	require.NoError(t, w.pods.Add(pod))
	w.tr.SetPod(pod)
}

// ask creates a StartReview of a Job.
func (w *world) ask(t tester, namespace, name string, job *batchv1alpha1.Job) {
	t.Helper()
	job.APIVersion, job.Kind, job.Namespace = "batch.volcano.sh/v1alpha1", "Job", ""
	raw, err := json.Marshal(job)
	require.NoError(t, err)
	w.askRaw(t, namespace, name, raw)
}

// askForGroup creates a StartReview of a PodGroup.
func (w *world) askForGroup(t tester, name string, group *schedulingv1beta1.PodGroup) {
	t.Helper()
	raw, err := json.Marshal(group)
	require.NoError(t, err)
	w.askOf(t, "default", name, musterv1alpha1.StartReviewSpec{PodGroup: runtime.RawExtension{Raw: raw}})
}

func (w *world) askRaw(t tester, namespace, name string, raw []byte) {
	t.Helper()
	w.askOf(t, namespace, name, musterv1alpha1.StartReviewSpec{Job: runtime.RawExtension{Raw: raw}})
}

func (w *world) askOf(t tester, namespace, name string, spec musterv1alpha1.StartReviewSpec) {
	t.Helper()
	review := &musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(w.clock.Now()),
	}, Spec: spec}
	_, err := w.client.MusterV1alpha1().StartReviews(namespace).Create(w.ctx, review, metav1.CreateOptions{})
	require.NoError(t, err)
}

// look has the room look once, at what the API has now.
func (w *world) look(t tester) {
	t.Helper()
	var all []any
	for _, review := range w.all(t) {
		all = append(all, review)
	}
	require.NoError(t, w.store.Replace(all, ""))
	w.room.Look(w.ctx)
}

func (w *world) all(t tester) (all []*musterv1alpha1.StartReview) {
	list, err := w.client.MusterV1alpha1().StartReviews(metav1.NamespaceAll).List(w.ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// count is how many StartReviews of a namespace have an answer.
func (w *world) count(t tester, namespace string, answer musterv1alpha1.StartAnswer) (n int) {
	for _, review := range w.all(t) {
		if review.Namespace == namespace && review.Status.Answer == answer {
			n++
		}
	}
	return n
}

// jobOf is a Job of some pods of four processors each, that runs for an hour.
func jobOf(replicas int32) *mustertesting.JobWrapper {
	return mustertesting.MakeJob("wide").Queue("q").Task(mustertesting.MakeTask("worker", replicas).Requests("cpu", "4"))
}

// tasksOf is a Job of some tasks that ask for nothing.
func tasksOf(n int) *batchv1alpha1.Job {
	job := mustertesting.MakeJob("many").Queue("q")
	for i := range n {
		job.Task(mustertesting.MakeTask(fmt.Sprintf("t%d", i), 1))
	}
	return job.Obj()
}

// answers are what Jobs, or texts in place of Jobs, are answered.
var answers = map[string]struct {
	job    *batchv1alpha1.Job
	raw    string
	answer musterv1alpha1.StartAnswer
	says   string
}{
	"a node comes free":   {job: jobOf(1).Obj(), answer: musterv1alpha1.StartsLater, says: "expected to start about 13:00:00 UTC on January 1, when train-0 ends"},
	"two nodes come free": {job: jobOf(2).Obj(), answer: musterv1alpha1.StartsLater, says: "about 14:00:00 UTC on January 1, when train-0 and train-1 end"},
	"only the minimum":    {job: jobOf(40).MinAvailable(1).Obj(), answer: musterv1alpha1.StartsLater, says: "about 13:00:00 UTC"},
	"nothing asked for": {job: mustertesting.MakeJob("small").Queue("q").Task(mustertesting.MakeTask("worker", 3)).Obj(),
		answer: musterv1alpha1.StartsNow, says: "it would start at once"},
	"tasks in stages": {job: jobOf(1).Task(mustertesting.MakeTask("later", 40).Requests("cpu", "4").DependsOn("worker")).Obj(),
		answer: musterv1alpha1.StartsLater, says: "about 13:00:00 UTC"},
	"more than all nodes": {job: jobOf(5).Obj(), answer: musterv1alpha1.StartsNever, says: "it would never start: no nodes that take its pods have room"},
	"more than the queue": {job: jobOf(1).Queue("narrow").Obj(), answer: musterv1alpha1.StartsNever,
		says: `it would never start: its minimum can never fit queue "narrow": 4 cpu asked, its capability is 2`},
	"no such queue":  {job: jobOf(1).Queue("none").Obj(), answer: musterv1alpha1.StartsNever, says: "queue none does not exist: name another queue"},
	"a closed queue": {job: jobOf(1).Queue("closed").Obj(), answer: musterv1alpha1.StartsNever, says: "queue closed is closed: name another queue"},
	"no Job that can run": {job: jobOf(1).MinAvailable(2).Obj(), answer: musterv1alpha1.StartsNever,
		says: "job 'minAvailable' should not be greater than total replicas"},
	"no tasks":         {raw: `{"spec": {}}`, answer: musterv1alpha1.StartsNever, says: "No task specified in job spec: add one"},
	"another type":     {raw: `{"spec": {"tasks": 3}}`, answer: musterv1alpha1.StartsNever, says: "it is no Job"},
	"no Job at all":    {raw: `[]`, answer: musterv1alpha1.StartsNever, says: "it is no Job"},
	"of another place": {raw: `{"metadata": {"namespace": "other"}, "spec": {}}`, answer: musterv1alpha1.StartsNever, says: "the Job is for namespace other"},
	"a large one": {raw: `{"metadata": {"annotations": {"a": "` + strings.Repeat("x", 64<<10) + `"}}}`, answer: musterv1alpha1.StartRefused,
		says: "at most 64 are answered: leave out scripts and data"},
	"more tasks than a Job may have": {job: tasksOf(101), answer: musterv1alpha1.StartsNever, says: "spec.tasks: Too many: 101: must have at most 100 items"},
	"as many tasks as it may have":   {job: tasksOf(100), answer: musterv1alpha1.StartsNow, says: "it would start at once"},
	"a gang as large as can be":      {job: jobOf(batchv1alpha1.MaxReplicas).Obj(), answer: musterv1alpha1.StartsNever, says: "it would never start"},
}

func TestTheAnswerToAReview(t *testing.T) {
	for name, test := range answers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.job != nil {
				w.ask(t, "default", "asks", test.job)
			} else {
				w.askRaw(t, "default", "asks", []byte(test.raw))
			}
			w.look(t)
			got := w.all(t)[0].Status
			assert.Equal(t, test.answer, got.Answer)
			assert.Contains(t, got.Message, test.says)
		})
	}
}

// TestAPodGroupIsAskedAbout: its pods get equal parts of minResources.
func TestAPodGroupIsAskedAbout(t *testing.T) {
	for says, group := range map[string]*mustertesting.PodGroupWrapper{
		"about 14:00:00 UTC on January 1, when train-0 and train-1 end": mustertesting.MakePodGroup("").Queue("q").MinMember(4).MinResources("cpu", "7"),
		"about 15:00:00 UTC": mustertesting.MakePodGroup("g").Queue("q").MinMember(3).MinResources("cpu", "9", "pods", "3"),
		"it would never start: no nodes that take its pods have room": mustertesting.MakePodGroup("g").Queue("q").MinMember(4).MinResources("cpu", "17"),
		"it would never start: its minimum can never fit queue":       mustertesting.MakePodGroup("g").Queue("narrow").MinMember(1).MinResources("cpu", "3"),
		"it would start at once":                                      mustertesting.MakePodGroup("g").Queue("q").MinMember(2).MinResources("memory", "0"),
		"queue default does not exist":                                mustertesting.MakePodGroup("g").MinResources("cpu", "1"),
		"queue closed is closed":                                      mustertesting.MakePodGroup("g").Queue("closed").MinResources("cpu", "1"),
		"set spec.podGroup.spec.minResources":                         mustertesting.MakePodGroup("g").Queue("q").MinMember(1),
		"the PodGroup is for namespace other: create the Star":        mustertesting.MakePodGroup("g").Namespace("other").MinResources("cpu", "1"),
	} {
		w := newWorld(t)
		w.askForGroup(t, "asks", group.Obj())
		w.look(t)
		assert.Contains(t, w.all(t)[0].Status.Message, says)
	}
}

// TestWhomAStartWouldDelay: names of its own namespace, and a count of others. Gangs that rank before it are not delayed.
func TestWhomAStartWouldDelay(t *testing.T) {
	w := newWorld(t)
	first, foreign := jobOf(1).UID("first").Obj(), jobOf(2).UID("foreign").Namespace("other").Obj()
	first.Name, foreign.Name = "first", "foreign"
	w.create(t, first)
	w.create(t, foreign)
	w.ask(t, "default", "last", jobOf(1).Obj())
	w.ask(t, "default", "urgent", jobOf(2).PriorityClass("urgent").Obj())
	w.look(t)
	for _, review := range w.all(t) {
		want := &musterv1alpha1.StartDelays{}
		if review.Name == "urgent" {
			want = &musterv1alpha1.StartDelays{Names: []string{"first"}, Others: 1}
		}
		assert.Equal(t, want, review.Status.Delays, review.Name)
		text, err := json.Marshal(review.Status)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "foreign")
	}
}

// TestWhetherAStartEvicts: a queue below its share takes back what another has beyond its own.
func TestWhetherAStartEvicts(t *testing.T) {
	for name, c := range map[string]struct {
		queue   string
		evictor bool
		evicts  bool
	}{
		"its queue has its share, and may take it back": {"narrow", true, true},
		"its queue has more than its share":             {"q", true, false},
		"nothing is evicted in this cluster":            {"narrow", false, false},
	} {
		w := newWorld(t)
		w.tr.Quota.Ledger.SetTotal(resources.List{corev1.ResourceCPU: 16_000})
		if c.evictor {
			w.tr.Victims.EvictPods()
		}
		w.ask(t, "default", "asks", mustertesting.MakeJob("a").Queue(c.queue).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")).Obj())
		w.look(t)
		status := w.all(t)[0].Status
		require.Equal(t, musterv1alpha1.StartsLater, status.Answer, status.Message)
		assert.Equal(t, c.evicts, status.Evicts, name)
	}
}

// TestAnAnswerNamesNothingOfOthers: what runs in other namespaces is counted.
func TestAnAnswerNamesNothingOfOthers(t *testing.T) {
	w := newWorld(t)
	w.ask(t, "team", "asks", jobOf(2).Obj())
	w.look(t)
	got := w.all(t)[0]
	assert.Equal(t, "expected to start about 14:00:00 UTC on January 1, when 2 others end", got.Status.Message)
	assert.EqualValues(t, 2, got.Status.NodeCount)
	text, err := json.Marshal(got.Status)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "train")
}

// TestHowLongItRunsIsKnownFromEarlierRuns: the history is that of the controller.
func TestHowLongItRunsIsKnownFromEarlierRuns(t *testing.T) {
	w := newWorld(t)
	job := defaults.Job(jobOf(1).Namespace("team").Obj(), "")
	w.past.Ended(runtimes.RunOfJob(job), 90*time.Minute, 0)
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.ask(t, "stranger", "asks", jobOf(1).Obj())
	w.look(t)
	for _, review := range w.all(t) {
		if review.Namespace == "team" {
			assert.Equal(t, "1h30m0s", review.Status.Runtime)
		} else {
			assert.Empty(t, review.Status.Runtime)
		}
	}
}

// drawJob draws a Job that waits, or that may start.
func drawJob(t *rapid.T, name string) *batchv1alpha1.Job {
	draw := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	job := mustertesting.MakeJob(name).UID(name).Queue([]string{"q", "q", "narrow"}[draw(0, 2, "queue")])
	for i := range draw(1, 2, "tasks") {
		task := mustertesting.MakeTask(fmt.Sprintf("task%d", i), int32(draw(1, 4, "replicas"))).Requests("cpu", fmt.Sprint(draw(1, 4, "cpu")))
		job.Task(task)
	}
	made := job.Obj()
	if hours := draw(0, 3, "hours"); hours > 0 {
		made.Spec.RunningEstimate = &metav1.Duration{Duration: time.Duration(hours) * time.Hour}
	}
	return made
}

// create has a Job come, as muster-controller makes its objects.
func (w *world) create(t tester, job *batchv1alpha1.Job) *schedulingv1beta1.PodGroup {
	job = defaults.Job(job, "")
	priorityOf := (&startreview.Cluster{ClassValue: w.tr.ClassValue}).PriorityOf
	group := build.PodGroup(job, priorityOf, build.Additions{})
	group.UID, group.CreationTimestamp, group.Status.Phase = types.UID(job.Name), metav1.NewTime(w.clock.Now()), schedulingv1beta1.PodGroupInqueue
	w.tr.SetPodGroup(group)
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		for index := range task.Replicas {
			pod := build.Pod(job, task, index)
			pod.UID, pod.Spec.Priority = types.UID(pod.Name), new(priorityOf(job.Spec.PriorityClassName))
			w.put(t, pod)
		}
	}
	return group
}

// plans are the plans of all gangs that wait.
func (w *world) plans(asks []*question) (plans map[string]*schedulingv1beta1.PodGroupPlan, starts []timeline.Start) {
	plans = map[string]*schedulingv1beta1.PodGroupPlan{}
	snapshot := w.room.survey.take(w.clock.Now(), asks)
	if snapshot == nil {
		return plans, nil
	}
	starts = timeline.Plan(&snapshot.Cluster)
	for i := range starts {
		if snapshot.Waiting[i].asked == nil {
			plans[string(snapshot.Waiting[i].UID)] = snapshot.planOf(i, &starts[i], w.room.ranges)
		}
	}
	return plans, starts
}

// TestGangsBehindAReservationWaitForIt, though it has no start. Else they would be expected at once, for as long as it waits.
func TestGangsBehindAReservationWaitForIt(t *testing.T) {
	w := newWorld(t)
	job := func(name, queue string, replicas int32) *batchv1alpha1.Job {
		made := mustertesting.MakeJob(name).Queue(queue).Task(mustertesting.MakeTask("worker", replicas).Requests("cpu", "2")).Obj()
		made.Spec.RunningEstimate = &metav1.Duration{Duration: 10 * time.Minute}
		return made
	}
	wide := w.create(t, job("wide", "q", 8))
	w.clock.Step(time.Second)
	small := w.create(t, job("small", "q", 1))
	startOf := func(group *schedulingv1beta1.PodGroup) string {
		plans, _ := w.plans(nil)
		return plans[string(group.UID)].ExpectedStart.At.Sub(now).Round(time.Minute).String()
	}
	assert.Equal(t, "4h0m0s", startOf(wide))
	assert.Equal(t, "1h0m0s", startOf(small))

	g := w.tr.Gangs[state.Key{Namespace: wide.Namespace, Name: wide.Name}]
	choice := reservations.Choice{Places: map[types.UID]string{}, Amounts: map[string]resources.List{}}
	for i, m := range g.Choose() {
		choice.Places[m.UID] = fmt.Sprintf("n%d", i/2)
	}
	w.tr.WaitList.Book.WaitForRoom(g.Key, w.tr.Rank(g), nil, w.clock.Now())
	w.tr.WaitList.Book.ReserveNodes(g.Key, choice, w.clock.Now())
	assert.Equal(t, "4h0m0s", startOf(wide))
	assert.Equal(t, "4h10m0s", startOf(small))

	narrow := w.create(t, job("narrow", "narrow", 1))
	assert.Equal(t, "1h0m0s", startOf(narrow), "it is kept from gangs of the queue only")
	assert.Equal(t, "4h10m0s", startOf(small))
}

// TestTheAnswerIsThePlanOfTheGang that is created in the same moment. Nothing else has another plan for the question.
func TestTheAnswerIsThePlanOfTheGang(t *testing.T) {
	mustertesting.Histories(t, 200, func(t *rapid.T) {
		w := newWorld(t)
		for i := range rapid.IntRange(0, 4).Draw(t, "waiting") {
			w.create(t, drawJob(t, fmt.Sprintf("waits%d", i)))
		}
		before, _ := w.plans(nil)
		job := drawJob(t, "asked")
		if rapid.Bool().Draw(t, "urgent") {
			job.Spec.PriorityClassName = "urgent"
		}
		w.ask(t, "default", "asks", job.DeepCopy())
		w.look(t)
		answer := w.all(t)[0].Status
		after, _ := w.plans(nil)
		require.Equal(t, before, after)

		group := w.create(t, job)
		created, _ := w.plans(nil)
		want := created[string(group.UID)]
		require.NotNil(t, want)
		require.Equal(t, want.Position, answer.Plan.Position)
		require.Equal(t, want.ExpectedStart == nil, answer.Plan.ExpectedStart == nil)
		if want.ExpectedStart != nil {
			require.True(t, want.ExpectedStart.At.Equal(&answer.Plan.ExpectedStart.At), "%v, not %v", answer.Plan.ExpectedStart.At, want.ExpectedStart.At)
		}
		require.Equal(t, want.WaitsFor, answer.Plan.WaitsFor)
		require.Equal(t, want.WaitsForOthers, answer.Plan.WaitsForOthers)
		var delayed []string
		for uid, plan := range before {
			if was, is := plan.ExpectedStart, created[uid].ExpectedStart; was != nil && (is == nil || is.At.After(was.At.Time)) {
				delayed = append(delayed, uid)
			}
		}
		slices.Sort(delayed)
		if answer.Delays != nil {
			require.Equal(t, delayed, answer.Delays.Names)
		} else {
			require.Nil(t, want.ExpectedStart)
		}
	})
}

// TestAFloodOfReviews: a namespace has ten answers a minute, others have theirs, and the writes of a look are few.
func TestAFloodOfReviews(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		w.ask(t, "flood", fmt.Sprintf("asks-%03d", i), jobOf(1).Obj())
	}
	w.clock.Step(time.Second)
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.client.ClearActions()
	w.look(t)
	assert.Equal(t, answersOfMinute, w.count(t, "flood", musterv1alpha1.StartsLater))
	assert.Equal(t, 1, w.count(t, "team", musterv1alpha1.StartsLater), "the flood of others does not matter")
	refused := w.count(t, "flood", musterv1alpha1.StartRefused)
	assert.Positive(t, refused)
	assert.LessOrEqual(t, refused, 1000/tidyPart+tidyPerSecond*int(period/time.Second))

	for range 10 {
		w.clock.Step(period)
		w.look(t)
	}
	assert.Equal(t, answersOfMinute, w.count(t, "flood", musterv1alpha1.StartsLater), "no more in a minute")
	message := w.all(t)[slices.IndexFunc(w.all(t), func(r *musterv1alpha1.StartReview) bool { return r.Status.Answer == musterv1alpha1.StartRefused })].Status.Message
	assert.Contains(t, message, "10 StartReviews of a namespace are answered in a minute")

	for range 20 {
		w.clock.Step(period)
		w.look(t)
	}
	assert.Less(t, len(w.all(t)), 1001, "the oldest of too many answered ones go")
	for range 300 {
		w.clock.Step(period)
		w.look(t)
	}
	assert.Empty(t, w.all(t), "all go after ten minutes")
}

// TestWhatIsLeftOfAFloodIsDeleted: what was not refused within a minute costs one write.
func TestWhatIsLeftOfAFloodIsDeleted(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		w.ask(t, "flood", fmt.Sprintf("asks-%03d", i), jobOf(1).Obj())
	}
	w.clock.Step(readFor)
	w.look(t)
	assert.Equal(t, answersOfMinute, w.count(t, "flood", musterv1alpha1.StartsLater))
	assert.Zero(t, w.count(t, "flood", musterv1alpha1.StartRefused))
	assert.Len(t, w.all(t), 100-(100-answersOfMinute)/tidyPart-tidyPerSecond*int(period/time.Second))
}

// TestNamespacesTakeTurns: StartReviews of one are deleted though another has many that are older.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		w.ask(t, "flood", fmt.Sprintf("asks-%03d", i), jobOf(1).Obj())
	}
	w.clock.Step(time.Second)
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.clock.Step(keptFor)
	w.look(t)
	for _, review := range w.all(t) {
		assert.Equal(t, "flood", review.Namespace)
	}
}

// TestTheInformerKeepsNothingLong: a tenant may create very many StartReviews.
func TestTheInformerKeepsNothingLong(t *testing.T) {
	long := strings.Repeat("x", 128<<10)
	kept, err := withoutSpec(&musterv1alpha1.StartReview{
		ObjectMeta: metav1.ObjectMeta{Name: "asks", Labels: map[string]string{"l": long}, Annotations: map[string]string{"a": long}},
		Spec:       musterv1alpha1.StartReviewSpec{Job: runtime.RawExtension{Raw: []byte(long)}, PodGroup: runtime.RawExtension{Raw: []byte(long)}},
		Status:     musterv1alpha1.StartReviewStatus{Answer: musterv1alpha1.StartsNever, Message: long},
	})
	require.NoError(t, err)
	text, err := json.Marshal(kept)
	require.NoError(t, err)
	assert.Less(t, len(text), 300, "%s", text)
	assert.Contains(t, string(text), "asks")
	assert.Contains(t, string(text), musterv1alpha1.StartsNever)
}

// TestAReviewIsReadWhenItIsAnswered: by then it may be deleted, be another one, or have its answer. One that cannot be read is answered later.
func TestAReviewIsReadWhenItIsAnswered(t *testing.T) {
	w := newWorld(t)
	broken, gets := true, 0
	w.client.PrependReactor("get", "startreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		gets++
		return broken, nil, errors.New("no connection")
	})
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.ask(t, "other", "asks", jobOf(1).Obj())
	w.look(t)
	assert.Zero(t, w.count(t, "team", musterv1alpha1.StartsLater))
	assert.Equal(t, 1, gets, "the others cannot be read, either")
	broken = false
	w.clock.Step(period)
	w.look(t)
	assert.Equal(t, 1, w.count(t, "team", musterv1alpha1.StartsLater))

	w.ask(t, "team", "gone", jobOf(1).Obj())
	w.ask(t, "team", "new", jobOf(1).Obj())
	w.ask(t, "team", "answered", jobOf(1).Obj())
	for _, review := range w.all(t) {
		seen := *review
		switch review.Name {
		case "asks":
			continue
		case "new":
			seen.UID = "another"
		}
		require.NoError(t, w.store.Add(&seen))
		if review.Status.Answer = "Before"; review.Name == "answered" {
			_, err := w.client.MusterV1alpha1().StartReviews("team").Update(w.ctx, review, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.client.MusterV1alpha1().StartReviews("team").Delete(w.ctx, "gone", metav1.DeleteOptions{}))
	w.client.ClearActions()
	w.clock.Step(period)
	w.room.Look(w.ctx)
	for _, action := range w.client.Actions() {
		assert.Equal(t, "get", action.GetVerb(), "%v", action)
	}
}

// TestAFloodThatGoesOnIsBounded: fifty StartReviews a second, for an hour.
func TestAFloodThatGoesOnIsBounded(t *testing.T) {
	w := newWorld(t)
	most := 0
	for i := range int(time.Hour / period) {
		for j := range 50 * int(period/time.Second) {
			w.askRaw(t, "flood", fmt.Sprintf("asks-%d-%d", i, j), []byte("{}"))
		}
		w.look(t)
		most = max(most, len(w.store.List()))
		w.clock.Step(period)
	}
	assert.Less(t, most, 10_000)
}

// TestAnIdleSchedulerAnswers: it has scheduled nothing since it has come, so it does not know that it leads. It leaves time to another.
func TestAnIdleSchedulerAnswers(t *testing.T) {
	w := newStandby(t)
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.create(t, jobOf(1).UID("waits").Obj())
	w.look(t)
	assert.Zero(t, w.count(t, "team", musterv1alpha1.StartsLater))
	w.clock.Step(openForLong)
	w.look(t)
	assert.Equal(t, 1, w.count(t, "team", musterv1alpha1.StartsLater))
	for _, action := range w.client.Actions() {
		assert.Equal(t, "startreviews", action.GetResource().Resource, "and it writes nothing else")
	}
	w.clock.Step(keptFor)
	w.look(t)
	assert.Len(t, w.all(t), 1)
}

// TestAnOlderCRDHoldsUpPlansOnly: StartReviews are answered, and after a minute the scheduler sees whether plans are kept now.
func TestAnOlderCRDHoldsUpPlansOnly(t *testing.T) {
	w := newWorld(t)
	groups := w.client.SchedulingV1beta1().PodGroups("default")
	for _, name := range []string{"first", "second"} {
		job := jobOf(1).UID(name).Obj()
		job.Name = name
		_, err := groups.Create(w.ctx, w.create(t, job), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	isOld, written := true, 0
	w.client.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		written++
		return isOld, &schedulingv1beta1.PodGroup{}, nil
	})
	w.clock.Step(period)
	w.look(t)
	w.ask(t, "team", "asks", jobOf(1).Obj())
	w.clock.Step(period)
	w.look(t)
	assert.Equal(t, 1, written, "it is enough to know that nothing is kept")
	assert.Equal(t, 1, w.count(t, "team", musterv1alpha1.StartsLater))

	w.clock.Step(pruneCheck)
	w.look(t)
	assert.Equal(t, 2, written, "still the old one")
	isOld = false
	w.clock.Step(pruneCheck)
	w.look(t)
	for _, name := range []string{"first", "second"} {
		group, err := groups.Get(w.ctx, name+"-"+name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotNil(t, group.Status.Plan, name)
	}
}

// TestTheNextLeaderAnswersWhatIsOpen, and nothing again.
func TestTheNextLeaderAnswersWhatIsOpen(t *testing.T) {
	w := newWorld(t)
	w.ask(t, "team", "first", jobOf(1).Obj())
	w.look(t)
	w.client.ClearActions()
	w.look(t)
	for _, action := range w.client.Actions() {
		assert.NotEqual(t, "patch", action.GetVerb(), "it is answered once")
	}
	w.ask(t, "team", "second", jobOf(1).Obj())
	w.room.reviews = newReviews(w.client, w.tr, w.clock, w.store, func(context.Context) *runtimes.Past { return w.past }) // a restart
	w.look(t)
	assert.Equal(t, 2, w.count(t, "team", musterv1alpha1.StartsLater))
}

// TestOnlyTheReviewThatWasSeenIsDeleted: another of its name may have been created meanwhile.
func TestOnlyTheReviewThatWasSeenIsDeleted(t *testing.T) {
	review := &musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns", UID: "seen"}}
	review.Status.Answer = musterv1alpha1.StartRefused
	client := musterfake.NewSimpleClientset(review)
	(&reviews{client: client}).end(t.Context(), review, now)
	require.Len(t, client.Actions(), 1)
	deletion, isDeletion := client.Actions()[0].(clienttesting.DeleteAction)
	require.True(t, isDeletion)
	require.NotNil(t, deletion.GetDeleteOptions().Preconditions)
	assert.Equal(t, review.UID, *deletion.GetDeleteOptions().Preconditions.UID)
}
