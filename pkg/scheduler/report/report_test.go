package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// stage is a reporter beside a gang that waits.
type stage struct {
	*Reporter
	clock    *clocktesting.FakeClock
	client   *fake.Clientset
	store    cache.Indexer
	recorder *record.FakeRecorder
	fails    error // what the API answers to a write

	// The tracker's answers.
	follows  bool
	waiting  Waiting
	members  []*corev1.Pod
	started  map[types.UID]bool // members that wait no more
	reported []string
	taken    int // reports
}

func (s *stage) Leads() bool { return !s.follows }
func (s *stage) TakeReport(state.Key) Waiting {
	s.taken++
	return s.waiting
}
func (s *stage) WaitingPods(state.Key) []*corev1.Pod { return s.members }
func (s *stage) Reported(reason string)              { s.reported = append(s.reported, reason) }
func (s *stage) StillWaits(_ state.Key, m types.UID, e Explanation) bool {
	return !s.started[m] && e == s.waiting.Explanation
}

var theGang = state.Key{Namespace: "default", Name: "g"}

// newStage has a gang of n members wait because it does not fit.
func newStage(t *testing.T, n int) *stage {
	t.Helper()
	s := &stage{
		clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), client: fake.NewSimpleClientset(), recorder: record.NewFakeRecorder(100), started: map[types.UID]bool{},
		store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	s.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if s.fails != nil {
			return true, nil, s.fails
		}
		return false, nil, nil
	})
	s.Reporter = New(s, s.clock, s.client, corelisters.NewPodLister(s.store), s.recorder)
	s.limiter = flowcontrol.NewFakeAlwaysRateLimiter()
	s.waiting = Waiting{
		Explanation: Explanation{Reason: ReasonUnschedulable, Message: "no room"}, HasPodGroup: true, Joined: s.clock.Now(), Version: 1,
		PodGroup: &corev1.ObjectReference{Kind: "PodGroup", Namespace: "default", Name: "g"},
	}
	for i := range n {
		s.join(t, fmt.Sprint("m", i))
	}
	return s
}

// join has a member come.
func (s *stage) join(t *testing.T, name string) {
	t.Helper()
	pod := mustertesting.MakePod(name).UID(name).Obj()
	pod.ResourceVersion = "1"
	require.NoError(t, s.client.Tracker().Add(pod))
	require.NoError(t, s.store.Add(pod))
	s.members = append(s.members, pod)
	s.waiting.Count++
}

// change has a member's pod change, for the API and the informer.
func (s *stage) change(t *testing.T, name string, change func(*corev1.Pod)) {
	t.Helper()
	obj, ok, err := s.store.GetByKey("default/" + name)
	require.NoError(t, err)
	require.True(t, ok)
	pod := obj.(*corev1.Pod).DeepCopy()
	change(pod)
	require.NoError(t, s.store.Update(pod))
}

// look has the reporter look at the gang, and says what it has written: the members' names.
func (s *stage) look(t *testing.T) (written []string, again time.Duration) {
	t.Helper()
	s.client.ClearActions()
	again = s.Look(t.Context(), theGang)
	for _, action := range s.client.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		require.True(t, ok)
		require.Equal(t, "status", action.GetSubresource())
		written = append(written, patch.GetName())
		pod := &corev1.Pod{}
		require.NoError(t, json.Unmarshal(patch.GetPatch(), pod))
		if s.fails != nil {
			continue
		}
		s.change(t, patch.GetName(), func(p *corev1.Pod) { p.Status.Conditions = pod.Status.Conditions })
	}
	return written, again
}

// events are the events since the last call.
func (s *stage) events() (events []string) {
	for len(s.recorder.Events) > 0 {
		events = append(events, <-s.recorder.Events)
	}
	return events
}

