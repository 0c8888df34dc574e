package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
)

// phase says what happens to a gang.
type phase int

const (
	// idle: nothing is going on; a scout may have the gang judged.
	idle phase = iota
	// admitted: judged, promised; the chosen members are on their way.
	admitted
)

// group is a gang and what is going on with it.
type group struct {
	gang.Gang
	key      Key
	known    bool      // the PodGroup exists
	uid      types.UID // of the PodGroup
	version  string    // resourceVersion of the PodGroup
	queue    string
	class    string // priority class of the PodGroup
	pgPhase  schedulingv1beta1.PodGroupPhase
	failed   int32     // members that have failed, as the PodGroup's status says
	job      types.UID // the Job that the PodGroup is of; "" if it is of none
	vouched  bool      // a member has shown that the PodGroup is admitted
	reached  bool      // the minimum of the current incarnation was bound once, as was seen or as the PodGroup's status says
	bound    int64     // the last incarnation whose minimum was bound, as the PodGroup's status says; -1 if none was
	since    time.Time
	priority *int32                    // of the whole gang, fixed when its gate opens first
	requests map[string]resources.List // task -> what the last of its members requests

	phase    phase
	scout    types.UID                 // the one member that may pass the gate while the gang is idle
	called   time.Time                 // idle: since when the scout is expected; zero if it is not
	relieved bool                      // idle: an earlier scout did not come in time, and may come yet
	missed   bool                      // idle: the last look found that nobody is expected though the gang could be judged
	chosen   map[types.UID]string      // admitted: the members still to come, and the node planned for each ("" = any)
	planned  map[string]resources.List // admitted: what is promised on each node and not reserved yet
	rest     resources.List            // admitted: what the chosen members request in all
	sure     bool                      // admitted: the plan has a place for each member
	turns    []types.UID               // admitted: the chosen members in the order in which they must come; nil for any order
	deadline time.Time                 // admitted: when the promise expires

	judged     time.Time        // when it was judged last
	helped     time.Time        // when it was judged last because something had happened
	labour     time.Duration    // parked: how long that took, if it is to be spared
	told       string           // what was reported about the last judgement
	toldReason string           // the reason that goes with it
	toldAt     time.Time        // since when
	retell     time.Time        // when to judge again for the sake of the report
	parked     bool             // the scout waits for an event
	changes    int              // how often what it is judged by has changed
	rejectors  sets.Set[string] // parked: the plugins that stood in the way
	rejected   []*corev1.Pod    // parked: the pod that they rejected, and one of each other kind
	shortfall  *plan.Shortfall  // parked: what must come free at least; nil if that is not known
	pin        bool             // the next round goes exactly where the plan says
	failures   int              // rounds in a row in which a judgement turned out wrong
	notBefore  time.Time        // backing off until then

	wasSeated    bool                // the surplus was let in
	turnedAway   bool                // the gate was closed to a member since then
	milestones   milestones          // what is timed
	allowed      sets.Set[types.UID] // those of its reserved members that Permit has let go: they are being bound
	doomed       sets.Set[types.UID] // those of its members that hold room which the waker has decided to reject
	rebinding    sets.Set[types.UID] // members whose binding failed and that were not tried again yet
	bindFailures int                 // in a row, since the gang was bound as a whole
	sweep        bool                // members may have slipped into Permit's waiting room behind the release
	brokenSince  time.Time           // bound below the minimum since then
	hearsUntil   time.Time           // a bound member has ended: until then the PodGroup's status may say how

	joined       time.Time // when the last member came
	lookedFor    bool      // the reporter is about to look
	verdict      verdict   // as the reporter found it last
	verdictSince time.Time // since when it stands
	reported     verdict   // what the members' conditions say, or will when the reporter is done
	reportedAt   time.Time // since when
	reportWhole  bool      // all members carry it
	announced    verdict   // what the last event says
	announcedAt  time.Time // since when
	short        shortage  // of room
	lack         quotaShortage
	asideVersion int // admitted: what was set aside for others at the time
}

// share has a member point to the same requests as its fellows, which are alike as a rule: a list is larger than all else that is
// known of a member.
func (g *group) share(m *gang.Member) {
	if like := g.requests[m.Task]; like.Equal(m.Requests) {
		m.Requests = like
		return
	}
	if g.requests == nil {
		g.requests = map[string]resources.List{}
	}
	g.requests[m.Task] = m.Requests
}
