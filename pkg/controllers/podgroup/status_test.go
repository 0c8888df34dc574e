package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	pending   = schedulingv1beta1.PodGroupPending
	inqueue   = schedulingv1beta1.PodGroupInqueue
	running   = schedulingv1beta1.PodGroupRunning
	unknown   = schedulingv1beta1.PodGroupUnknown
	completed = schedulingv1beta1.PodGroupCompleted
)

// members makes pods out of one letter each: w waiting, u unschedulable, b bound, r running, s succeeded, f failed. Upper case means being
// deleted. Each "|" begins the pods of the next incarnation.
func members(letters string) []*corev1.Pod {
	var pods []*corev1.Pod
	version := 0
	for _, letter := range letters {
		if letter == '|' {
			version++
			continue
		}
		pod := mustertesting.MakePod("p").Group("g").Version(version)
		if letter >= 'A' && letter <= 'Z' {
			pod.Terminating(time.Unix(1, 0))
			letter += 'a' - 'A'
		}
		switch letter {
		case 'u':
			pod.Phase(corev1.PodPending).Condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "no room")
		case 'b':
			pod.Phase(corev1.PodPending).Node("n")
		case 'r':
			pod.Phase(corev1.PodRunning).Node("n")
		case 's':
			pod.Phase(corev1.PodSucceeded).Node("n")
		case 'f':
			pod.Phase(corev1.PodFailed).Node("n")
		}
		pods = append(pods, pod.Obj())
	}
	return pods
}

func TestNextPhase(t *testing.T) {
	tests := map[string]struct {
		current   schedulingv1beta1.PodGroupPhase
		minMember int32
		members   string
		want      schedulingv1beta1.PodGroupPhase
	}{
		"just admitted, no members yet":                       {pending, 2, "", inqueue},
		"members wait for room":                               {inqueue, 2, "uu", inqueue},
		"one member short of the minimum":                     {inqueue, 3, "bbw", inqueue},
		"the minimum is bound":                                {inqueue, 2, "bbu", running},
		"finished members count":                              {inqueue, 3, "sfb", running},
		"all of the minimum finished":                         {running, 2, "ss", completed},
		"failed members are finished too":                     {running, 2, "sf", completed},
		"finished, and surplus waits for room":                {running, 2, "ssu", running},
		"one finished, one runs":                              {running, 2, "sr", running},
		"a bound member counts while it terminates":           {running, 2, "rR", running},
		"a terminating member of the last incarnation counts": {running, 2, "RR|ww", running},
		"runs below the minimum, the rest finds no room":      {running, 3, "rru", unknown},
		"runs below the minimum, the rest was not tried yet":  {running, 3, "rrw", inqueue},
		"runs below the minimum, the rest is gone":            {running, 3, "rr", inqueue},
		"bound but not running, the rest finds no room":       {running, 3, "bbu", inqueue},
		"what runs is on its way out":                         {running, 3, "RRu", inqueue},
		"the last of an old incarnation is no partial gang":   {running, 3, "r|uuu", inqueue},
		"a partial gang is complete again":                    {unknown, 3, "rrb", running},
		"all members of a running gang vanish":                {running, 2, "", inqueue},
		"the killed pods of a restart complete nothing":       {running, 2, "FF", running},
		"completed, the pods are cleaned up one by one":       {completed, 2, "s", completed},
		"completed, the pods are all cleaned up":              {completed, 2, "", completed},
		"completed, the pods are being cleaned up":            {completed, 2, "SS", completed},
		"completed, then something runs again":                {completed, 2, "sr", running},
		"completed, then something waits again":               {completed, 2, "sw", inqueue},
		"completed, then surplus appears":                     {completed, 2, "ssw", running},
		"no minimum, no members":                              {pending, 0, "", completed},
		"it is raised again":                                  {running, 2, "", inqueue},
		"no minimum, the finished members were cleaned up":    {completed, 0, "", completed},
		"a lost member, of a gang that was partial before":    {unknown, 3, "rr", unknown},
		"the rest of a partial gang has not been tried yet":   {unknown, 3, "rrw", unknown},
		"nothing is left of a partial gang that runs":         {unknown, 3, "bw", inqueue},
		"no minimum, a member waits":                          {completed, 0, "w", inqueue},
		"no minimum, a member is bound":                       {inqueue, 0, "bw", running},
		"no minimum, the member has finished":                 {running, 0, "s", completed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, nextPhase(test.current, test.minMember, count(members(test.members), memory{})))
		})
	}
}

