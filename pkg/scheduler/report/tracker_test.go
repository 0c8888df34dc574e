package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// tracked is a reporter of a real tracker.
type tracked struct {
	*Reporter
	*gangs.Tracker
	clock    *clocktesting.FakeClock
	client   *fake.Clientset
	informer cache.Indexer
	recorder *record.FakeRecorder
}

func newTracked(t *testing.T) *tracked {
	t.Helper()
	s := &tracked{
		clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), client: fake.NewSimpleClientset(), recorder: record.NewFakeRecorder(100),
		informer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	s.Tracker = gangs.New(s.clock)
	require.NoError(t, s.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired}))
	s.Feed.Open()
	s.Leadership.Lead()
	s.Reporter = New(NewReports(s.Tracker), s.clock, s.client, corelisters.NewPodLister(s.informer), s.recorder)
	s.limiter = flowcontrol.NewFakeAlwaysRateLimiter() // a thousand conditions are written at once
	return s
}

// groupIn makes the PodGroup of theGang.
func groupIn(phase schedulingv1beta1.PodGroupPhase, minMember int32) *schedulingv1beta1.PodGroup {
	return mustertesting.MakePodGroup("g").UID("g").MinMember(minMember).Phase(phase).Obj()
}

// create has members of theGang come.
func (s *tracked) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		pod := mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Obj()
		require.NoError(t, s.client.Tracker().Add(pod))
		s.see(t, pod)
	}
}

// see has the informer show a pod.
func (s *tracked) see(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, s.informer.Add(pod))
	s.SetPod(pod)
}

// refuse has the gang decided not to fit, with m0 as its scout.
func (s *tracked) refuse(t *testing.T, message string) {
	t.Helper()
	scout := s.pod(t, "m0")
	s.Hints.Wake(scout)
	snapshot := s.Decisions.Snapshot(scout)
	require.NotNil(t, snapshot)
	_, ok := s.Decisions.Commit(snapshot, &placement.Decision{
		Feasibility: placement.Impossible, Members: snapshot.Problem.Members, Message: message,
		Rejected: []*corev1.Pod{scout}, Rejectors: sets.New("NodeResourcesFit"),
	})
	require.True(t, ok)
}

func (s *tracked) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	obj, err := s.client.Tracker().Get(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, metav1.NamespaceDefault, name)
	require.NoError(t, err)
	return obj.(*corev1.Pod)
}

// look has the reporter look until it has written all that is due. It returns the members' names, after the informer has shown what was written.
func (s *tracked) look(t *testing.T) (written []string, again time.Duration) {
	t.Helper()
	for {
		s.client.ClearActions()
		again = s.Look(t.Context(), theGang)
		for _, action := range s.client.Actions() {
			name := action.(interface{ GetName() string }).GetName()
			written = append(written, name)
			s.see(t, s.pod(t, name))
		}
		if again != time.Millisecond {
			return written, again
		}
	}
}

func (s *tracked) says(t *testing.T, name string) string {
	t.Helper()
	for _, c := range s.pod(t, name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func (s *tracked) events() (events []string) {
	for len(s.recorder.Events) > 0 {
		events = append(events, <-s.recorder.Events)
	}
	return events
}

const waitsForAdmission = "WaitingForAdmission: waiting for the PodGroup to be admitted by its queue"

func TestAGangThatWaitsForAdmissionSaysSo(t *testing.T) {
	s := newTracked(t)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 2))
	s.create(t, "m0", "m1")
	written, again := s.look(t)
	require.Empty(t, written, "every gang goes through this: it is not reported at once")
	require.Positive(t, again)
	s.clock.Step(again)
	written, again = s.look(t)
	require.Equal(t, []string{"m0", "m1"}, written)
	assert.Equal(t, waitsForAdmission, s.says(t, "m0"))
	assert.Equal(t, waitsForAdmission, s.says(t, "m1"))
	assert.Equal(t, []string{"Warning FailedScheduling waiting for the PodGroup to be admitted by its queue"}, s.events(), "the podgroup controller says it on the PodGroup")
	assert.Zero(t, again)

	for range 2 {
		written, again = s.look(t)
		assert.Empty(t, written, "once is enough")
		assert.Zero(t, again)
	}
}

func TestOneEventForEachReasonOfAPodGroup(t *testing.T) {
	s := newTracked(t)
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 4)
	s.SetPodGroup(group)
	s.create(t, "m0")
	_, again := s.look(t)
	s.clock.Step(again)
	written, _ := s.look(t)
	require.Equal(t, []string{"m0"}, written)
	require.Len(t, s.events(), 2)
	text := s.says(t, "m0")

	s.create(t, "m1")
	written, _ = s.look(t)
	require.Equal(t, []string{"m1"}, written, "a pod that joins says it too")
	assert.Equal(t, text, s.says(t, "m1"), "the text does not change with every pod")
	assert.Empty(t, s.events())

	s.DeletePodGroup(group)
	another := groupIn(schedulingv1beta1.PodGroupInqueue, 4)
	another.UID = "another"
	s.SetPodGroup(another)
	s.create(t, "m2")
	written, _ = s.look(t)
	require.Equal(t, []string{"m2"}, written)
	assert.Len(t, s.events(), 2, "of this PodGroup no event says it yet")
}

