package gangs_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// A world of Apply has one gang of each kind. "waits" was refused, and "nothing" has neither a PodGroup nor pods.
var appliedGangs = []string{"waits", "runs", "early", "closed", "nothing"}

// applied is a Tracker to which random effects are applied. A second book takes the same calls, so that it says what the first must have said.
type applied struct {
	*rapid.T
	tr      *gangs.Tracker
	clock   *clocktesting.FakeClock
	dirty   *simQueue
	reports *simQueue
	second  *reservations.Book[state.Key]
}

// outcome is all that effects may change.
type outcome struct {
	Looks                               sets.Set[state.Key]
	Later, Reports                      map[state.Key]time.Time
	Woken, Reporting, Open, Exist       sets.Set[state.Key]
	OfQuota, OfRoom, Assumed, Holders   sets.Set[state.Key]
	Changes, Returned, Freed, NodeFreed int
}

func newApplied(t *testing.T, r *rapid.T) *applied {
	tr, clock := newTestTracker(t)
	a := &applied{T: r, tr: tr, clock: clock, second: reservations.New[state.Key]()}
	a.dirty, a.reports = &simQueue{clock: clock, later: map[state.Key]time.Time{}}, &simQueue{clock: clock, later: map[state.Key]time.Time{}}
	group := func(name string, phase schedulingv1beta1.PodGroupPhase, minMember int32) {
		tr.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).Queue("q").MinMember(minMember).Phase(phase).Obj())
	}
	member := func(name string) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Group(name).SchedulerName("muster").Requests("cpu", "1").Obj()
	}
	group("waits", schedulingv1beta1.PodGroupInqueue, 1)
	group("runs", schedulingv1beta1.PodGroupInqueue, 1)
	group("early", schedulingv1beta1.PodGroupInqueue, 3)
	group("closed", schedulingv1beta1.PodGroupPending, 1)
	setPods(tr, member("waits"), on(member("runs"), "n"), member("early"), member("closed"))
	refuse(t, tr, member("waits"), "no room")
	tr.Apply(nil, gang.Effects{})
	tr.WaitList.Book.Forget(keyNamed("waits"))
	for _, book := range []*reservations.Book[state.Key]{tr.WaitList.Book, a.second} {
		book.SetBounds(reservations.Bounds{Starts: true, Age: time.Hour})
		book.TakeEvents()
	}
	tr.Dirty.ShutDown()
	tr.Reports.ShutDown()
	tr.Dirty, tr.Reports = a.dirty, a.reports
	return a
}

// prepare draws what the effects find.
func (a *applied) prepare() {
	maybe := func(label string, set sets.Set[state.Key], key state.Key) {
		set.Delete(key)
		if rapid.Bool().Draw(a.T, label+key.Name) {
			set.Insert(key)
		}
	}
	for _, name := range appliedGangs {
		g := a.tr.Group(keyNamed(name))
		g.Reporting, g.SurplusOpen = rapid.Bool().Draw(a.T, "is reported"), rapid.Bool().Draw(a.T, "is open")
		maybe("lacks quota ", a.tr.Quota.Gangs, g.Key)
		maybe("lacks room ", a.tr.WaitList.Held.Gangs, g.Key)
		if g.Refusal != nil {
			g.Refusal.Woken = rapid.Bool().Draw(a.T, "is woken")
		}
		if name == "runs" && rapid.Bool().Draw(a.T, "has quota for a member that is lost") {
			a.tr.Quota.Ledger.Assume(g.Key.String(), "q", resources.List{corev1.ResourceCPU: 1000})
		}
	}
	for i, pods := range []map[types.UID]*corev1.Pod{a.tr.Quota.Pods, a.tr.Quota.Grouped, a.tr.WaitList.Held.Pods} {
		clear(pods)
		if rapid.Bool().Draw(a.T, []string{"pods lack quota", "pods have node groups", "pods are blocked"}[i]) {
			pods["single"] = singleNamed("single", "q").Obj()
		}
	}
	a.tr.Woken.Clear()
	for _, queue := range []*simQueue{a.dirty, a.reports} {
		queue.ready = nil
		clear(queue.later)
	}
	for range rapid.IntRange(0, 2).Draw(a.T, "calls of the book") {
		a.callBooks()
	}
}