// condition is the condition of a member's pod, nil if it has none.
func (s *stage) condition(t *testing.T, name string) *corev1.PodCondition {
	t.Helper()
	obj, _, err := s.store.GetByKey("default/" + name)
	require.NoError(t, err)
	if conditions := obj.(*corev1.Pod).Status.Conditions; len(conditions) > 0 {
		return &conditions[0]
	}
	return nil
}

// TestAllMembersOfAGangThatWaitsSayWhy, once the reason has stood for a moment; one event reports it for all.
func TestAllMembersOfAGangThatWaitsSayWhy(t *testing.T) {
	s := newStage(t, 3)
	s.waiting.FoundAt = time.Unix(900, 0)
	written, again := s.look(t)
	assert.Empty(t, written)
	assert.Equal(t, time.Second, again)
	s.clock.Step(time.Second)
	written, again = s.look(t)
	assert.Equal(t, []string{"m0", "m1", "m2"}, written)
	assert.Zero(t, again)
	for _, name := range written {
		condition := s.condition(t, name)
		assert.Equal(t, corev1.PodScheduled, condition.Type)
		assert.Equal(t, corev1.ConditionFalse, condition.Status)
		assert.Equal(t, corev1.PodReasonUnschedulable, condition.Reason)
		assert.Equal(t, "no room (found at 1970-01-01T00:15:00Z)", condition.Message)
		assert.Equal(t, s.clock.Now().Unix(), condition.LastTransitionTime.Unix())
	}
	text := "no room (found at 1970-01-01T00:15:00Z)"
	assert.Equal(t, []string{"Warning FailedScheduling " + text, "Warning Unschedulable " + text}, s.events())
	assert.Equal(t, []string{"Unschedulable", "Unschedulable", "Unschedulable"}, s.reported)

	written, again = s.look(t)
	assert.Empty(t, written, "nothing has changed")
	assert.Zero(t, again)
}

// TestAPatchIsForThePodThatWasSeen: another pod of the name, or one that is bound meanwhile, is left alone. The time of the last transition
// changes only with the status.
func TestAPatchIsForThePodThatWasSeen(t *testing.T) {
	s := newStage(t, 1)
	s.change(t, "m0", func(p *corev1.Pod) {
		p.ResourceVersion, p.Generation = "7", 3
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Other", ObservedGeneration: 2}}
	})
	s.clock.Step(time.Minute)
	s.look(t)
	s.clock.Step(time.Minute)
	s.client.ClearActions()
	s.Look(t.Context(), theGang)
	actions := s.client.Actions()
	require.Len(t, actions, 1)
	assert.JSONEq(t, `{"metadata":{"uid":"m0","resourceVersion":"7"},
		"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no room","observedGeneration":3}]}}`,
		string(actions[0].(clienttesting.PatchAction).GetPatch()))
}

// TestMembersThatWaitNoMoreAreLeftAlone: bound, deleted, replaced, about to be bound, or gone.
// TestTheTransitionTimeIsThatOfTheStatus: a condition that was False keeps its time.
func TestTheTransitionTimeIsThatOfTheStatus(t *testing.T) {
	for last, isNew := range map[corev1.ConditionStatus]bool{
		"": true, corev1.ConditionTrue: true, corev1.ConditionUnknown: true, corev1.ConditionFalse: false,
	} {
		t.Run(string(last), func(t *testing.T) {
			s := newStage(t, 1)
			if last != "" {
				s.change(t, "m0", func(p *corev1.Pod) {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: last, Reason: "Other"}}
				})
			}
			s.look(t)
			s.clock.Step(time.Minute)
			written, _ := s.look(t)
			require.Equal(t, []string{"m0"}, written)
			assert.Equal(t, isNew, !s.condition(t, "m0").LastTransitionTime.IsZero())
		})
	}
}