// TestTheGangOfAJobThatIsScaledToZeroRuns as its Job does, which may be scaled up again.
func TestTheGangOfAJobThatIsScaledToZeroRuns(t *testing.T) {
	of := func(letters string) memberCounts {
		members := count(members(letters), memory{})
		members.ofJob = true
		return members
	}
	assert.Equal(t, running, nextPhase(pending, 0, of("")), "from the start")
	assert.Equal(t, running, nextPhase(running, 0, of("")), "scaled down")
	assert.Equal(t, inqueue, nextPhase(running, 2, of("")), "scaled up again")
	assert.Equal(t, completed, nextPhase(completed, 0, of("")), "its pods had finished and were removed")
}

func TestCountsAreOfTheCurrentIncarnation(t *testing.T) {
	tests := map[string]struct{ running, succeeded, failed int32 }{
		"":         {0, 0, 0},
		"wubrrsff": {2, 1, 2},
		"rR":       {1, 0, 0},
		"rsf|r":    {1, 0, 0},
		"ss|rs":    {1, 1, 0},
	}
	for letters, want := range tests {
		got := count(members(letters), memory{})
		assert.Equal(t, want, struct{ running, succeeded, failed int32 }{got.running, got.succeeded, got.failed}, "members %q", letters)
	}
}

func TestMembersWithoutAVersionAlwaysCount(t *testing.T) {
	pods := append(members("rr"), members("|r")...)
	delete(pods[0].Annotations, "volcano.sh/job-version")
	assert.EqualValues(t, 2, count(pods, memory{}).running)
}

func TestTheMostTellingConditionIsTaken(t *testing.T) {
	waiting := func(reason, message string) *corev1.Pod {
		return mustertesting.MakePod("p").Condition(corev1.PodScheduled, corev1.ConditionFalse, reason, message).Obj()
	}
	gated := waiting(corev1.PodReasonSchedulingGated, "a very long story about gates that are closed and keys that are lost")
	member := waiting("NotEnoughTasks", "2 of 3 members exist, and this is a longer text than that of the scout")
	scout := waiting(corev1.PodReasonUnschedulable, "0/2 nodes are available")
	long := waiting(corev1.PodReasonUnschedulable, "0/2 nodes are available: 2 Insufficient cpu")
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want *corev1.Pod
	}{
		"lack of room before all else": {[]*corev1.Pod{gated, member, scout}, scout},
		"the longer text":              {[]*corev1.Pod{long, scout}, long},
		"any reason before a gate":     {[]*corev1.Pod{gated, member}, member},
		"a gate, if there is no more":  {[]*corev1.Pod{gated}, gated},
	} {
		t.Run(name, func(t *testing.T) {
			got := count(test.pods, memory{})
			assert.Equal(t, test.want.Status.Conditions[0], *got.why)
			assert.Equal(t, len(test.pods), got.unschedulable)
		})
	}
}

func TestNextStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	group := mustertesting.MakePodGroup("g").MinMember(2)

	t.Run("undecided: nothing to say", func(t *testing.T) {
		assert.Equal(t, schedulingv1beta1.PodGroupStatus{}, *nextStatus(group.Obj(), count(nil, memory{}), admission.Decision{}, now, "id"))
	})
	t.Run("kept out: Pending, with the reason", func(t *testing.T) {
		next := nextStatus(group.Obj(), count(nil, memory{}), admission.Decision{Reason: "NotEnoughResources", Message: "no room in queue"}, now, "id")
		assert.Equal(t, pending, next.Phase)
		require.Len(t, next.Conditions, 1)
		assert.Equal(t, schedulingv1beta1.PodGroupCondition{
			Type: "Unschedulable", Status: "True", TransitionID: "id", LastTransitionTime: metav1.NewTime(now),
			Reason: "NotEnoughResources", Message: "no room in queue",
		}, next.Conditions[0])
	})
	t.Run("kept out by a quota: the reason says so", func(t *testing.T) {
		next := nextStatus(group.Obj(), count(nil, memory{}), admission.Decision{Reason: "QuotaExceeded", Message: "full"}, now, "id")
		require.Len(t, next.Conditions, 1)
		assert.Equal(t, "QuotaExceeded", next.Conditions[0].Reason)
	})
	t.Run("admitted: what kept it out is over", func(t *testing.T) {
		blocked := group.Obj()
		blocked.Status = *nextStatus(blocked, count(nil, memory{}), admission.Decision{Reason: "NotEnoughResources", Message: "no room"}, now, "id")
		next := nextStatus(blocked, count(nil, memory{}), admission.Decision{Admitted: true}, now, "id")
		assert.Equal(t, inqueue, next.Phase)
		assert.Empty(t, next.Conditions)
	})
	t.Run("an admitted one never goes back, whatever the decision", func(t *testing.T) {
		next := nextStatus(group.Phase(running).Obj(), count(nil, memory{}), admission.Decision{Reason: "NotEnoughResources", Message: "no room"}, now, "id")
		assert.Equal(t, inqueue, next.Phase)
	})
}

