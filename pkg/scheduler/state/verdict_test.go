package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestWhyAGangWaits: the texts are part of what users and their tools read, so they are spelled out here.
func TestWhyAGangWaits(t *testing.T) {
	inqueue := schedulingv1beta1.PodGroupInqueue
	for name, tc := range map[string]struct {
		prepare         func(*Store)
		reason, message string
		event           bool
	}{
		"no PodGroup": {func(*Store) {}, "WaitingForPodGroup", "waiting for the pod's PodGroup to be created", false},
		"not admitted": {func(s *Store) { s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1)) },
			"WaitingForAdmission", "waiting for the PodGroup to be admitted by its queue", false},
		"too few": {func(s *Store) { s.SetPodGroup(groupIn(inqueue, 3)) },
			schedulingv1beta1.NotEnoughPodsReason, "waiting for members: fewer pods exist than the 3 that start together", true},
		"too few of a task": {func(s *Store) {
			group := groupIn(inqueue, 1)
			group.Spec.MinTaskMember = map[string]int32{"worker": 1}
			s.SetPodGroup(group)
		}, schedulingv1beta1.NotEnoughPodsOfTaskReason, `waiting for members: fewer pods of task "worker" exist than the 1 that its minimum asks for`, true},
		"no room": {func(s *Store) {
			s.SetPodGroup(groupIn(inqueue, 1))
			pod := memberNamed("m").Obj()
			s.Gate(pod)
			s.Park(s.Judge(pod), pod, "no room", pod, "NodeResourcesFit")
		}, corev1.PodReasonUnschedulable, "no room", true},
		"room, it seemed": {func(s *Store) {
			s.SetPodGroup(groupIn(inqueue, 1))
			pod := memberNamed("m").Obj()
			s.Gate(pod)
			s.Park(s.Judge(pod), pod, "no room", pod, "NodeResourcesFit")
			s.unpark(s.gangs[theGang])
			s.Admit(s.Judge(pod), nil)
			s.Fail(pod)
		}, corev1.PodReasonUnschedulable, "the gang was found to fit, yet its members could not be placed together; it is tried again", true},
		"quota, and room, it seemed": {func(s *Store) {
			s.SetPodGroup(groupIn(inqueue, 1))
			s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			pod := memberNamed("m").Obj()
			s.Gate(pod)
			s.Park(s.Judge(pod), pod, "no quota", pod, "Capacity")
			s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			for range 2 { // the second time it goes exactly where the plan says
				s.Admit(s.Judge(pod), map[types.UID]string{"m": "n"})
				s.Fail(pod)
			}
		}, corev1.PodReasonUnschedulable, couldNotBePlaced, true},
		"no room after all": {func(s *Store) {
			s.SetPodGroup(groupIn(inqueue, 1))
			pod := memberNamed("m").Obj()
			s.Gate(pod)
			s.Admit(s.Judge(pod), nil)
			s.Fail(pod)
			s.Park(s.Judge(pod), pod, "no room", pod, "NodeResourcesFit")
		}, corev1.PodReasonUnschedulable, "no room", true},
		"about to be judged": {func(s *Store) { s.SetPodGroup(groupIn(inqueue, 1)) }, "", "", true},
		"seated":             {func(s *Store) { s.SetPodGroup(groupIn(inqueue, 0)) }, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore()
			s.SetPod(memberNamed("m").Obj())
			tc.prepare(s)
			v := s.verdictOf(s.gangs[theGang])
			assert.Equal(t, verdict{tc.reason, tc.message}, v)
			assert.Equal(t, tc.event, v.hasEvent())
		})
	}
}

func TestAGangThatWaitsForAdmissionSaysSo(t *testing.T) {
	s := openStore()
	clock := s.clock.(interface{ Step(time.Duration) })
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 2))
	for _, name := range []string{"m0", "m1"} {
		require.Equal(t, notAdmitted, s.Gate(memberNamed(name).Obj()))
	}
	out, again := s.reportFor(theGang)
	require.Nil(t, out, "every gang goes through this: it is not told at once")
	require.Positive(t, again)
	clock.Step(again)
	out, _ = s.reportFor(theGang)
	require.NotNil(t, out)
	assert.Equal(t, verdict{ReasonWaitingForAdmission, notAdmitted}, out.verdict)
	assert.False(t, out.news, "the podgroup controller tells on the PodGroup")
	assert.Equal(t, []types.UID{"m0", "m1"}, []types.UID{out.members[0].uid, out.members[1].uid})
	assert.True(t, s.stillWaits(theGang, "m0", out.verdict))

	out, again = s.reportFor(theGang)
	assert.Nil(t, out, "once is enough")
	assert.Zero(t, again)

	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.False(t, s.stillWaits(theGang, "m0", verdict{ReasonWaitingForAdmission, notAdmitted}))
}

