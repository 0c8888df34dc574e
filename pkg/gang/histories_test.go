package gang

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// histories is how many random histories the test goes through in continuous integration; with those of pkg/ledger 100,000.
const histories = 50_000

// model is a gang as one would count it by hand: a list of pods, and the PodGroup. It knows nothing of what the Gang keeps.
type model struct {
	spec     Spec
	podGroup types.UID
	pods     map[types.UID]Member
}

// counting are the pods that count and satisfy a predicate. They are of the latest incarnation and not being deleted.
func (o *model) counting(which func(State) bool) (total int, ofTask map[string]int) {
	latest, ofTask := o.latest(), map[string]int{}
	for _, pod := range o.pods {
		if pod.Version == latest && !pod.Terminating && which(pod.State) {
			total++
			ofTask[pod.Task]++
		}
	}
	return total, ofTask
}

// own are the pods that count and were bound for this PodGroup.
func (o *model) own() (total int) {
	for _, pod := range o.pods {
		if pod.Version == o.latest() && !pod.Terminating && pod.State == Bound && pod.BoundFor != "" && pod.BoundFor == o.podGroup {
			total++
		}
	}
	return total
}

func (o *model) latest() int64 {
	latest := int64(0)
	for _, pod := range o.pods {
		latest = max(latest, pod.Version)
	}
	return latest
}

// missing is how many pods are missing to the minimum and to the tasks' minimums. A succeeded pod fills any gap.
func (o *model) missing(which func(State) bool) int {
	total, ofTask := o.counting(which)
	sum, gaps := 0, 0
	for task, minimum := range o.spec.MinTaskMember {
		sum += minimum
		gaps += max(0, minimum-ofTask[task])
	}
	if sum > o.spec.MinMember {
		gaps = 0 // the minimums of the tasks do not bind
	}
	succeeded := o.spec.Succeeded
	if o.spec.SucceededOf < o.latest() {
		succeeded = 0 // they were of an earlier incarnation
	}
	if short := max(0, o.spec.MinMember-total-succeeded, gaps-succeeded); short > 0 {
		return short
	}
	return max(0, o.missingInGroups(which)-succeeded)
}

// missingInGroups is how many pods are missing to two pods in each of so many groups. The fullest groups are completed.
func (o *model) missingInGroups(which func(State) bool) (missing int) {
	for _, policy := range o.spec.Groups {
		inGroup := map[string]int{}
		for _, pod := range o.pods {
			if pod.Version == o.latest() && !pod.Terminating && which(pod.State) {
				inGroup[groupLabel(pod.UID)]++
			}
		}
		sizes := slices.Sorted(maps.Values(inGroup))
		for n := range policy.Least {
			has := 0
			if n < len(sizes) {
				has = sizes[len(sizes)-1-n]
			}
			missing += max(0, policy.Size-has)
		}
	}
	return missing
}

// groupLabel puts the pods with the numbers 0 to 7 into three groups.
func groupLabel(uid types.UID) string { return fmt.Sprint((uid[len(uid)-1] - '0') / 3) }

func anyState(State) bool      { return true }
func hasRoom(state State) bool { return state == Reserved || state == Released || state == Bound }
func waits(state State) bool   { return state == Waiting }
func isThere(state State) bool { return state == Bound }

// TestHistories drives a gang through random histories. Pods come, change, are reserved, released, bound, deleted and gone, in old and new
// incarnations under the same names. The minimums and successes of the PodGroup change, and it is deleted and made again. After each step all
// answers are those of the model. At the end the chosen members are just enough.
func TestHistories(t *testing.T) {
	mustertesting.Histories(t, histories, func(t *rapid.T) {
		h := &history{t: t, gang: &Gang{}, model: &model{pods: map[types.UID]Member{}}}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h.step()
			h.compare()
		}
		h.start()
	})
}

type history struct {
	t     *rapid.T
	gang  *Gang
	model *model
}

func (h *history) draw(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(h.t, label)
}

func (h *history) step() {
	uid := types.UID(fmt.Sprint("pod-", h.draw("uid", 0, 7)))
	known, exists := h.model.pods[uid]
	switch event := h.draw("event", 0, 8); {
	case event == 0:
		h.changeSpec()
	case event == 8:
		h.model.podGroup = h.drawPodGroup()
		h.gang.BelongTo(h.model.podGroup)
	case !exists || event == 1:
		h.put(Member{UID: uid, Task: []string{"a", "b", "c"}[h.draw("task", 0, 2)], Version: int64(h.draw("version", 0, 2)),
			Priority: int32(h.draw("priority", 0, 1)), State: []State{Waiting, Waiting, Bound}[h.draw("seen", 0, 2)], BoundFor: h.drawPodGroup()})
	case event == 2:
		h.gang.Remove(uid)
		delete(h.model.pods, uid)
	case event == 3:
		known.Terminating = true
		h.put(known)
	case event == 4: // the API says the same once more
		known.State = map[bool]State{true: Bound, false: Waiting}[known.State == Bound]
		h.put(known)
	default:
		known.State = State(h.draw("state", 0, int(Returning)))
		h.model.pods[uid] = known
		h.gang.SetState(h.gang.Member(uid), known.State)
	}
}

