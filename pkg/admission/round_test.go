package admission

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

func named(candidates []*Candidate) (names []string) {
	for _, c := range candidates {
		names = append(names, c.Group.Name)
	}
	return names
}

// decide decides about candidates in the order given, and keeps room for each that is admitted.
func (s *fixture) decide(candidates ...*Candidate) []Decision {
	var decisions []Decision
	next := 0
	for _, d := range s.round().decide(func() *Candidate {
		if next == len(candidates) {
			return nil
		}
		next++
		return candidates[next-1]
	}, func(c *Candidate) { s.books.Assume(c.Key, c.Account, c.Lacks) }) {
		decisions = append(decisions, d.Decision)
	}
	return decisions
}

func TestTurns(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	waiting := func(name string, created time.Time, priority int32) *Candidate {
		c := NewCandidate(mustertesting.MakePodGroup(name).Created(created).Obj())
		c.Rank.Priority = priority
		return c
	}
	inTurn := []*Candidate{
		waiting("important", late, 5),
		waiting("early", early, 0),
		waiting("late a", late, 0),
		waiting("late b", late, 0),
		waiting("below all", early, -1),
	}
	for seed := range int64(20) {
		shuffled := slices.Clone(inTurn)
		rand.New(rand.NewSource(seed)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		slices.SortFunc(shuffled, byTurn)
		require.Equal(t, named(inTurn), named(shuffled))
	}
}

// fixture is a set of queues and a ledger that candidates are admitted to.
type fixture struct {
	books  *ledger.Ledger
	queues Queues
	total  resources.List
	factor float64
	shares quota.Shares
	units  []Evictable
}

func newFixture(queues ...*schedulingv1beta1.Queue) *fixture {
	s := &fixture{books: ledger.New(), queues: Queues{}}
	for _, queue := range queues {
		queue.Status.State = schedulingv1beta1.QueueStateOpen
		s.queues[queue.Name] = queue
		s.books.SetQueue(queue)
	}
	return s
}

// round is a round on what the fixture has.
func (s *fixture) round() *Round {
	return &Round{
		Now: time.Unix(100_000, 0), Queues: s.queues, Tree: s.books.Snapshot(), Shares: s.shares, Nodes: s.total, Overcommit: s.factor,
		Units: func() []Evictable { return s.units },
	}
}

func wants(name, queue, cpu string) *Candidate {
	return NewCandidate(mustertesting.MakePodGroup(name).Queue(queue).MinResources("cpu", cpu).Obj())
}

// overdue is a candidate whose waiting time is over.
func overdue(name, queue, cpu string) *Candidate {
	c := wants(name, queue, cpu)
	c.WaitingTime = time.Nanosecond
	return c
}

// anew is a candidate whose members have a part of its minimum already.
func anew(name, queue, cpu, lacking string) *Candidate {
	c := wants(name, queue, cpu)
	c.Lacks = wants(name, queue, lacking).Want
	return c
}

// impatient is a candidate that other candidates have passed for long enough.
func impatient(name, queue, cpu string) *Candidate {
	c := wants(name, queue, cpu)
	c.Turn = time.Minute
	return c
}

func TestDecide(t *testing.T) {
	traverse := mustertesting.MakeQueue("t").Capability("cpu", "4").Obj()
	fifo := mustertesting.MakeQueue("f").Capability("cpu", "4").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	parent := mustertesting.MakeQueue("p").Capability("cpu", "4").Obj()
	left := mustertesting.MakeQueue("l").Parent("p").Obj()
	right := mustertesting.MakeQueue("r").Parent("p").Obj()
	narrow := mustertesting.MakeQueue("n").Parent("p").Capability("cpu", "1").Obj()

	tests := map[string]struct {
		candidates []*Candidate
		factor     float64
		want       []string // "" for admitted
	}{
		"each sees what was admitted before it": {
			candidates: []*Candidate{wants("a", "t", "3"), wants("b", "t", "2"), wants("c", "t", "1")},
			want:       []string{"", `queue "t" has 1 cpu free of its capability, 2 needed`, ""},
		},
		"members that are bound already need no room a second time": {
			candidates: []*Candidate{wants("a", "t", "1"), anew("b", "t", "4", "3"), anew("c", "t", "5", "1")},
			want:       []string{"", "", `can never fit queue "t": 5 cpu asked, its capability is 4`},
		},
		"first in, first out: a blocked one holds up the queue": {
			candidates: []*Candidate{wants("a", "f", "3"), wants("b", "f", "2"), wants("c", "f", "1"), wants("d", "t", "1")},
			want: []string{"", `queue "f" has 1 cpu free of its capability, 2 needed`,
				`queue "f" is first in, first out, and a PodGroup that comes first is still waiting there`, ""},
		},
		"what can never fit says so at once, wherever it is in the queue": {
			candidates: []*Candidate{wants("a", "f", "3"), wants("b", "f", "2"), wants("c", "f", "5")},
			want:       []string{"", `queue "f" has 1 cpu free of its capability, 2 needed`, `can never fit queue "f": 5 cpu asked, its capability is 4`},
		},
		"whose waiting time is over is let in without room": {
			candidates: []*Candidate{wants("a", "f", "3"), wants("b", "f", "2"), overdue("c", "f", "2"), wants("d", "f", "1")},
			want: []string{"", `queue "f" has 1 cpu free of its capability, 2 needed`, "",
				`queue "f" is first in, first out, and a PodGroup that comes first is still waiting there`},
		},
		"what can never fit is not let in after any time": {
			candidates: []*Candidate{overdue("a", "t", "5")},
			want:       []string{`can never fit queue "t": 5 cpu asked, its capability is 4`},
		},
		"siblings share what their parent has": {
			candidates: []*Candidate{wants("a", "l", "3"), wants("b", "r", "2"), wants("c", "r", "1")},
			want:       []string{"", `queue "p" has 1 cpu free of its capability, 2 needed`, ""},
		},
		"none behind an impatient one takes what it lacks": {
			candidates: []*Candidate{wants("a", "t", "2"), impatient("b", "t", "3"), wants("c", "t", "1"), wants("d", "f", "1")},
			want: []string{"", `queue "t" has 2 cpu free of its capability, 3 needed`,
				`queue "t" has 2 cpu free of its capability, 1 needed; quota is reserved for a gang that has waited longer`, ""},
		},
		"nor does a sibling, if it is the parent that has no room": {
			candidates: []*Candidate{wants("a", "l", "2"), impatient("b", "l", "3"), wants("c", "r", "1")},
			want: []string{"", `queue "p" has 2 cpu free of its capability, 3 needed`,
				`queue "p" has 2 cpu free of its capability, 1 needed; quota is reserved for a gang that has waited longer`},
		},
		"an impatient one that fits needs no claim": {
			candidates: []*Candidate{impatient("a", "t", "3"), wants("b", "t", "1")},
			want:       []string{"", ""},
		},
		"a candidate that can never fit blocks none": {
			candidates: []*Candidate{impatient("a", "t", "5"), wants("b", "t", "1")},
			want:       []string{`can never fit queue "t": 5 cpu asked, its capability is 4`, ""},
		},
		"a candidate larger than the cluster blocks none": {
			candidates: []*Candidate{impatient("a", "l", "3"), wants("b", "l", "1")},
			factor:     1.2,
			want:       []string{"the minimum needs 3 cpu, more than 1.2 times the 2 that all nodes have together", ""},
		},
		"of two impatient ones the first in turn comes first": {
			candidates: []*Candidate{wants("a", "t", "2"), impatient("b", "t", "4"), impatient("c", "t", "2")},
			want: []string{"", `queue "t" has 2 cpu free of its capability, 4 needed`,
				`queue "t" has 2 cpu free of its capability, 2 needed; quota is reserved for a gang that has waited longer`},
		},
		"what one cannot use of the parent is kept for another": {
			candidates: []*Candidate{wants("a", "n", "1"), impatient("b", "n", "1"), impatient("c", "l", "4"), wants("d", "r", "1")},
			want: []string{"", `queue "n" has 0 cpu free of its capability, 1 needed`, `queue "p" has 3 cpu free of its capability, 4 needed`,
				`queue "p" has 3 cpu free of its capability, 1 needed; quota is reserved for a gang that has waited longer`},
		},
		"an amount too large to count blocks none, not even its queue": {
			candidates: []*Candidate{wants("a", "f", "1e999"), wants("b", "f", "10000000000000000"), impatient("c", "f", "8Ei"), wants("d", "f", "1")},
			want: []string{
				"the minimum asks for 4611686018427387904m or more of cpu, which no cluster has: see minResources and minMember",
				"the minimum asks for 4611686018427387904m or more of cpu, which no cluster has: see minResources and minMember",
				"the minimum asks for 4611686018427387904m or more of cpu, which no cluster has: see minResources and minMember", "",
			},
		},
		"less than nothing is nothing": {
			candidates: []*Candidate{wants("a", "t", "-8"), wants("b", "t", "4"), wants("c", "t", "1")},
			want:       []string{"", "", `queue "t" has 0 cpu free of its capability, 1 needed`},
		},
		"no such queue": {
			candidates: []*Candidate{wants("a", "x", "3")},
			want:       []string{`queue "x" does not exist`},
		},
		"far more than the cluster has": {
			candidates: []*Candidate{wants("a", "l", "3"), wants("b", "l", "2400m"), wants("c", "t", "2400m")},
			factor:     1.2,
			want: []string{"the minimum needs 3 cpu, more than 1.2 times the 2 that all nodes have together", "",
				""},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFixture(traverse, fifo, parent, left, right, narrow)
			s.total, s.factor = resources.List{corev1.ResourceCPU: 2000}, test.factor
			var got []string
			for _, v := range s.decide(test.candidates...) {
				require.Equal(t, !v.Admitted, v.isBlocked())
				message := ""
				if v.isBlocked() {
					message = v.blocker.reason.Error()
				}
				got = append(got, message)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// ofUser is a candidate of a user of queue "t".
func ofUser(user, name, cores string) *Candidate {
	return NewCandidate(mustertesting.MakePodGroup(name).Queue("t").User(user).MinResources("cpu", cores).Obj())
}

// TestUsersOfAQueue: a user's part of a queue is limited. A candidate that this limit blocks, blocks only candidates of the same user.
func TestUsersOfAQueue(t *testing.T) {
	for name, c := range map[string]struct {
		strategy   schedulingv1beta1.DequeueStrategy
		candidates []*Candidate
		want       []string
	}{
		"each has the default": {
			schedulingv1beta1.DequeueStrategyTraverse,
			[]*Candidate{ofUser("ann", "a1", "2"), ofUser("ann", "a2", "1"), ofUser("bob", "b1", "2"), ofUser("bob", "b2", "1")},
			[]string{"", `user "ann" of queue "t" has 0 cpu free of its quota, 1 needed`, "", `user "bob" of queue "t" has 0 cpu free of its quota, 1 needed`},
		},
		"one has more": {
			schedulingv1beta1.DequeueStrategyTraverse,
			[]*Candidate{ofUser("boss", "a", "3"), ofUser("boss", "b", "2"), ofUser("boss", "c", "1")},
			[]string{"", `user "boss" of queue "t" has 1 cpu free of its quota, 2 needed`, ""},
		},
		"no user, no quota of a user": {
			schedulingv1beta1.DequeueStrategyTraverse,
			[]*Candidate{ofUser("", "a", "3"), ofUser("", "b", "3")},
			[]string{"", ""},
		},
		"the queue's capability holds for all of them": {
			schedulingv1beta1.DequeueStrategyTraverse,
			[]*Candidate{ofUser("boss", "a", "4"), ofUser("ann", "b", "2"), ofUser("bob", "c", "2")},
			[]string{"", "", `queue "t" has 0 cpu free of its capability, 2 needed`},
		},
		"more than the user's whole quota": {
			schedulingv1beta1.DequeueStrategyFIFO,
			[]*Candidate{ofUser("ann", "a1", "3"), ofUser("ann", "a2", "1")},
			[]string{`can never fit user "ann" of queue "t": 3 cpu asked, its quota is 2`, ""},
		},
		"more than the queue's whole capability is said first": {
			schedulingv1beta1.DequeueStrategyFIFO,
			[]*Candidate{ofUser("boss", "a", "3"), ofUser("boss", "b", "9")},
			[]string{"", `can never fit user "boss" of queue "t": 9 cpu asked, its quota is 4`},
		},
		"in fifo a user's quota holds up only that user": {
			schedulingv1beta1.DequeueStrategyFIFO,
			[]*Candidate{ofUser("ann", "a1", "1"), ofUser("ann", "a2", "2"), ofUser("ann", "a3", "1"), ofUser("bob", "b1", "1")},
			[]string{"", `user "ann" of queue "t" has 1 cpu free of its quota, 2 needed`,
				`queue "t" is first in, first out, and a PodGroup that comes first is still waiting there`, ""},
		},
		"in fifo the queue's capability blocks all": {
			schedulingv1beta1.DequeueStrategyFIFO,
			[]*Candidate{ofUser("boss", "a", "3"), ofUser("boss", "b", "1"), ofUser("ann", "c", "2"), ofUser("bob", "d", "2"), ofUser("ann", "e", "1")},
			[]string{"", "", "", `queue "t" has 0 cpu free of its capability, 2 needed`,
				`queue "t" is first in, first out, and a PodGroup that comes first is still waiting there`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			queue := mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "6").Dequeue(c.strategy).Obj()
			queue.Spec.Muster = &schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{
				Default: mustertesting.Resources("cpu", "2"),
				Users:   []schedulingv1beta1.NamedQuota{{Name: "boss", Quota: mustertesting.Resources("cpu", "4")}},
			}}
			var got []string
			for _, v := range newFixture(queue).decide(c.candidates...) {
				message := ""
				if v.isBlocked() {
					message = v.blocker.reason.Error()
				}
				got = append(got, message)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestAdmissionNeverExceedsACapability admits random PodGroups to random trees of queues, in rounds between which some go. No capability is
// exceeded. With traverse, none that fits is left out. With fifo, none passes another.
func TestAdmissionNeverExceedsACapability(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		s := newFixture(queues...)
		admittedCPU := map[string]*Candidate{}
		waiting := drawCandidates(t, queues)
		for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			decisions := s.decide(waiting...)
			var left []*Candidate
			for i, v := range decisions {
				if v.Admitted {
					admittedCPU[waiting[i].Key] = waiting[i]
				} else {
					left = append(left, waiting[i])
				}
			}
			checkCapabilities(t, s, admittedCPU)
			checkLeftOut(t, s, admittedCPU, waiting, decisions)
			waiting = left
			for _, key := range rapid.SliceOf(rapid.SampledFrom(keysOf(admittedCPU))).Draw(t, fmt.Sprint("gone", round)) {
				s.books.DropAssumed(key)
				delete(admittedCPU, key)
			}
		}
	})
}

// TestImpatientCandidatesAreAdmittedInTheEnd: any number come behind them in random trees of queues. Once the candidates that were admitted
// before are gone, impatient ones are admitted in sequence, if they fit at all.
func TestImpatientCandidatesAreAdmittedInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		for _, queue := range queues {
			queue.Spec.DequeueStrategy = schedulingv1beta1.DequeueStrategyTraverse // fifo lets none pass anyway
		}
		s := newFixture(queues...)
		before := map[string]*Candidate{}
		for _, c := range drawCandidates(t, queues) {
			if s.decide(c)[0].Admitted {
				before[c.Key] = c
			}
		}
		var waiting []*Candidate
		for i := range rapid.IntRange(1, 3).Draw(t, "impatient") {
			waiting = append(waiting, impatient(fmt.Sprint("first", i), rapid.SampledFrom(queues).Draw(t, "queue").Name,
				fmt.Sprint(rapid.IntRange(1, 12).Draw(t, "cpu"))))
		}
		for round, progress := 0, true; len(before) > 0 || progress; round++ {
			behind := drawCandidates(t, queues)
			for i, c := range behind {
				c.Key = fmt.Sprint("default/behind", round, "-", i) // they stay for ever
			}
			decisions := s.decide(slices.Concat(waiting, behind)...)
			left := slices.DeleteFunc(slices.Clone(waiting), func(c *Candidate) bool { return decisions[slices.Index(waiting, c)].Admitted })
			progress = len(left) < len(waiting)
			for i, c := range behind {
				// While an impatient one lacks room of its own queue only, others may take room above it. They end, like all that came before.
				if decisions[len(waiting)+i].Admitted && lacksOwnRoom(waiting, decisions, c.Queue) {
					s.books.DropAssumed(c.Key)
				}
			}
			for _, c := range waiting {
				s.books.DropAssumed(c.Key) // an admitted candidate runs and ends at once
			}
			waiting = left
			if len(before) > 0 {
				gone := rapid.SampledFrom(keysOf(before)[:len(before)]).Draw(t, "gone") // "none" comes last
				s.books.DropAssumed(gone)
				delete(before, gone)
				progress = true
			}
		}
		for _, c := range waiting {
			require.True(t, s.neverFits(c), "%s is not admitted although all that were before it are gone", c.Key)
		}
	})
}

// lacksOwnRoom says whether a waiting candidate of another queue than the given one lacks room of its own queue only.
func lacksOwnRoom(waiting []*Candidate, decisions []Decision, but string) bool {
	for i, c := range waiting {
		v := decisions[i]
		if v.isBlocked() && c.Queue != but && quota.QueueOf(v.blocker.kind.queue) == c.Queue {
			return true
		}
	}
	return false
}

func drawQueues(t *rapid.T) []*schedulingv1beta1.Queue {
	var queues []*schedulingv1beta1.Queue
	names := []string{"root"}
	for i := range rapid.IntRange(1, 6).Draw(t, "queues") {
		queue := mustertesting.MakeQueue(fmt.Sprint("q", i)).Parent(rapid.SampledFrom(names).Draw(t, "parent"))
		if rapid.Bool().Draw(t, "limited") {
			queue.Capability("cpu", fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "capability")))
		}
		if rapid.Bool().Draw(t, "fifo") {
			queue.Dequeue(schedulingv1beta1.DequeueStrategyFIFO)
		}
		queues = append(queues, queue.Obj())
		names = append(names, fmt.Sprint("q", i))
	}
	return queues
}