func TestOneEventForEachVerdictOfAPodGroup(t *testing.T) {
	s := openStore()
	clock := s.clock.(interface{ Step(time.Duration) })
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 3)
	s.SetPodGroup(group)
	s.Gate(memberNamed("m0").Obj())
	look := func() *report {
		out, again := s.reportFor(theGang)
		if out == nil {
			clock.Step(again)
			out, _ = s.reportFor(theGang)
		}
		return out
	}
	first := look()
	require.NotNil(t, first)
	assert.True(t, first.news)
	s.announced(theGang, first.verdict)

	s.Gate(memberNamed("m1").Obj())
	second := look()
	require.NotNil(t, second, "who joins is told too")
	assert.Equal(t, first.verdict, second.verdict, "the text does not change with every pod")
	assert.False(t, second.news)

	s.DeletePodGroup(group)
	another := groupIn(schedulingv1beta1.PodGroupInqueue, 3)
	another.UID = "another"
	s.SetPodGroup(another)
	s.reportAgain(theGang)
	third := look()
	require.NotNil(t, third)
	assert.True(t, third.news, "of this one no event has told")
	assert.Equal(t, types.UID("another"), third.group.UID)
}

// The texts of a single gang follow what happens; those of many together must not keep the API server busy.
func TestTheMorePodsWaitTheLessOftenTextsChange(t *testing.T) {
	for crowd, pause := range map[int]time.Duration{1: 5 * time.Second, 1000: 100 * time.Second} {
		s := openStore()
		clock := s.clock.(interface{ Step(time.Duration) })
		s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(crowd)))
		for i := range crowd {
			s.SetPod(memberNamed(fmt.Sprintf("m%d", i)).Obj())
		}
		scout := memberNamed("m0").Obj()
		park := func(why string) {
			require.Empty(t, s.Gate(scout))
			s.Park(s.Judge(scout), scout, why, scout, "NodeResourcesFit")
			s.check()
		}
		park("no room")
		clock.Step(verdictGrace)
		s.reportFor(theGang)
		out, _ := s.reportFor(theGang)
		require.Nil(t, out, "it is told")

		s.unpark(s.gangs[theGang])
		park("some room")
		_, again := s.reportFor(theGang)
		assert.LessOrEqual(t, again, reportPause, "another reason must not wait for as long as another text")
		assert.Equal(t, "no room", s.verdictOf(s.gangs[theGang]).message, "what was told stands")
		assert.Equal(t, pause-verdictGrace, s.gangs[theGang].retell.Sub(s.clock.Now()), "when it is judged for the sake of its text")
		clock.Step(pause - verdictGrace)
		s.unpark(s.gangs[theGang])
		park("some room")
		_, again = s.reportFor(theGang)
		clock.Step(again)
		out, _ = s.reportFor(theGang)
		require.NotNil(t, out)
		assert.Equal(t, "some room", out.verdict.message)
	}
}

// TestAnotherReasonIsToldThoughTheTextMustWait: while a text waits for its turn among many, the reason may become another.
func TestAnotherReasonIsToldThoughTheTextMustWait(t *testing.T) {
	s := openStore()
	clock := s.clock.(interface{ Step(time.Duration) })
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("m").Obj()
	s.SetPod(scout)
	park := func(why string) {
		s.unpark(s.gangs[theGang])
		require.Empty(t, s.Gate(scout))
		s.Park(s.Judge(scout), scout, why, scout, "NodeResourcesFit")
	}
	park("no room")
	s.reportFor(theGang)
	clock.Step(verdictGrace)
	out, _ := s.reportFor(theGang)
	require.NotNil(t, out)

	clock.Step(reportPause)
	park("some room")
	s.crowd = 10_000
	out, again := s.reportFor(theGang)
	require.Nil(t, out, "the text has to wait")
	require.LessOrEqual(t, again, reportPause)
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 1))
	told := verdict{}
	for range 5 { // the reporter looks when it was told to, and nobody else calls it
		clock.Step(again)
		if out, again = s.reportFor(theGang); out != nil {
			told = out.verdict
			break
		}
	}
	assert.Equal(t, verdict{ReasonWaitingForAdmission, notAdmitted}, told)
}

// Amounts change with every pod that goes; a new event for each text would tell nobody more than the conditions do.
func TestATextThatIsRewordedIsNoNewsForAWhile(t *testing.T) {
	g, now := &group{}, time.Now()
	two, one, quota := verdict{ReasonUnschedulable, "2 more needed"}, verdict{ReasonUnschedulable, "1 more needed"}, verdict{ReasonWaitingForQuota, "no quota"}
	assert.True(t, g.isNews(two, now), "the first")
	g.announced, g.announcedAt = two, now
	assert.False(t, g.isNews(one, now.Add(eventPause-1)), "the same reason in other words")
	assert.True(t, g.isNews(one, now.Add(eventPause)), "the event is old, and does not hold any more")
	assert.False(t, g.isNews(two, now.Add(time.Hour)), "it still holds")
	assert.True(t, g.isNews(quota, now), "another reason")
	assert.False(t, g.isNews(verdict{ReasonWaitingForAdmission, notAdmitted}, now), "the podgroup controller says so")
}