// The texts of a single gang follow the events. Texts of many pods together must not keep
// the API server busy.
func TestTheMorePodsWaitTheLessOftenTextsChange(t *testing.T) {
	for members, pause := range map[int]time.Duration{1: 5 * time.Second, 1000: 100 * time.Second} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			s := newTracked(t)
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(members)))
			for i := range members {
				s.create(t, fmt.Sprint("m", i))
			}
			s.refuse(t, "no room")
			_, again := s.look(t)
			require.Equal(t, time.Second, again)
			s.clock.Step(again)
			written, _ := s.look(t)
			require.Len(t, written, members)
			assert.Equal(t, "Unschedulable: no room (found at 1970-01-01T00:16:40Z)", s.says(t, "m0"))
			writtenAt := s.clock.Now()

			s.refuse(t, "less room")
			_, again = s.look(t)
			assert.LessOrEqual(t, again, 5*time.Second, "another reason must not wait for as long as another text")
			assert.Equal(t, "Unschedulable: no room (found at 1970-01-01T00:16:40Z)", s.says(t, "m0"), "what was reported stands")
			for range 100 { // the reporter looks when it asked to
				s.clock.Step(again)
				if written, again = s.look(t); len(written) > 0 {
					break
				}
			}
			assert.Equal(t, pause, s.clock.Since(writtenAt))
			assert.Len(t, written, members)
			assert.Equal(t, "Unschedulable: less room (found at 1970-01-01T00:16:41Z)", s.says(t, "m0"))
		})
	}
}

// TestAnotherReasonIsReportedThoughTheTextMustWait: while a text waits among the texts of many pods, the reason may become another.
func TestAnotherReasonIsReportedThoughTheTextMustWait(t *testing.T) {
	s := newTracked(t)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	s.create(t, "m0")
	s.refuse(t, "no room")
	_, again := s.look(t)
	s.clock.Step(again)
	written, _ := s.look(t)
	require.NotEmpty(t, written)

	s.clock.Step(5 * time.Second)
	s.Reporter.waiting = 10_000
	s.refuse(t, "less room")
	written, again = s.look(t)
	require.Empty(t, written, "the text has to wait")
	require.LessOrEqual(t, again, 5*time.Second)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1))
	for range 5 { // the reporter looks when it asked to, and nothing else has it look
		s.clock.Step(again)
		if written, again = s.look(t); len(written) > 0 {
			break
		}
	}
	assert.Equal(t, waitsForAdmission, s.says(t, "m0"))
}

// TestAReportHasNothingDecidedAgain: numbers in a text may be some seconds old.
func TestAReportHasNothingDecidedAgain(t *testing.T) {
	s := newTracked(t)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	s.create(t, "m0")
	s.refuse(t, "no room")
	for range 3 {
		s.clock.Step(time.Hour)
		s.look(t)
		rejected, waits := s.Hints.RejectedBy("NodeResourcesFit", s.pod(t, "m0"))
		assert.True(t, waits, "the gang is still unschedulable")
		assert.Len(t, rejected, 1)
	}
	assert.Contains(t, s.says(t, "m0"), "(found at 1970-01-01T00:16:40Z)")
}

// TestAnAttemptThatFailsIsNoNewStart: a gang that is tried and waits again for the same reason makes no second event. Its text does not
// change sooner.
func TestAnAttemptThatFailsIsNoNewStart(t *testing.T) {
	s := newTracked(t)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	s.create(t, "m0")
	s.refuse(t, "no room")
	_, again := s.look(t)
	s.clock.Step(again)
	s.look(t)
	require.Len(t, s.events(), 2)

	scout := s.pod(t, "m0")
	s.Hints.Wake(scout)
	snapshot := s.Decisions.Snapshot(scout)
	require.NotNil(t, snapshot)
	_, ok := s.Decisions.Commit(snapshot, &placement.Decision{Feasibility: placement.Uncertain, Members: snapshot.Problem.Members})
	require.True(t, ok)
	written, again := s.look(t)
	require.Empty(t, written)
	require.Zero(t, again, "it is about to start")
	require.True(t, s.Fail(scout))
	s.clock.Step(time.Second) // of back-off
	s.refuse(t, "less room")
	written, again = s.look(t)
	assert.Empty(t, written)
	s.clock.Step(again)
	written, _ = s.look(t)
	assert.Equal(t, []string{"m0"}, written, "the last text has stood for five seconds")
	assert.Empty(t, s.events(), "the last event says the same reason")
}

// TestAFollowerReportsWhenItBeginsToLead: it writes nothing before, and then it reports what it has seen before.
func TestAFollowerReportsWhenItBeginsToLead(t *testing.T) {
	s := newTracked(t)
	follower := gangs.New(s.clock)
	require.NoError(t, follower.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired}))
	follower.Feed.Open()
	s.Tracker, s.Reporter.tracker = follower, NewReports(follower)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1))
	s.create(t, "m0")
	for range 3 {
		s.clock.Step(time.Hour)
		written, again := s.look(t)
		require.Empty(t, written)
		require.Zero(t, again)
	}
	s.Leadership.Lead()
	_, again := s.look(t)
	s.clock.Step(again)
	s.look(t)
	assert.Equal(t, waitsForAdmission, s.says(t, "m0"))
}