func drawCandidates(t *rapid.T, queues []*schedulingv1beta1.Queue) []*Candidate {
	var candidates []*Candidate
	for i := range rapid.IntRange(0, 15).Draw(t, "groups") {
		queue := rapid.SampledFrom(queues).Draw(t, "queue")
		candidates = append(candidates, wants(fmt.Sprint("g", i), queue.Name, fmt.Sprint(rapid.IntRange(0, 6).Draw(t, "cpu"))))
	}
	return candidates
}

func keysOf(candidates map[string]*Candidate) []string {
	keys := []string{"none"}
	for key := range candidates {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// path lists a queue and its ancestors below the root, as the queues declare them.
func (s *fixture) path(name string) (path []string) {
	for ; name != "root" && name != ""; name = s.queues[name].Spec.Parent {
		path = append(path, name)
	}
	return path
}

// cpuLimit returns the capability that a queue declares; false if it declares none.
func (s *fixture) cpuLimit(name string) (int64, bool) {
	limit, limited := s.queues[name].Spec.Capability[corev1.ResourceCPU]
	return limit.MilliValue(), limited
}

// usedCPU adds up what the admitted candidates want, for each queue and all queues below it. It does not ask the ledger.
func (s *fixture) usedCPU(admitted map[string]*Candidate) map[string]int64 {
	used := map[string]int64{}
	for _, c := range admitted {
		for _, name := range s.path(c.Queue) {
			used[name] += c.Want[corev1.ResourceCPU]
		}
	}
	return used
}

// fits tells whether a candidate stays within all capabilities beside the admitted ones.
func (s *fixture) fits(c *Candidate, admitted map[string]*Candidate) bool {
	used := s.usedCPU(admitted)
	for _, name := range s.path(c.Queue) {
		if limit, limited := s.cpuLimit(name); limited && used[name]+c.Want[corev1.ResourceCPU] > limit {
			return false
		}
	}
	return true
}

// neverFits tells whether a candidate exceeds a capability although nothing else is admitted.
func (s *fixture) neverFits(c *Candidate) bool { return !s.fits(c, nil) }

func checkCapabilities(t *rapid.T, s *fixture, admitted map[string]*Candidate) {
	used := s.usedCPU(admitted)
	for name := range s.queues {
		if limit, limited := s.cpuLimit(name); limited {
			require.LessOrEqual(t, used[name], limit, "queue %s", name)
		}
	}
}

func checkLeftOut(t *rapid.T, s *fixture, admitted map[string]*Candidate, candidates []*Candidate, decisions []Decision) {
	held := map[string]bool{}
	for i, v := range decisions {
		c := candidates[i]
		fifo := s.queues.isFIFO(c.Queue)
		if v.Admitted {
			require.False(t, fifo && held[c.Queue], "%s passed another one in a fifo queue", c.Key)
			continue
		}
		if !held[c.Queue] || !fifo {
			require.False(t, s.fits(c, admitted), "%s was left out and would fit", c.Key)
		}
		held[c.Queue] = held[c.Queue] || !s.neverFits(c) // a candidate that can never fit blocks none
	}
}

func TestBeyondCluster(t *testing.T) {
	total := resources.List{corev1.ResourceCPU: 10000, "nvidia.com/gpu": 0}
	assert.Nil(t, beyondCluster(resources.List{corev1.ResourceCPU: 12000}, nil, total, 1.2))
	assert.NotNil(t, beyondCluster(resources.List{corev1.ResourceCPU: 12001}, nil, total, 1.2))
	assert.NotNil(t, beyondCluster(resources.List{"nvidia.com/gpu": 1}, nil, total, 1.2))
	assert.NotNil(t, beyondCluster(resources.List{"example.com/fpga": 1}, nil, total, 1.2))
	assert.Nil(t, beyondCluster(resources.List{"example.com/fpga": 0}, nil, total, 1.2))
	assert.Nil(t, beyondCluster(resources.List{"example.com/fpga": 1}, nil, total, 0))
}

// TestTheClusterIsFullWithWhatOthersHave: where that counts. A candidate that is too large by itself says so, and first.
func TestTheClusterIsFullWithWhatOthersHave(t *testing.T) {
	total := resources.List{corev1.ResourceCPU: 10000, corev1.ResourceMemory: 100}
	others := resources.Sums{}
	others.Add(resources.List{corev1.ResourceCPU: 9000, corev1.ResourcePods: 5})
	assert.Nil(t, beyondCluster(resources.List{corev1.ResourceCPU: 3000, corev1.ResourcePods: 0}, others, total, 1.2))
	full := beyondCluster(resources.List{corev1.ResourceCPU: 3001}, others, total, 1.2)
	require.NotNil(t, full)
	assert.False(t, full.isForEver())
	assert.False(t, text.RulesOut(full.Error()))
	assert.Equal(t, "the minimum needs 3001m cpu, and 9 are used or kept for admitted PodGroups: together more than 1.2 times the 10 that all nodes have together", full.Error())
	forEver := beyondCluster(resources.List{corev1.ResourceCPU: 3001, corev1.ResourceMemory: 121}, others, total, 1.2)
	require.NotNil(t, forEver)
	assert.True(t, forEver.isForEver())
	assert.True(t, text.RulesOut(forEver.Error()))
	assert.Equal(t, "the minimum needs 121 memory, more than 1.2 times the 100 that all nodes have together", forEver.Error())
}

// TestTheTimeUntilAPodGroupIsOverdue: from its creation. A wrong annotation is told with what keeps the PodGroup out.
func TestTheTimeUntilAPodGroupIsOverdue(t *testing.T) {
	created := time.Unix(1000, 0)
	candidateWith := func(text string) *Candidate {
		group := mustertesting.MakePodGroup("g").Obj()
		group.CreationTimestamp, group.Annotations = metav1.NewTime(created), map[string]string{"volcano.sh/sla-waiting-time": text}
		return NewCandidate(group)
	}
	c := candidateWith("10m")
	assert.Equal(t, 4*time.Minute, c.UntilOverdue(created.Add(6*time.Minute)))
	assert.Zero(t, c.UntilOverdue(created.Add(10*time.Minute)))
	assert.Equal(t, "full", c.explain(&blocker{reason: words("full")}))
	wrong := candidateWith("soon")
	assert.Zero(t, wrong.UntilOverdue(created.Add(time.Hour)))
	assert.Equal(t, `full; annotation volcano.sh/sla-waiting-time is "soon" and is ignored: it must be a duration above 0, such as "1h30m"`,
		wrong.explain(&blocker{reason: words("full")}))
}

// TestWhatIsKeptForATurn: a PodGroup that has waited long keeps quota from others. A gang beyond its share keeps none from a queue within its share.
// None is kept from other queues while it lacks quota of its own queue.
func TestWhatIsKeptForATurn(t *testing.T) {
	for name, c := range map[string]struct {
		used     map[string]int64 // by queue, in cores
		long     *Candidate
		next     *Candidate
		admitted bool
	}{
		"a queue within its share":              {map[string]int64{"tiny": 7}, impatient("long", "tiny", "26"), wants("next", "big", "20"), true},
		"a queue that would be beyond it":       {map[string]int64{"big": 29}, impatient("long", "tiny", "4"), wants("next", "big", "2"), false},
		"a queue that borrows":                  {map[string]int64{"tiny": 7}, impatient("long", "tiny", "26"), wants("next", "borrower", "1"), false},
		"the same queue":                        {map[string]int64{"big": 20}, impatient("long", "big", "13"), wants("next", "big", "5"), false},
		"one that is within its share itself":   {map[string]int64{"borrower": 20}, impatient("long", "big", "20"), wants("next", "tiny", "1"), false},
		"it waits for its own queue":            {map[string]int64{"narrow": 3}, impatient("long", "narrow", "2"), wants("next", "borrower", "29"), true},
		"it waits for its own queue, and so it": {map[string]int64{"narrow": 3}, impatient("long", "narrow", "2"), wants("next", "narrow", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			queues := []*schedulingv1beta1.Queue{mustertesting.MakeQueue("org").Capability("cpu", "32").Obj()}
			for queue, share := range map[string]string{"tiny": "1", "big": "30", "borrower": "0"} {
				queues = append(queues, mustertesting.MakeQueue(queue).Parent("org").Deserved("cpu", share).Obj())
			}
			s := newFixture(append(queues, mustertesting.MakeQueue("narrow").Parent("org").Capability("cpu", "4").Obj())...)
			s.total, s.factor = resources.List{corev1.ResourceCPU: 32_000}, 1.2
			for queue, cores := range c.used {
				s.books.Assume(queue, queue, resources.List{corev1.ResourceCPU: 1000 * cores})
			}
			s.shares = s.books.ShareOut(s.total, WaitingIn([]*Candidate{c.long, c.next}))
			decisions := s.decide(c.long, c.next)
			require.True(t, decisions[0].keeps)
			assert.Equal(t, c.admitted, decisions[1].Admitted, decisions[1].blocker)
		})
	}
}

// TestWhatIsKeptForOneIsNotTakenForAnother: a candidate within its share takes what is kept for one beyond its share, and only that.
func TestWhatIsKeptForOneIsNotTakenForAnother(t *testing.T) {
	s := newFixture(
		mustertesting.MakeQueue("org").Capability("cpu", "32").Obj(),
		mustertesting.MakeQueue("tiny").Parent("org").Deserved("cpu", "1").Obj(),
		mustertesting.MakeQueue("narrow").Parent("org").Deserved("cpu", "4").Capability("cpu", "4").Obj(),
	)
	for queue, cores := range map[string]int64{"narrow": 3, "tiny": 7} {
		s.books.Assume(queue, queue, resources.List{corev1.ResourceCPU: 1000 * cores})
	}
	first, borrows, next := impatient("first", "narrow", "2"), impatient("borrows", "tiny", "26"), wants("next", "narrow", "1")
	s.shares = s.books.ShareOut(resources.List{corev1.ResourceCPU: 32_000}, WaitingIn([]*Candidate{first, borrows, next}))
	decisions := s.decide(first, borrows, next)
	require.True(t, decisions[0].keeps && decisions[1].keeps)
	assert.False(t, decisions[2].Admitted, "it is kept for the first of its queue")
}

// TestAWaitingTimeThatIsOverPassesNoMaximum: of running PodGroups.
func TestAWaitingTimeThatIsOverPassesNoMaximum(t *testing.T) {
	queue := mustertesting.MakeQueue("t").Obj()
	queue.Spec.Muster = &schedulingv1beta1.QueueExtension{MaxRunningJobs: new(int32(1))}
	for running, admitted := range map[int32]bool{0: true, 1: false} {
		r := newFixture(queue).round()
		r.Running = map[string]int32{"t": running}
		assert.Equal(t, admitted, r.Decide([]*Candidate{overdue("a", "t", "1")})[0].Admitted, "%d run", running)
	}
}

// TestWhatCountsAsGoneInAFullCluster: what has a lower priority and does not ask to stay.
func TestWhatCountsAsGoneInAFullCluster(t *testing.T) {
	for name, c := range map[string]struct {
		runs     quota.Unit
		admitted bool
	}{
		"a lower priority":    {quota.Unit{Priority: 4}, true},
		"the same":            {quota.Unit{Priority: 5}, false},
		"lower, asks to stay": {quota.Unit{Priority: 4, AsksToStay: true}, false},
	} {
		s := newFixture(mustertesting.MakeQueue("t").Obj())
		s.total, s.factor = resources.List{corev1.ResourceCPU: 4000}, 1
		s.books.Assume("runs", "t", s.total)
		c.runs.Account, c.runs.Requests = "t", s.total
		s.units = []Evictable{{Unit: c.runs}}
		candidate := wants("a", "t", "2")
		candidate.Purpose, candidate.Rank.Priority = ForMore, 5
		assert.Equal(t, c.admitted, s.decide(candidate)[0].Admitted, name)
	}
}

// TestNothingIsEvictedForWhatIsKept: a later candidate that could evict more than it needs still waits for the first.
func TestNothingIsEvictedForWhatIsKept(t *testing.T) {
	s := newFixture(mustertesting.MakeQueue("t").Capability("cpu", "6").Obj())
	runs := resources.List{corev1.ResourceCPU: 3000}
	s.books.Assume("runs", "t", runs)
	s.units = []Evictable{{Unit: quota.Unit{Account: "t", Priority: 1, Requests: runs}}}
	first, next := impatient("first", "t", "6"), wants("next", "t", "3")
	next.Rank.Priority = 5
	decisions := s.decide(first, next)
	require.True(t, decisions[0].keeps)
	assert.False(t, decisions[1].Admitted)
	assert.True(t, s.decide(wants("small", "t", "1"), next)[1].Admitted, "the room that it lacks without the first comes by eviction")
}

// TestAMaximumCountsQueuesBelow: a round counts what it admits in all queues up to the root.
func TestAMaximumCountsQueuesBelow(t *testing.T) {
	org := mustertesting.MakeQueue("org").Obj()
	org.Spec.Muster = &schedulingv1beta1.QueueExtension{MaxRunningJobs: new(int32(1))}
	r := newFixture(org, mustertesting.MakeQueue("child").Parent("org").Obj()).round()
	r.Running = map[string]int32{}
	decisions := r.Decide([]*Candidate{wants("a", "child", "1"), wants("b", "child", "1")})
	assert.True(t, decisions[0].Admitted)
	assert.False(t, decisions[1].Admitted)
}