func TestFindings(t *testing.T) {
	t.Run("unschedulable members", func(t *testing.T) {
		f := find(inqueue, 2, count(members("uuw"), memory{}))
		require.NotNil(t, f)
		assert.Equal(t, finding{"Unschedulable", "NotEnoughResources", "3/3 tasks in gang unschedulable: no room"}, *f)
		assert.Equal(t, "no room", explanation(f.message))
	})
	t.Run("members that wait for quota", func(t *testing.T) {
		counted := count(members("uuw"), memory{})
		counted.why = &corev1.PodCondition{Reason: "WaitingForQuota", Message: "queue \"q\" is full"}
		assert.Equal(t, "QuotaExceeded", find(inqueue, 2, counted).reason)
	})
	t.Run("nothing without members", func(t *testing.T) {
		assert.Nil(t, find(inqueue, 2, count(nil, memory{})))
		assert.Nil(t, find(completed, 2, count(nil, memory{})))
	})
	t.Run("scheduled", func(t *testing.T) {
		assert.Equal(t, &finding{kind: "Scheduled", reason: "tasks in gang are ready to be scheduled"}, find(running, 2, count(members("bb"), memory{})))
	})
}

func TestTheLatestConditionIsCurrent(t *testing.T) {
	now := time.Unix(1000, 0)
	waits := finding{kind: schedulingv1beta1.PodGroupUnschedulableType, reason: "NotEnoughResources", message: "a"}
	starts := finding{kind: schedulingv1beta1.PodGroupScheduled, reason: "ready"}

	var conditions []schedulingv1beta1.PodGroupCondition
	turn := func(f finding, at time.Time) {
		conditions = withFinding(conditions, f, at, "id")
		require.Equal(t, f.kind, schedulingv1beta1.CurrentCondition(conditions).Type)
		require.Equal(t, f.message, schedulingv1beta1.CurrentCondition(conditions).Message)
	}
	turn(waits, now)
	turn(starts, now) // within the same second
	assert.True(t, conditions[0].LastTransitionTime.Before(&conditions[1].LastTransitionTime), "clients compare the times")
	turn(waits, now.Add(time.Minute))
	require.Len(t, conditions, 2, "one of each type")

	other := waits
	other.message = "b"
	turn(other, now.Add(time.Hour))
	assert.True(t, schedulingv1beta1.CurrentCondition(conditions).LastTransitionTime.Equal(&metav1.Time{Time: now.Add(time.Minute)}), "new words are no transition")

	same := withFinding(conditions, other, now.Add(2*time.Hour), "id2")
	assert.Equal(t, conditions, same)
}

func TestIsUrgent(t *testing.T) {
	now := time.Unix(1000, 0)
	base := schedulingv1beta1.PodGroupStatus{Phase: inqueue, Running: 1, Succeeded: 2}
	waits := withFinding(nil, finding{kind: "Unschedulable", message: "1/2: a"}, now, "")
	words := withFinding(waits, finding{kind: "Unschedulable", message: "2/2: a"}, now, "")
	starts := withFinding(waits, finding{kind: "Scheduled"}, now, "")
	for name, test := range map[string]struct {
		last, next []schedulingv1beta1.PodGroupCondition
		change     func(*schedulingv1beta1.PodGroupStatus)
		want       bool
	}{
		"a count":                     {change: func(s *schedulingv1beta1.PodGroupStatus) { s.Running = 5 }},
		"more have succeeded":         {change: func(s *schedulingv1beta1.PodGroupStatus) { s.Succeeded = 3 }},
		"fewer count as succeeded":    {change: func(s *schedulingv1beta1.PodGroupStatus) { s.Succeeded = 0 }, want: true},
		"the phase":                   {change: func(s *schedulingv1beta1.PodGroupStatus) { s.Phase = running }, want: true},
		"a first condition":           {next: waits, want: true},
		"numbers in a message":        {last: waits, next: words},
		"another condition":           {last: waits, next: starts, want: true},
		"the condition is taken back": {last: waits, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			last, next := base.DeepCopy(), base.DeepCopy()
			last.Conditions, next.Conditions = test.last, test.next
			if test.change != nil {
				test.change(next)
			}
			assert.Equal(t, test.want, isUrgent(last, next))
		})
	}
}

