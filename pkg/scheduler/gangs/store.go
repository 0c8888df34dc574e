package gangs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// store has what informers and scheduling cycles tell of gangs: one lock, and the verbs that change the state.
type store struct {
	*state.State
	// Leadership is whether this process runs scheduling cycles.
	Leadership *state.Leadership
	// Order has the sort keys of pods.
	Order *Order
	// Quota has the charges of pods.
	Quota *state.Quota
	// WaitList is the book of waiting gangs.
	WaitList *state.WaitList
	// Victims is preemption's view of gangs.
	Victims *evict.Victims
	// Evictions counts wasted evictions.
	Evictions *evict.Evictions
	// Topology has the domains of the network.
	Topology *Topology
}

func newStore(c clock.Clock) *store {
	t := state.New(c)
	s := &store{State: t, Leadership: state.NewLeadership(t), Order: &Order{t: t}, Quota: state.NewQuota(t), Topology: newTopology(t)}
	s.WaitList = state.NewWaitList(t, s.Quota)
	s.Victims = evict.New(t, s.Quota, s.WaitList, s.Leadership)
	s.Evictions = s.Victims.Evictions
	return s
}

// Configure takes over the arguments of the Coscheduling plugin in a profile. All profiles share one tracker, because a gang may have pods
// of several. It is an error if their arguments differ.
func (t *store) Configure(profile string, args config.CoschedulingArgs) error {
	t.Lock()
	defer t.Unlock()
	for _, other := range slices.Sorted(maps.Keys(t.Settings.Of)) {
		if field := differing(t.Settings.Of[other], args); other != profile && field != "" {
			return fmt.Errorf("%s has another value in profile %q than in profile %q: a gang may have pods of both, so give it the same value in all profiles",
				field, profile, other)
		}
	}
	t.Settings.Of[profile], t.Settings.Args = args, args
	t.Settings.Profiles.Insert(profile)
	if args.RequirePodGroup {
		t.PodGroupRequired.Store(profile, true)
	}
	t.Waiting.Book.SetBounds(reservations.Bounds{Bypasses: int(args.MaxOvertakes), Age: args.MaxOvertakeTime.Duration, Starts: args.ReservationDepth > 0})
	return nil
}

// differing names the first argument, as written in a configuration, whose values differ between two profiles; "" if none. RequirePodGroup
// may differ: it is about single pods.
func differing(a, b config.CoschedulingArgs) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if name != "TypeMeta" && name != "RequirePodGroup" && !x.Field(i).Equal(y.Field(i)) {
			return strings.ToLower(name[:1]) + name[1:]
		}
	}
	return ""
}

// CountGangs counts the gangs of each queue and phase.
func (t *store) CountGangs() map[gangmetrics.QueuePhase]int {
	t.Lock()
	defer t.Unlock()
	counts := map[gangmetrics.QueuePhase]int{}
	for _, gang := range t.Gangs {
		counts[gangmetrics.QueuePhase{Queue: t.Metrics.QueueOf(gang.PodGroup.Account), Phase: string(t.Status(gang).Phase)}]++
	}
	return counts
}

// LostWakeups counts gangs that were found to fit without an event that woke them.
func (t *store) LostWakeups() int {
	t.Lock()
	defer t.Unlock()
	return t.Metrics.Lost
}
