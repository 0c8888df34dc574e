package gang

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gangWith makes a gang of a minimum with members in the given states.
func gangWith(minimum int, states ...State) *Gang {
	g := &Gang{Spec: Spec{MinMember: minimum}}
	for i, state := range states {
		name := fmt.Sprint("m", i)
		g.Put(&Member{UID: types.UID(name), Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, State: state})
	}
	return g
}

// facts are what the phase of a gang follows from beside its members.
type facts struct {
	exists, admitted, attempting, preempted, neverBound bool
	lacks                                               WaitReason
	outcomeUntil, backOffUntil                          time.Time
}

// status is that of a gang with these facts.
func (f *facts) status(g *Gang, now time.Time) Status {
	group := &Group{Gang: *g, PodGroup: PodGroup{Exists: f.exists}, MinimumBound: !f.neverBound, OutcomeUntil: f.outcomeUntil}
	if f.attempting {
		group.Attempt = &Attempt{StartAt: f.backOffUntil}
	} else {
		group.Retry.Until = f.backOffUntil
	}
	if f.lacks != "" {
		group.Refusal = &Refusal{Lacks: f.lacks}
	}
	return group.Status(f.admitted, f.preempted, now)
}

func TestStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	soon, before := now.Add(time.Second), now.Add(-time.Second)
	all := func(changes ...func(*facts)) facts {
		f := facts{exists: true, admitted: true}
		for _, change := range changes {
			change(&f)
		}
		return f
	}
	attempting := func(f *facts) { f.attempting = true }
	backsOff := func(f *facts) { f.backOffUntil = soon }
	backedOff := func(f *facts) { f.backOffUntil = before }
	outcome := func(f *facts) { f.outcomeUntil = soon }
	outcomeKnown := func(f *facts) { f.outcomeUntil = before }
	neverBound := func(f *facts) { f.neverBound = true }
	preempted := func(f *facts) { f.preempted = true }
	lacksRoom := func(f *facts) { f.lacks = Room }
	lacksQuota := func(f *facts) { f.lacks = Quota }
	gone := func(f *facts) { f.exists = false }
	pending := func(f *facts) { f.admitted = false }

	for name, c := range map[string]struct {
		gang  *Gang
		facts facts
		want  Status
	}{
		"no PodGroup":                      {gangWith(2, Waiting, Waiting), all(gone), Status{Incomplete, NoPodGroup, time.Time{}}},
		"no PodGroup, whatever else":       {gangWith(0, Bound), all(gone, pending, attempting, backsOff, lacksRoom), Status{Incomplete, NoPodGroup, time.Time{}}},
		"not admitted":                     {gangWith(2, Waiting, Waiting), all(pending), Status{NotAdmitted, Admission, time.Time{}}},
		"not admitted, though it runs":     {gangWith(1, Bound), all(pending, attempting), Status{NotAdmitted, Admission, time.Time{}}},
		"an attempt":                       {gangWith(2, Reserved, Waiting), all(attempting), Status{Phase: Attempting}},
		"an attempt that pauses":           {gangWith(2, Bound, Waiting), all(attempting, backsOff), Status{Attempting, BackOff, soon}},
		"an attempt after its pause":       {gangWith(2, Bound, Waiting), all(attempting, backedOff), Status{Phase: Attempting}},
		"an attempt hides other reasons":   {gangWith(2, Bound, Waiting), all(attempting, outcome, lacksRoom, preempted), Status{Phase: Attempting}},
		"its minimum has room":             {gangWith(2, Reserved, Released, Waiting), all(), Status{Phase: Running}},
		"no minimum":                       {gangWith(0), all(lacksRoom, backsOff, outcome), Status{Phase: Running}},
		"running, and about to be evicted": {gangWith(1, Bound), all(preempted), Status{Running, Preemption, time.Time{}}},
		"members give room back":           {gangWith(2, Returning, Waiting), all(backsOff), Status{RollingBack, Rollback, time.Time{}}},
		"reserved without an attempt":      {gangWith(2, Reserved, Waiting), all(lacksRoom), Status{RollingBack, Rollback, time.Time{}}},
		"a member has ended somehow":       {gangWith(2, Bound, Waiting), all(outcome), Status{Incomplete, OutcomeUnknown, soon}},
		"its minimum was never bound":      {gangWith(2, Bound, Waiting), all(outcome, neverBound), Status{Phase: Ready}},
		"it is known how":                  {gangWith(2, Bound, Waiting), all(outcomeKnown), Status{Phase: Ready}},
		"too few members":                  {gangWith(2, Waiting), all(backsOff, lacksRoom), Status{Incomplete, TooFewMembers, time.Time{}}},
		"lacks room":                       {gangWith(2, Waiting, Waiting), all(lacksRoom), Status{Unschedulable, Room, time.Time{}}},
		"lacks quota":                      {gangWith(2, Waiting, Waiting), all(lacksQuota, backsOff), Status{Unschedulable, Quota, time.Time{}}},
		"backs off":                        {gangWith(2, Waiting, Waiting), all(backsOff), Status{BackingOff, BackOff, soon}},
		"has backed off":                   {gangWith(2, Waiting, Waiting), all(backedOff), Status{Phase: Ready}},
		"nothing is missing":               {gangWith(2, Waiting, Waiting), all(), Status{Phase: Ready}},
		"bound below the minimum":          {gangWith(2, Bound, Waiting), all(), Status{Phase: Ready}},
	} {
		assert.Equal(t, c.want, c.facts.status(c.gang, now), name)
	}
}