func TestMembersThatWaitNoMoreAreLeftAlone(t *testing.T) {
	s := newStage(t, 7)
	s.look(t)
	s.change(t, "m0", func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	s.change(t, "m1", func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp })
	s.change(t, "m2", func(p *corev1.Pod) { p.UID = "other" })
	s.started["m3"] = true
	require.NoError(t, s.store.Delete(mustertesting.MakePod("m4").Obj()))
	s.change(t, "m5", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
	})
	s.clock.Step(time.Minute)
	written, _ := s.look(t)
	assert.Equal(t, []string{"m6"}, written)
}

// TestAStandbyReportsNothing, but takes gangs off the list: they are put there again when it begins to lead.
func TestAStandbyReportsNothing(t *testing.T) {
	s := newStage(t, 1)
	s.look(t)
	s.follows, s.taken = true, 0
	s.clock.Step(time.Hour)
	written, again := s.look(t)
	assert.Equal(t, 1, s.taken)
	assert.Empty(t, written)
	assert.Zero(t, again)
	assert.Empty(t, s.events())
}

// TestReasonsThatEveryGangGoesThroughStandLonger: they are counted from the last member that came.
func TestReasonsThatEveryGangGoesThroughStandLonger(t *testing.T) {
	for reason, grace := range map[string]time.Duration{
		ReasonUnschedulable: time.Second, ReasonWaitingForQuota: time.Second, ReasonWaitingForPodGroup: 3 * time.Second,
		ReasonWaitingForAdmission: 3 * time.Second, ReasonNotEnoughPods: 3 * time.Second, ReasonNotEnoughPodsOfTask: 3 * time.Second,
	} {
		t.Run(reason, func(t *testing.T) {
			s := newStage(t, 1)
			s.waiting.Reason = reason
			_, again := s.look(t)
			assert.Equal(t, grace, again)
			s.clock.Step(grace - time.Millisecond)
			s.waiting.Joined = s.clock.Now()
			written, again := s.look(t)
			assert.Empty(t, written)
			if grace == time.Second {
				assert.Equal(t, time.Millisecond, again)
			} else {
				assert.Equal(t, grace, again, "another member has come")
			}
			s.clock.Step(again)
			written, _ = s.look(t)
			assert.Equal(t, []string{"m0"}, written)
		})
	}
}

// TestMembersThatComeLaterSayItAtOnce, without another event.
func TestMembersThatComeLaterSayItAtOnce(t *testing.T) {
	s := newStage(t, 1)
	s.look(t)
	s.clock.Step(time.Second)
	s.look(t)
	require.Len(t, s.events(), 2)
	s.join(t, "late")
	s.waiting.Version++
	written, _ := s.look(t)
	assert.Equal(t, []string{"late"}, written)
	assert.Empty(t, s.events())
}

// TestTextsChangeRarely: amounts change with every pod that is deleted. The more pods wait, the less often each text changes.
func TestTextsChangeRarely(t *testing.T) {
	for members, pause := range map[int]time.Duration{1: 5 * time.Second, 100: 10 * time.Second} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			s := newStage(t, members)
			s.look(t)
			s.clock.Step(time.Second)
			s.look(t)
			require.Len(t, s.events(), 2)
			s.waiting.Message = "less room"
			written, again := s.look(t)
			assert.Empty(t, written)
			assert.Equal(t, 5*time.Second, again, "it looks again before, as the reason may change")
			s.clock.Step(pause - time.Millisecond)
			written, _ = s.look(t)
			assert.Empty(t, written)
			s.clock.Step(time.Millisecond)
			written, _ = s.look(t)
			assert.Len(t, written, members)
			assert.Empty(t, s.events(), "an event for the same reason comes after minutes only")
		})
	}
}

