package placement

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/resources"
)

// maxStarts is the number of ends after which a placement is tried each time. After that, twice as many ends are skipped from one try to the next.
const maxStarts = 8

// ending is a pod on a node that is expected to end, or a reservation whose gang will have ended. It may also be the end of pods that are on no node
// any more.
type ending struct {
	at    time.Time
	node  int
	pod   fwk.PodInfo // nil for the others
	frees resources.List
}

// StartOf finds places for a gang that lacks quota, and when it will have both. It is nil if that is not known, as for a gang with a topology.
func (p *Planner) StartOf(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo) *Places {
	if problem.Topology != nil {
		return nil
	}
	v := problem.on(ctx, p.profile, membersOf(p.profile, problem.Members), problem.within(nodes))
	return v.earliest(problem, v.reservedPlaces(problem.Reserved))
}

// earliest finds places for the members when they first fit and have quota. It goes by the expected ends of pods of any priority. It is nil if there
// are none.
func (v *view) earliest(p *Problem, before [][]Place) *Places {
	if p.EndOf == nil || p.NoStart {
		return nil
	}
	later := v.whatIf()
	ends := v.endings(p, later)
	room, quota := newRoomCount(later), v.quotaLater(p)
	tries, next := 0, 0
	for i := 0; i < len(ends); {
		at, lackedQuota := ends[i].at, quota != nil && !quota.Suffices()
		for ; i < len(ends) && ends[i].at.Equal(at); i++ {
			later.end(ends[i])
			room.count(ends[i].node)
			if pod := ends[i].pod; pod != nil && quota != nil {
				quota.End(pod.GetPod().UID)
			}
		}
		if i < next && i < len(ends) || !room.isEnough() || quota != nil && !quota.Suffices() {
			continue
		}
		if places, ok := v.placesIn(later, nil, before); ok {
			own := lackedQuota && quota.IsOwn() || later.awaitsOwn(p, places, ends[:i])
			return &Places{Of: v.nodesOf(places), Start: at, AwaitsOwn: own}
		}
		if tries++; tries > maxStarts {
			next = i + 1<<min(tries-maxStarts, 20)
		}
	}
	return nil
}

// quotaLater is the quota of the gang, nil if it has some now. Pods that are on no node any more have given theirs back, though the queue may still count it.
func (v *view) quotaLater(p *Problem) Quota {
	if p.Quota == nil {
		return nil
	}
	quota, running := p.Quota(), sets.New[types.UID]()
	for _, info := range v.infos {
		for _, pod := range info.GetPods() {
			running.Insert(pod.GetPod().UID)
		}
	}
	for _, pod := range quota.Pods() {
		if !running.Has(pod) {
			quota.End(pod)
		}
	}
	return quota
}

// endings are what ends on the nodes, the first first. Room that is held without an end is not given back. later has the room that is kept for
// other gangs taken, as long as these are expected to run.
func (v *view) endings(p *Problem, later *view) (ends []ending) {
	for n, info := range v.infos {
		free := later.nodes[n].Free
		free.Add(v.held[n])
		free.Sub(p.Held[v.nodes[n].Name])
		for _, kept := range p.Kept {
			amounts := only(v.names, kept.Amounts[v.nodes[n].Name])
			if len(amounts) == 0 {
				continue
			}
			free.Sub(amounts)
			if !kept.Until.IsZero() {
				ends = append(ends, ending{at: kept.Until, node: n, frees: amounts})
			}
		}
		for _, pod := range info.GetPods() {
			if p.SameGang != nil && p.SameGang(pod.GetPod()) {
				continue
			}
			if end, known := p.EndOf(pod.GetPod()); known {
				if end.Before(p.Now) {
					end = p.Now
				}
				ends = append(ends, ending{end, n, pod, freedBy(pod, v.names)})
			}
		}
	}
	if p.Quota != nil && len(v.nodes) > 0 {
		ends = append(ends, ending{at: p.Now}) // those on no node any more
	}
	slices.SortStableFunc(ends, func(a, b ending) int { return a.at.Compare(b.at) })
	return ends
}

// end counts something as ended.
func (v *view) end(e ending) {
	if e.pod != nil {
		v.remove(e.node, e.pod, e.frees)
		return
	}
	v.nodes[e.node].Free.Add(e.frees)
}

// awaitsOwn says whether the members wait for pods of the gang's own queue last. Others are waited for if they end at the same time.
func (v *view) awaitsOwn(p *Problem, places [][]Place, ended []ending) bool {
	if p.OwnQueue == nil {
		return false
	}
	isOwn := func(e ending) bool { return e.pod != nil && p.OwnQueue(e.pod.GetPod()) }
	isOther := func(e ending) bool { return !isOwn(e) }
	return v.lastNeeded(places, ended, isOwn).After(v.lastNeeded(places, ended, isOther))
}

// lastNeeded is when the last of the selected endings comes without which the members do not fit in their places. The view has counted all
// of them already. It is zero if none is needed.
func (v *view) lastNeeded(places [][]Place, ended []ending, selected func(ending) bool) time.Time {
	left, names := map[int]resources.List{}, resources.List{}
	for d := range places {
		names.Add(v.demands[d].Requests)
		for _, place := range places[d] {
			if left[place.Node] == nil {
				left[place.Node] = v.nodes[place.Node].Free.Clone()
			}
			left[place.Node].Sub(v.demands[d].Requests.Scale(int64(place.Count)))
		}
	}
	for _, e := range slices.Backward(ended) {
		free, used := left[e.node]
		if !used || !selected(e) {
			continue
		}
		free.Sub(e.frees)
		for name := range names {
			if names[name] > 0 && free[name] < 0 {
				return e.at
			}
		}
	}
	return time.Time{}
}

// roomCount counts the pods of each demand that there is room for. More may keep them out.
type roomCount struct {
	*view
	slots [][]int // of each demand, on each node
	sums  []int   // of each demand
}

func newRoomCount(v *view) *roomCount {
	r := &roomCount{view: v, sums: make([]int, len(v.demands))}
	for range v.demands {
		r.slots = append(r.slots, make([]int, len(v.nodes)))
	}
	for n := range v.nodes {
		r.count(n)
	}
	return r
}

// count counts a node again.
func (r *roomCount) count(n int) {
	for d := range r.demands {
		slots := 0
		if !r.refuses(d, n) {
			if slots = Slots(r.demands[d], r.nodes[n].Free); slots > 0 && r.slots[d][n] == 0 {
				r.fits(d, n) // the node may refuse such pods, whatever room it has
				if r.refuses(d, n) {
					slots = 0
				}
			}
		}
		r.sums[d] += slots - r.slots[d][n]
		r.slots[d][n] = slots
	}
}

func (r *roomCount) isEnough() bool {
	for d := range r.demands {
		if r.sums[d] < r.demands[d].Count {
			return false
		}
	}
	return true
}