// callBooks makes a call of both books.
func (a *applied) callBooks() {
	key := keyNamed(rapid.SampledFrom([]string{"waits", "waits", "runs", "early", "closed", "other"}).Draw(a.T, "key"))
	rank := reservations.Rank{Queue: "q", Priority: rapid.Int32Range(0, 1).Draw(a.T, "priority"), Name: key.Name}
	verb, now := rapid.IntRange(0, 5).Draw(a.T, "verb"), a.clock.Now()
	choice := reservations.Choice{Amounts: map[string]resources.List{"n": {corev1.ResourceCPU: 1000}}, Start: now.Add(time.Hour)}
	claim := quota.Claim{Queue: "q", Want: resources.List{corev1.ResourceCPU: 1000}}
	for _, book := range []*reservations.Book[state.Key]{a.tr.WaitList.Book, a.second} {
		switch verb {
		case 0:
			book.WaitForRoom(key, rank, nil, now)
		case 1:
			book.WaitForRoom(key, rank, nil, now)
			book.ReserveNodes(key, choice, now)
		case 2:
			book.WaitForQuota(key, rank, claim, nil, false, now)
		case 3:
			book.Forget(key)
		default:
			book.Tick(now)
		}
	}
}

// sees is the state of the Tracker.
func (a *applied) sees() outcome {
	o := outcome{
		Looks: sets.New(a.dirty.ready...), Later: maps.Clone(a.dirty.later), Reports: maps.Clone(a.reports.later), Woken: sets.New[state.Key](), Reporting: sets.New[state.Key](),
		Open: sets.New[state.Key](), Exist: sets.KeySet(a.tr.Gangs), OfQuota: a.tr.Quota.Gangs.Clone(), OfRoom: a.tr.WaitList.Held.Gangs.Clone(),
		Assumed: sets.New[state.Key](), Holders: holders(a.tr.WaitList.Book), Changes: int(a.tr.Changes), Returned: a.tr.WaitList.Held.Returned,
		Freed: a.tr.WaitList.Held.Freed, NodeFreed: a.tr.WaitList.Sharing.Freed,
	}
	for key, g := range a.tr.Gangs {
		for set, is := range map[*sets.Set[state.Key]]bool{&o.Reporting: g.Reporting, &o.Open: g.SurplusOpen, &o.Woken: a.tr.Woken.Has(key) && g.Refusal.Woken} {
			if is {
				set.Insert(key)
			}
		}
	}
	if used, all := a.tr.Quota.Ledger.Totals("q"); !all.Equal(used) {
		o.Assumed.Insert(keyNamed("runs"))
	}
	return o
}

func holders(book *reservations.Book[state.Key]) sets.Set[state.Key] {
	held := sets.New[state.Key]()
	for _, name := range append(appliedGangs, "other") {
		if book.ReservedFor(keyNamed(name)) != nil {
			held.Insert(keyNamed(name))
		}
	}
	return held
}

// expects is what has to be seen after effects on a gang, "" for none, by what the effects mean.
func (a *applied) expects(o outcome, name string, e gang.Effects) outcome {
	key, what := keyNamed(name), e.What
	has := func(some gang.Effect) bool { return what&some != 0 }
	if name == "" {
		what &^= gang.HasChanged | gang.ToSettle | gang.ToWake | gang.ToLook | gang.LookLater | gang.ToReport | gang.ToOpen
	}
	if has(gang.HasChanged) {
		what |= gang.ToSettle | gang.ToLook | gang.ToReport | gang.SearchDiffers
		if name != "waits" {
			a.second.Suspend(key)
		}
		if name == "nothing" {
			a.second.Forget(key)
			for _, of := range []sets.Set[state.Key]{o.Exist, o.OfQuota, o.OfRoom, o.Open, o.Reporting} {
				of.Delete(key)
			}
		}
	}
	if g := a.tr.Gangs[key]; has(gang.ToSettle) && g.FixedPriority != nil {
		a.second.Rerank(key, a.tr.Rank(g))
	}
	if has(gang.ToSettle) && o.Assumed.Has(key) { // it lacks no member
		o.Assumed.Delete(key)
		what |= gang.QuotaFreed
	}
	events, toWake := a.second.TakeEvents(), sets.New[state.Key]()
	for kind, is := range map[gang.Effect]bool{gang.RoomFreed | gang.HoldFreed: events.RoomFreed, gang.HoldFreed: events.HoldFreed, gang.QuotaFreed: events.QuotaFreed} {
		if is {
			what |= kind
		}
	}
	if has(gang.ToWake) {
		toWake.Insert(key)
	}
	toWake.Insert(events.Decide...)
	a.expectsOfGang(&o, key, what, e)
	a.expectsOfOthers(&o, what, e, toWake)
	o.Holders = holders(a.second)
	return o
}

