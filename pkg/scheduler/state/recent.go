package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// goneFor is how long the Store remembers at least that a member was deleted: longer than the scheduling queue takes to hear
// of it.
const goneFor = time.Minute

// recent is a set that forgets what is old, in two halves of which the older is thrown away. The zero value is empty.
type recent struct {
	young, old sets.Set[types.UID]
	since      time.Time // when the young half was begun
}

// note adds a pod.
func (r *recent) note(uid types.UID, now time.Time) {
	if r.young == nil || now.Sub(r.since) > goneFor {
		r.old, r.young, r.since = r.young, sets.New[types.UID](), now
	}
	r.young.Insert(uid)
}

// forget takes a pod out.
func (r *recent) forget(uid types.UID) {
	r.young.Delete(uid)
	r.old.Delete(uid)
}

// has says whether a pod was added.
func (r *recent) has(uid types.UID) bool { return r.young.Has(uid) || r.old.Has(uid) }