// drawPodGroup is none, or one of two of the same name.
func (h *history) drawPodGroup() types.UID {
	return []types.UID{"", "first", "second"}[h.draw("podGroup", 0, 2)]
}

// put is an event of a pod. A pod that holds room keeps its state until it is seen bound.
func (h *history) put(m Member) {
	if old, exists := h.model.pods[m.UID]; exists && old.State != Bound && m.State == Waiting {
		m.State = old.State
	}
	h.model.pods[m.UID] = m
	m.Pod = podNamed(m.UID)
	h.gang.Put(&m)
}

func (h *history) changeSpec() {
	h.model.spec = Spec{
		MinMember: h.draw("minMember", 0, 6), Succeeded: h.draw("succeeded", 0, 2), SucceededOf: int64(h.draw("succeededOf", 0, 2)),
		MinTaskMember: map[string]int{"a": h.draw("minA", 0, 2), "b": h.draw("minB", 0, 2)},
	}
	if least := h.draw("least groups", 0, 6); least > 3 {
		h.model.spec.Groups = []GroupPolicy{{Size: h.draw("size", 1, 3), Least: least - 3, selector: labels.Everything(), keys: []string{"group"}, asks: true}}
	}
	h.gang.Spec = Spec{MinMember: h.model.spec.MinMember, Succeeded: h.model.spec.Succeeded, SucceededOf: h.model.spec.SucceededOf, MinTaskMember: maps.Clone(h.model.spec.MinTaskMember), Groups: h.model.spec.Groups}
	h.gang.recount()
}

func (h *history) compare() {
	g, o := h.gang, h.model
	waiting, _ := o.counting(waits)
	there, _ := o.counting(isThere)
	reserved := 0
	for _, pod := range o.pods {
		if pod.State == Reserved {
			reserved++
		}
	}
	seated := o.missing(hasRoom) == 0
	for _, answer := range []struct {
		name      string
		got, want any
	}{
		{"Len", g.Len(), len(o.pods)},
		{"missing", g.shortOf(all), o.missing(anyState)},
		{"Complete", g.Complete(), o.missing(anyState) == 0},
		{"Seated", g.Seated(), seated},
		{"Partial", g.Partial(), o.own() > 0 && !seated},
		{"Own", len(g.Own()), o.own()},
		{"CountWaiting", g.CountWaiting(), waiting},
		{"CountIn(Reserved)", g.CountIn(Reserved), reserved},
		{"Waiting", len(g.Waiting()), waiting},
		{"In(Reserved)", len(g.In(Reserved)), reserved},
		{"Bound", len(g.Bound()), there},
	} {
		if answer.got != answer.want {
			h.t.Fatalf("%s is %v, counted by hand %v", answer.name, answer.got, answer.want)
		}
	}
}

// start reserves the members that are chosen. They seat the gang, if enough exist, and none of them is one too many.
func (h *history) start() {
	g, o := h.gang, h.model
	chosen := g.Choose()
	enough := o.missing(func(s State) bool { return hasRoom(s) || waits(s) }) == 0
	if wanted := !g.Seated() && enough; wanted != (len(chosen) > 0) && (len(g.Groups) == 0 || !wanted) { // a group that is not whole may have to wait
		h.t.Fatalf("%d members are chosen of a gang that is complete: %v, seated: %v", len(chosen), g.Complete(), g.Seated())
	}
	if len(chosen) > 0 && !g.SeatedWith(chosen) {
		h.t.Fatalf("the chosen members do not seat the gang")
	}
	for _, m := range chosen {
		others := slices.DeleteFunc(slices.Clone(chosen), func(other *Member) bool { return other == m })
		if g.SeatedWith(others) && len(g.Groups) == 0 {
			h.t.Fatalf("%s is one too many", m.UID)
		}
	}
	for _, m := range chosen {
		if m.State != Waiting || !g.Counts(m) {
			h.t.Fatalf("%s is chosen though it does not wait or does not count", m.UID)
		}
		pod := o.pods[m.UID]
		pod.State = Reserved
		o.pods[m.UID] = pod
		g.SetState(m, Reserved)
	}
	if len(chosen) > 0 && o.missing(hasRoom) > 0 {
		h.t.Fatalf("the chosen members hold room, and by hand %d are missing", o.missing(hasRoom))
	}
	h.compare()
}

func podNamed(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), Labels: map[string]string{"group": groupLabel(uid)}}}
}
