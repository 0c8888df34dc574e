package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// keeper keeps the last decision on a name that was to be reported.
type keeper struct {
	clock *testingclock.FakeClock
	last  Decision
}

// record keeps a decision and says whether to report it.
func (k *keeper) record(c *Candidate, v Decision) bool {
	v, report := Decided{c, v}.Tell(k.last, k.clock.Now())
	if report {
		k.last = v
	}
	return report
}

// decision is the last decision on a candidate.
func (k *keeper) decision(c *Candidate) Decision {
	if k.last.UID == c.Group.UID {
		return k.last
	}
	return Decision{}
}

func TestOnlyChangesAreRecorded(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := &keeper{clock: clock}
	c := NewCandidate(mustertesting.MakePodGroup("g").UID("one").Obj())
	lacks := func(want int64, text string) Decision {
		return blockedBy(blockerKind{queue: "q", resource: "cpu", want: want}, words(text))
	}
	message := func() string { return a.decision(c).Message }

	assert.True(t, a.record(c, lacks(4, "3 free")))
	assert.False(t, a.record(c, lacks(4, "3 free")))
	clock.Step(messageAge / 2)
	assert.False(t, a.record(c, lacks(4, "2 free")), "only a number has changed: not worth a write yet")
	assert.Equal(t, "3 free (found at 1970-01-01T00:16:40Z)", message(), "as it may be wrong by now, it says when it was right")
	clock.Step(messageAge / 2)
	assert.False(t, a.record(c, lacks(4, "3 free")), "another time alone is not worth a write")
	assert.True(t, a.record(c, lacks(4, "1 free")))
	assert.Equal(t, "1 free (found at 1970-01-01T00:17:40Z)", message())
	assert.True(t, a.record(c, lacks(5, "1 free of 5")), "it wants something else now")

	namesake := NewCandidate(mustertesting.MakePodGroup("g").UID("two").Obj())
	assert.False(t, a.decision(namesake).isBlocked(), "what was said about a namesake does not count")
	assert.True(t, a.record(namesake, lacks(5, "1 free of 5")))
	assert.True(t, a.record(namesake, Decision{Admitted: true}))
	assert.True(t, a.decision(namesake).Admitted)
}

// TestARestartRewordsNothing: an earlier run has said the same, and when it found its numbers.
func TestARestartRewordsNothing(t *testing.T) {
	group := mustertesting.MakePodGroup("g").UID("one").Obj()
	told := "3 free (found at 1970-01-01T00:10:00Z)"
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, Message: told,
		LastTransitionTime: metav1.NewTime(time.Unix(600, 0))}}
	for name, test := range map[string]struct{ finds, says string }{
		"the same":       {"3 free", told},
		"another number": {"2 free", "2 free (found at 1970-01-01T00:16:40Z)"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &keeper{clock: testingclock.NewFakeClock(time.Unix(1000, 0))}
			c := NewCandidate(group)
			a.record(c, blockedBy(blockerKind{queue: "q", resource: "cpu"}, words(test.finds)))
			assert.Equal(t, test.says, a.decision(c).Message)
		})
	}
}

// TestOnlyNumbersThatOthersChangeHaveATime: a message about a limit has no time, as only an administrator changes limits.
func TestOnlyNumbersThatOthersChangeHaveATime(t *testing.T) {
	for name, test := range map[string]struct {
		kind blockerKind
		has  bool
	}{
		"room of a queue":           {blockerKind{queue: "q", resource: "cpu"}, true},
		"more than a whole limit":   {blockerKind{queue: "q", resource: "cpu", forEver: true}, false},
		"the cluster":               {blockerKind{resource: "cpu"}, true},
		"more than the cluster has": {blockerKind{resource: "cpu", forEver: true}, true},
		"running jobs":              {blockerKind{tooMany: true}, true},
		"the line":                  {blockerKind{inLine: true}, false},
		"a closed queue":            {blockerKind{text: "closed"}, false},
	} {
		assert.Equal(t, test.has, (&blocker{kind: test.kind}).hasNumbers(), name)
	}

	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := &keeper{clock: clock}
	c := NewCandidate(mustertesting.MakePodGroup("g").UID("one").Obj())
	short := quota.Shortage{Queue: "q", Resource: "cpu", Want: 5, Free: 1, Limit: 4}
	assert.True(t, a.record(c, lacksQuota(&short)))
	raised := short
	raised.Limit = 3
	assert.True(t, a.record(c, lacksQuota(&raised)), "another limit, before the message is old")
}