func TestHoldTimeouts(t *testing.T) {
	start := time.Unix(1000, 0)
	since := func(kind schedulingv1beta1.PodGroupConditionType, seconds int64) []schedulingv1beta1.PodGroupCondition {
		return []schedulingv1beta1.PodGroupCondition{{Type: kind, LastTransitionTime: metav1.Unix(seconds, 0)}}
	}
	unschedulable, scheduled := schedulingv1beta1.PodGroupUnschedulableType, schedulingv1beta1.PodGroupScheduled
	for name, c := range map[string]struct {
		limit      time.Duration
		phase      schedulingv1beta1.PodGroupPhase
		conditions []schedulingv1beta1.PodGroupCondition
		left       time.Duration
		limited    bool
	}{
		"of one that just came":                 {time.Minute, inqueue, nil, 50 * time.Second, true},
		"of one that has long been reported":    {time.Minute, inqueue, since(unschedulable, 940), -10 * time.Second, true},
		"of one that has fallen apart just now": {time.Minute, inqueue, since(scheduled, 0), 50 * time.Second, true},
		"of one some of which runs":             {time.Minute, unknown, since(unschedulable, 940), -10 * time.Second, true},
		"without a limit":                       {0, inqueue, since(unschedulable, 0), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := holdTimeouts{limit: c.limit, since: map[string]sighting{}}
			status := &schedulingv1beta1.PodGroupStatus{Phase: c.phase, Conditions: c.conditions}
			p.left("ns/g", "uid", status, start)
			left, limited := p.left("ns/g", "uid", status, start.Add(10*time.Second))
			assert.Equal(t, c.left, left)
			assert.Equal(t, c.limited, limited)
			p.forget("ns/g")
			assert.Empty(t, p.since)
		})
	}
}

func TestWhatIsOnlyAReport(t *testing.T) {
	const (
		pending = schedulingv1beta1.PodGroupPending
		inqueue = schedulingv1beta1.PodGroupInqueue
		running = schedulingv1beta1.PodGroupRunning
		unknown = schedulingv1beta1.PodGroupUnknown
		ended   = schedulingv1beta1.PodGroupCompleted
	)
	type status = schedulingv1beta1.PodGroupStatus
	with := func(phase schedulingv1beta1.PodGroupPhase, kind schedulingv1beta1.PodGroupConditionType, reason string) status {
		return status{Phase: phase, Conditions: []schedulingv1beta1.PodGroupCondition{{Type: kind, Reason: reason}}}
	}
	for name, c := range map[string]struct {
		last, next status
		want       bool
	}{
		"it waits for its queue":        {status{}, with(pending, schedulingv1beta1.PodGroupUnschedulableType, "a"), true},
		"its gang has started":          {status{Phase: inqueue}, with(running, schedulingv1beta1.PodGroupScheduled, ""), true},
		"its last blocker is over":      {with(inqueue, schedulingv1beta1.PodGroupUnschedulableType, "a"), with(running, schedulingv1beta1.PodGroupScheduled, ""), true},
		"more run":                      {status{Phase: running, Running: 1}, status{Phase: running, Running: 2}, true},
		"some run before it has enough": {status{Phase: inqueue}, status{Phase: inqueue, Running: 2}, true},
		"one has succeeded":             {status{Phase: running, Running: 2}, status{Phase: running, Running: 1, Succeeded: 1}, false},
		"one has failed":                {status{Phase: running, Running: 2}, status{Phase: running, Running: 1, Failed: 1}, false},
		"it has completed":              {status{Phase: running}, status{Phase: ended}, false},
		"it runs anew":                  {status{Phase: ended}, status{Phase: running}, false},
		"it has lost its members":       {status{Phase: running}, status{Phase: inqueue}, false},
		"it is split":                   {status{Phase: running}, status{Phase: unknown}, false},
		"it is whole again":             {status{Phase: unknown}, status{Phase: running}, false},
		"it cannot be placed":           {status{Phase: inqueue}, with(inqueue, schedulingv1beta1.PodGroupUnschedulableType, "a"), false},
		"it cannot for another reason":  {with(inqueue, schedulingv1beta1.PodGroupUnschedulableType, "a"), with(inqueue, schedulingv1beta1.PodGroupUnschedulableType, "b"), true},
	} {
		assert.Equal(t, c.want, isReport(&c.last, &c.next), name)
	}

	// Pods wait for the status to say that their PodGroup is admitted.
	for name, c := range map[string]struct{ last, next status }{
		"it is admitted":                     {status{}, status{Phase: inqueue}},
		"it is admitted after a while":       {with(pending, schedulingv1beta1.PodGroupUnschedulableType, "a"), status{Phase: inqueue}},
		"it is admitted and has started":     {status{}, with(running, schedulingv1beta1.PodGroupScheduled, "")},
		"it is admitted and some of it runs": {status{}, status{Phase: inqueue, Running: 1}},
	} {
		assert.False(t, isReport(&c.last, &c.next), name)
	}
}
