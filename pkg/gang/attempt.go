package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
)

// Attempt is a scheduling attempt. It begins with the decision that gave the gang places. It ends when all members hold room, or is rolled
// back.
type Attempt struct {
	ToCome   map[types.UID]string      // the chosen members that hold no room yet, and the node of each ("" = any)
	Assumed  map[string]resources.List // on each node, for members that are still to come
	Quota    resources.List            // what these members request in all
	Certain  bool                      // the decision had a place for each member
	Exact    bool                      // each member must go to its node
	Order    []types.UID               // the members to come in the order in which they must come; nil for any order
	Failed   sets.Set[types.UID]       // members whose binding failed and that were not tried again yet
	Deadline time.Time                 // when the attempt is rolled back
	StartAt  time.Time                 // the attempt pauses until then
	Leaves   sets.Set[int]             // the versions of the reservations that it leaves alone
	Seat     *Seat                     // the evictions that make its room; nil if there are none
}

// Evicts says whether the members wait until pods have gone.
func (a *Attempt) Evicts() bool { return a.Seat != nil && a.Seat.RetryUntil.IsZero() }

// IsNext says whether a chosen member may be tried now, by the order of the attempt.
func (a *Attempt) IsNext(uid types.UID) bool { return len(a.Order) == 0 || a.Order[0] == uid }

// Assume adds a member that is still to come, on a node ("" for any).
func (a *Attempt) Assume(m *Member, node string) {
	a.ToCome[m.UID] = node
	if node != "" {
		sum := a.Assumed[node].Clone()
		sum.Add(m.Requests)
		a.Assumed[node] = sum
	}
	a.Quota.Add(m.Requests)
}

// Take ends the assumption for a member that holds room now. It returns false for a member that was not to come.
func (a *Attempt) Take(m *Member) bool {
	node, ok := a.ToCome[m.UID]
	if !ok {
		return false
	}
	delete(a.ToCome, m.UID)
	if i := slices.Index(a.Order, m.UID); i == 0 {
		a.Order = a.Order[1:]
	} else if i > 0 { // another client has bound it before its turn
		a.Order = slices.Delete(a.Order, i, i+1)
	}
	if node != "" {
		rest := a.Assumed[node].Clone()
		rest.Sub(m.Requests)
		a.Assumed[node] = rest
		if rest.IsZero() {
			delete(a.Assumed, node)
		}
	}
	a.Quota.Sub(m.Requests)
	return true
}

// NewAttempt makes an attempt without members.
func NewAttempt() *Attempt {
	return &Attempt{ToCome: map[types.UID]string{}, Assumed: map[string]resources.List{}, Quota: resources.List{}, Failed: sets.New[types.UID]()}
}

// Requests is what some members request in all.
func Requests(members []*Member) resources.List {
	sum := resources.List{}
	for _, m := range members {
		sum.Add(m.Requests)
	}
	return sum
}

// Pods are the pods of some members.
func Pods(members []*Member) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		out = append(out, m.Pod)
	}
	return out
}

// Seat is room that evictions make for a gang. Its attempt has begun, so that the room is assumed for it; the members come when its victims
// have gone.
type Seat struct {
	Leaving sets.Set[types.UID] // pods that have not gone yet
	Until   time.Time           // the attempt is rolled back if the victims are still there then
	Within  time.Duration       // after one has gone the next must go within this time
	Message string              // what the members wait for
	// RetryUntil is until when the scheduler's cache may still show the victims. A pod that finds no room before has only come too early. It is
	// zero while victims are there.
	RetryUntil time.Time
}