// TestSinceWhenRoomIsLacking: only the time counts in which room was missing. The status keeps the time before a restart.
func TestSinceWhenRoomIsLacking(t *testing.T) {
	start := time.Unix(1000, 0)
	clock := testingclock.NewFakeClock(start)
	a := &keeper{clock: clock}
	c := NewCandidate(mustertesting.MakePodGroup("g").UID("one").Obj())
	closed := blockedBy(blockerKind{text: "closed"}, words("closed"))
	lacks := func(queue string) Decision {
		return blockedBy(blockerKind{queue: queue, resource: "cpu", want: 4}, words("no room"))
	}
	since := func() time.Time { return LackingSince(c.Group, a.decision(c)) }

	a.record(c, closed)
	assert.Zero(t, since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	assert.Equal(t, start.Add(time.Hour), since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	clock.Step(time.Hour)
	a.record(c, lacks("parent"))
	assert.Equal(t, start.Add(time.Hour), since(), "it does not matter which queue lacks it")
	a.record(c, closed)
	assert.Zero(t, since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	assert.Equal(t, start.Add(4*time.Hour), since(), "it begins anew")

	a.last = Decision{}
	c.Group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{
		{Type: schedulingv1beta1.PodGroupUnschedulableType, LastTransitionTime: metav1.NewTime(start)},
	}
	assert.Equal(t, start, since())
	a.record(c, lacks("q"))
	assert.Equal(t, start, since(), "as the status said after the restart")

	namesake := NewCandidate(mustertesting.MakePodGroup("g").UID("two").Obj())
	assert.Zero(t, LackingSince(namesake.Group, a.last), "another PodGroup of the name lacked it")
}

func TestSinceWhenAPodGroupWaits(t *testing.T) {
	then := time.Unix(1000, 0)
	status := func(phase schedulingv1beta1.PodGroupPhase, kind schedulingv1beta1.PodGroupConditionType) *schedulingv1beta1.PodGroupStatus {
		return &schedulingv1beta1.PodGroupStatus{Phase: phase, Conditions: []schedulingv1beta1.PodGroupCondition{
			{Type: kind, LastTransitionTime: metav1.NewTime(then)},
		}}
	}
	assert.Equal(t, then, waitingSince(status(schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupUnschedulableType)))
	assert.Zero(t, waitingSince(status(schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupUnschedulableType)), "it is in its queue")
	assert.Zero(t, waitingSince(status(schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupScheduled)))
	assert.Zero(t, waitingSince(&schedulingv1beta1.PodGroupStatus{}))
}

// TestTheReasonSaysWhetherAQuotaIsInTheWay: clients know the reasons.
func TestTheReasonSaysWhetherAQuotaIsInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		kind blockerKind
		want string
	}{
		"room":           {blockerKind{queue: "q"}, "QuotaExceeded"},
		"number":         {blockerKind{tooMany: true}, "QuotaExceeded"},
		"a closed queue": {blockerKind{text: "closed"}, "NotEnoughResources"},
	} {
		v, report := Decided{NewCandidate(mustertesting.MakePodGroup("g").Obj()), blockedBy(c.kind, words("no"))}.Tell(Decision{}, time.Unix(1000, 0))
		assert.True(t, report)
		assert.Equal(t, c.want, v.Reason, name)
	}
}