// TestAnEventForTheSameReasonComesAfterMinutes, one for another reason with the first condition.
func TestEventsOfAGang(t *testing.T) {
	s := newStage(t, 1)
	say := func(reason, message string, after time.Duration) []string {
		s.clock.Step(after)
		s.waiting.Explanation = Explanation{Reason: reason, Message: message}
		s.look(t)
		s.clock.Step(10 * time.Second)
		s.look(t)
		return s.events()
	}
	assert.Len(t, say(ReasonUnschedulable, "a", 0), 2)
	assert.Empty(t, say(ReasonUnschedulable, "b", time.Minute))
	assert.Len(t, say(ReasonWaitingForQuota, "c", 0), 2, "another reason")
	assert.Len(t, say(ReasonWaitingForQuota, "d", 5*time.Minute), 2)
	assert.Equal(t, []string{"Warning FailedScheduling e"}, say(ReasonWaitingForAdmission, "e", 0), "for the PodGroup the controller says it")
	s.waiting.HasPodGroup = false
	assert.Equal(t, []string{"Warning FailedScheduling f"}, say(ReasonWaitingForPodGroup, "f", 0))
}

// TestAGangThatStartsIsForgotten: its pods do not count for the pauses of other gangs any more, and its next reason is new.
func TestAGangThatStartsIsForgotten(t *testing.T) {
	s := newStage(t, 100)
	s.look(t)
	assert.Equal(t, 100, s.Reporter.waiting)
	waits := s.waiting
	s.waiting = Waiting{}
	s.look(t)
	assert.Zero(t, s.Reporter.waiting)
	assert.Empty(t, s.gangs)
	s.waiting = waits
	s.clock.Step(time.Hour)
	_, again := s.look(t)
	assert.Equal(t, time.Second, again)
}

// TestWritesThatFailAreTriedAgain, but not for pods that are gone.
func TestWritesThatFailAreTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		again time.Duration
	}{
		"the API server is away":      {errors.New("away"), time.Second},
		"another writer was faster":   {apierrors.NewConflict(corev1.Resource("pods"), "m0", nil), time.Second},
		"the pod is gone":             {apierrors.NewNotFound(corev1.Resource("pods"), "m0"), 0},
		"the API server is there all": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			s.look(t)
			s.clock.Step(time.Second)
			s.fails = test.err
			written, again := s.look(t)
			assert.Len(t, written, 1)
			assert.Equal(t, test.again, again)
			assert.Equal(t, test.err == nil, len(s.events()) > 0, "an event says what a condition says")
			s.fails = nil
			written, _ = s.look(t)
			assert.Equal(t, again > 0, len(written) > 0)
		})
	}
}

// TestALargeGangIsWrittenInBatches, so that other gangs' texts are not delayed.
func TestALargeGangIsWrittenInBatches(t *testing.T) {
	s := newStage(t, batch+1)
	s.look(t)
	s.clock.Step(time.Second)
	written, again := s.look(t)
	assert.Len(t, written, batch)
	assert.Equal(t, time.Millisecond, again)
	written, again = s.look(t)
	assert.Len(t, written, 1)
	assert.Zero(t, again)
	require.Len(t, s.events(), 2)
}

// TestAProcessThatBeginsToLeadReportsWhatWaits, also the gangs that it looked at as a standby.
func TestAProcessThatBeginsToLeadReportsWhatWaits(t *testing.T) {
	tracker := gangs.New(clock.RealClock{})
	require.NoError(t, tracker.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionIgnore}))
	tracker.Feed.Open()
	t.Cleanup(NewReports(tracker).Queue().ShutDown)
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Obj()
	tracker.SetPod(pod)
	client := fake.NewSimpleClientset(pod)
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	r := New(NewReports(tracker), clock.RealClock{}, client, corelisters.NewPodLister(store), record.NewFakeRecorder(10))
	look := func() time.Duration {
		key, _ := NewReports(tracker).Queue().Get()
		defer NewReports(tracker).Queue().Done(key)
		assert.Equal(t, theGang, key)
		return r.Look(t.Context(), key)
	}
	assert.Zero(t, look(), "a standby")
	tracker.Leadership.Lead()
	assert.Positive(t, look(), "the gang waits for its PodGroup")
}