// TestStatusOfAllFacts goes through all facts: a phase has only its own reasons, and asking changes nothing. A status that a deadline ends
// is another one then.
func TestStatusOfAllFacts(t *testing.T) {
	reasons := map[Phase][]WaitReason{
		Incomplete: {NoPodGroup, TooFewMembers, OutcomeUnknown}, NotAdmitted: {Admission}, Ready: {""}, Attempting: {"", BackOff},
		RollingBack: {Rollback}, BackingOff: {BackOff}, Unschedulable: {Room, Quota}, Running: {"", Preemption},
	}
	now := time.Unix(1000, 0)
	times := []time.Time{{}, now.Add(-time.Second), now, now.Add(time.Second)}
	seen, bools := map[Phase]bool{}, []bool{false, true}
	gangs := [][]State{nil, {Waiting}, {Waiting, Waiting}, {Bound, Waiting}, {Bound, Bound}, {Reserved, Waiting}, {Returning, Waiting}, {Released, Bound}}
	for _, states := range gangs {
		for i := range 16 {
			for _, lacks := range []WaitReason{"", Room, Quota} {
				for _, outcome := range times {
					for _, backOff := range times {
						f := facts{exists: bools[i&1], admitted: bools[i>>1&1], attempting: bools[i>>2&1], preempted: bools[i>>3&1],
							lacks: lacks, outcomeUntil: outcome, backOffUntil: backOff}
						g := gangWith(2, states...)
						got := f.status(g, now)
						seen[got.Phase] = true
						assert.True(t, slices.Contains(reasons[got.Phase], got.Reason), "%v of %v", got, f)
						assert.Equal(t, got, f.status(g, now))
						if !got.Until.IsZero() {
							assert.True(t, now.Before(got.Until))
							assert.NotEqual(t, got, f.status(g, got.Until))
						}
					}
				}
			}
		}
	}
	assert.Len(t, seen, len(Phases))
}

// TestWaitReasonsHasEachReason that the file declares. Others compare their texts with it.
func TestWaitReasonsHasEachReason(t *testing.T) {
	source, err := os.ReadFile("lifecycle.go")
	require.NoError(t, err)
	var declared []WaitReason
	for _, match := range regexp.MustCompile(`(?m)^\t\w+ +WaitReason += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, WaitReason(match[1]))
	}
	assert.ElementsMatch(t, declared, WaitReasons)
}