// expectsOfGang is what effects do to their gang.
func (a *applied) expectsOfGang(o *outcome, key state.Key, what gang.Effect, e gang.Effects) {
	if what&gang.ToLook != 0 {
		o.Looks.Insert(key)
	}
	if what&gang.LookLater != 0 {
		o.Later[key] = a.clock.Now().Add(e.Again)
	}
	if what&gang.ToReport != 0 && key.Name != "" && !a.tr.Group(key).Reporting {
		o.Reports[key] = a.clock.Now().Add(state.ReportDelay)
		if o.Exist.Has(key) {
			o.Reporting.Insert(key)
		}
	}
	if what&gang.ToOpen != 0 {
		o.Open.Delete(key)
	}
}

// expectsOfOthers is what effects do to all else. Gangs are woken that were refused, once.
func (a *applied) expectsOfOthers(o *outcome, what gang.Effect, e gang.Effects, toWake sets.Set[state.Key]) {
	has := func(some gang.Effect) bool { return what&some != 0 }
	if has(gang.RoomFreed) {
		o.Returned++
		toWake.Insert(o.OfRoom.UnsortedList()...)
		o.OfRoom = sets.New[state.Key]()
	}
	if has(gang.QuotaFreed) {
		toWake.Insert(o.OfQuota.UnsortedList()...)
		o.OfQuota = sets.New[state.Key]()
	}
	if has(gang.RoomFreed | gang.SearchDiffers) {
		o.Changes++
	}
	if has(gang.HoldFreed) {
		o.Freed++
	}
	if has(gang.NodeFreed) {
		o.NodeFreed++
		a.second.RoomMoved()
	}
	for key, looks := range map[state.Key]bool{
		state.QuotaKey: has(gang.QuotaFreed) && len(a.tr.Quota.Pods) > 0, state.BlockedKey: has(gang.HoldFreed|gang.HeldTried) && len(a.tr.WaitList.Held.Pods) > 0,
		state.NodeGroupsKey: has(gang.GroupsChanged) && len(a.tr.Quota.Grouped) > 0,
	} {
		if looks {
			o.Looks.Insert(key)
		}
	}
	if has(gang.PodsReady) {
		o.Later[state.ReadyKey] = a.clock.Now().Add(e.Tried)
	}
	if waits := keyNamed("waits"); toWake.Has(waits) && !a.tr.Gangs[waits].Refusal.Woken {
		o.Woken.Insert(waits)
		at := a.clock.Now().Add(max(state.WakeDelay, a.tr.Gangs[waits].Refusal.NextAt.Sub(a.clock.Now())))
		if look, later := o.Later[waits]; !later || at.Before(look) {
			o.Later[waits] = at
		}
	}
}

// TestWhateverIsAppliedIsPassedOn applies random effects to gangs of all kinds, after random calls of the book. All that follows from them is
// there afterwards, and nothing else.
func TestWhateverIsAppliedIsPassedOn(t *testing.T) {
	mustertesting.Histories(t, 1000, func(r *rapid.T) {
		a := newApplied(t, r)
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			a.prepare()
			name := rapid.SampledFrom(append(slices.Clone(appliedGangs), "")).Draw(r, "gang")
			e := gang.Effects{Again: time.Duration(rapid.IntRange(1, 60).Draw(r, "again")) * time.Second, Tried: time.Duration(rapid.IntRange(1, 60).Draw(r, "tried")) * time.Second}
			for bit := range 15 {
				if rapid.IntRange(0, 4).Draw(r, "effect") == 0 {
					e.What |= 1 << bit
				}
			}
			want := a.expects(a.sees(), name, e)
			a.tr.Apply(a.tr.Gangs[keyNamed(name)], e)
			if !assert.Equal(r, want, a.sees()) {
				r.Fatalf("%s, effects %015b", name, e.What)
			}
			a.clock.Step(time.Duration(rapid.IntRange(0, 2).Draw(r, "minutes")) * time.Minute)
		}
	})
}
