package gangs_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// picture reads the transitions of the lifecycle from the page for newcomers. A transition from "any" is one from each other phase.
func picture(t *testing.T) sets.Set[transition] {
	t.Helper()
	page, err := os.ReadFile("../../../CONTRIBUTING.md")
	require.NoError(t, err)
	phases, drawn := sets.New(gang.Phases...), sets.New[transition]()
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Za-z, ]+) \| ([A-Z][A-Za-z]+) \| .+ \|$`).FindAllStringSubmatch(string(page), -1) {
		from, to := strings.Split(row[1], ", "), gang.Phase(row[2])
		if from[0] == "from" || !phases.Has(to) {
			continue
		}
		if row[1] == "any" {
			from = nil
			for _, phase := range gang.Phases {
				from = append(from, string(phase))
			}
		}
		for _, phase := range from {
			assert.True(t, phases.Has(gang.Phase(phase)), "no such phase: %s", phase)
			if gang.Phase(phase) != to {
				drawn.Insert(transition{gang.Phase(phase), to})
			}
		}
	}
	return drawn
}

// TestThePictureOfTheLifecycle compares the table in CONTRIBUTING.md with the transitions of gangs. Each transition that is seen is in the
// table. Each in the table is seen, in random histories or in a history made for it. The race detector looks at too few of them for that.
func TestThePictureOfTheLifecycle(t *testing.T) {
	seen := map[transition]string{}
	histories, isAll := mustertesting.Share(300)
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, seed))
		args := simArgs()
		args.MaxOvertakes = int32(random.IntN(3))
		s := newSimulation(t, func(_ string, lowest, highest int) int { return lowest + random.IntN(highest-lowest+1) }, args)
		s.faults = true
		for range 80 {
			s.randomStep()
		}
		s.calmDown()
		for transition, after := range s.observed {
			seen[transition] = after
		}
	}
	for _, history := range rareHistories() {
		s := newSimulation(t, noDraw, simArgs())
		history(s)
		for transition, after := range s.observed {
			seen[transition] = after
		}
	}
	drawn := picture(t)
	for transition, after := range seen {
		assert.True(t, drawn.Has(transition), "not in the table of CONTRIBUTING.md: %s -> %s after %s", transition.from, transition.to, after)
	}
	if !isAll {
		return
	}
	for transition := range drawn {
		assert.NotEmpty(t, seen[transition], "in the table of CONTRIBUTING.md, but never seen: %s -> %s", transition.from, transition.to)
	}
}

// attempt begins an attempt of the gang g, without the queue.
func (s *simulation) attempt() {
	snapshot := s.tracker.Decisions.Snapshot(s.memberNumber(0))
	s.tracker.Decisions.Commit(snapshot, s.place(&snapshot.Problem))
	s.observe("Commit")
}

func (s *simulation) memberNumber(i int) *corev1.Pod { return s.api[simUIDs(s.api)[i]] }

// reach has a gang g of two members reach a phase, without the queue.
func (s *simulation) reach(phase gang.Phase) {
	spec := gangSpec{size: 2, minimum: 2, cpu: 1000}
	switch phase {
	case gang.Incomplete:
		spec.minimum = 3
	case gang.NotAdmitted:
		spec.phase = schedulingv1beta1.PodGroupPending
	case gang.Unschedulable:
		spec.cpu = simNodeSize + 1
	}
	s.createGang("g", spec)
	s.arrive()
	reserve := func(i int) {
		s.tracker.Reserve(s.memberNumber(i))
		s.tracker.Permit(s.memberNumber(i))
		s.observe("Permit")
	}
	fail := func() {
		s.tracker.Fail(s.memberNumber(1))
		s.observe("Fail")
	}
	switch phase {
	case gang.Unschedulable, gang.Attempting:
		s.attempt()
	case gang.RollingBack:
		s.attempt()
		reserve(0)
		fail()
	case gang.BackingOff:
		s.attempt()
		fail() // the next attempt goes exactly where its decision says
		s.attempt()
		fail()
	case gang.Running:
		s.attempt()
		reserve(0)
		reserve(1)
	}
	assert.Equal(s.t, phase, s.phases[state.Key{Name: "g"}])
}

// rareHistories make the transitions that random histories hardly ever take.
func rareHistories() []func(*simulation) {
	key := state.Key{Name: "g"}
	change := func(s *simulation, change func(*schedulingv1beta1.PodGroup)) {
		s.changeGroup(key, change)
		s.arrive()
	}
	histories := []func(*simulation){
		func(s *simulation) { // the minimum is raised while a surplus pod holds room
			s.reach(gang.Running)
			pod := s.createMember("g", "a", 9, 1000, 0, 0, "")
			s.arrive()
			s.tracker.Reserve(pod)
			change(s, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.MinMember = 5 })
		},
		func(s *simulation) { // a binding fails
			s.reach(gang.Running)
			s.tracker.Unreserve(s.memberNumber(0))
			s.observe("Unreserve")
		},
		func(s *simulation) { // the gang is found to fit though no event has woken it
			s.reach(gang.Unschedulable)
			s.resize(3, 3*simNodeSize)
			s.attempt()
		},
		func(s *simulation) { // a pause is not over when the minimum is lowered and raised again
			s.reach(gang.BackingOff)
			for _, minimum := range []int32{0, 2} {
				change(s, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.MinMember = minimum })
			}
		},
	}
	for _, phase := range []gang.Phase{gang.Ready, gang.BackingOff} { // a member reserves its room after its attempt was rolled back
		histories = append(histories, func(s *simulation) {
			s.reach(phase)
			s.tracker.Reserve(s.memberNumber(0))
			s.observe("Reserve")
		})
	}
	for _, phase := range gang.Phases {
		histories = append(histories, func(s *simulation) {
			s.reach(phase)
			change(s, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.MinMember = 0 })
		}, func(s *simulation) {
			s.reach(phase)
			change(s, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupPending })
			change(s, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupInqueue })
		}, func(s *simulation) {
			s.reach(phase)
			pg := s.groups[key]
			s.forgetGroup(pg)
			s.arrive()
			s.tellGroup(pg)
			s.arrive()
		})
	}
	return histories
}

// TestAnAttemptEndsWhenTheAdmissionIsTakenBack: what was assumed is given back at once, and the members that hold room give it back.
func TestAnAttemptEndsWhenTheAdmissionIsTakenBack(t *testing.T) {
	s := newSimulation(t, noDraw, simArgs())
	key := s.createGang("g", gangSpec{queue: "q", size: 2, minimum: 2, cpu: 1000})
	s.arrive()
	s.attempt()
	for s.waiting[s.memberNumber(0).UID] == nil {
		s.dispatch()
		require.True(t, s.scheduleOne())
	}
	s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupPending })
	s.arrive()
	assert.Empty(t, s.tracker.Attempting)
	s.settle()
	assert.Empty(t, s.room, "all room is given back")
	used, all := s.tracker.Quota.Ledger.Totals("q")
	assert.True(t, used.IsZero() && all.IsZero(), "all quota is given back")
	s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) { pg.Status.Phase = schedulingv1beta1.PodGroupInqueue })
	s.run(2 * time.Second)
	assert.Equal(t, 2, s.boundOf(key))
}
