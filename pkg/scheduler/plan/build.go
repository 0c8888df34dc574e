package plan

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/timeline"
)

// builder fills a snapshot.
type builder struct {
	*survey
	*Snapshot
	nodes   []*corev1.Node
	nodeAt  map[string]int // name -> index
	queueAt map[string]int
	runAt   map[runKey]int
	kindAt  map[string]int
	seen    map[types.UID]asked
	has     map[corev1.ResourceName]bool // resources of some node
}

// runKey tells runs apart: the members of a gang end together.
type runKey struct {
	key     state.Key
	pod     types.UID // of a pod without a gang
	account string
	end     time.Time
}

func (b *builder) addNodes() {
	for i, node := range b.nodes {
		b.nodeAt[node.Name] = i
		b.Cluster.Nodes = append(b.Cluster.Nodes, resources.FromResourceList(node.Status.Allocatable))
		for name := range node.Status.Allocatable {
			b.has[name] = true
		}
	}
}

// addRunning adds the pods that are bound. Daemons hold their room as long as the node.
func (b *builder) addRunning() {
	pods, _ := b.pods.List(labels.Everything())
	for _, pod := range pods {
		node, known := b.nodeAt[pod.Spec.NodeName]
		if !known || gang.IsFinished(pod) {
			continue
		}
		amounts := b.requestsOf(pod)
		b.Cluster.Nodes[node].Sub(amounts)
		if gang.IsOfDaemonSet(pod) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			continue
		}
		key, inGang := gang.KeyOf(pod)
		account, _, _ := b.tracker.Quota.Ledger.Charged(pod.UID)
		of := runKey{key: key, account: account}
		if !inGang {
			of.pod = pod.UID
		}
		of.end, _ = b.tracker.EndOf(pod)
		b.addRun(of, ownerOf(pod, key, inGang), node, amounts)
	}
}

// addRun adds an amount to a run.
func (b *builder) addRun(of runKey, owner Owner, node int, amounts resources.List) {
	i, known := b.runAt[of]
	if !known {
		i = len(b.Cluster.Runs)
		b.runAt[of] = i
		b.Cluster.Runs = append(b.Cluster.Runs, timeline.Run{End: of.end, Queues: b.queuesOf(of.account), Line: quota.QueueOf(of.account)})
		b.Runs = append(b.Runs, owner)
	}
	run := &b.Cluster.Runs[i]
	run.On = append(run.On, timeline.Amount{Node: node, Of: amounts})
}

// addStarting adds the members of a gang that hold room and are not seen bound yet.
func (b *builder) addStarting(s *start) {
	of := runKey{key: state.Key{Namespace: s.owner.Namespace, Name: "starting/" + s.owner.Name}, account: s.account}
	if s.runs > 0 {
		of.end = b.Cluster.Now.Add(s.runs)
	}
	for i := range s.members {
		m := &s.members[i]
		node, known := b.nodeAt[m.Node]
		if _, isBound := b.seen[m.UID]; known && !isBound {
			b.Cluster.Nodes[node].Sub(m.Requests)
			b.addRun(of, s.owner, node, m.Requests)
		}
	}
}

// requestsOf is what a pod requests. It is computed once for each version of the pod.
func (b *builder) requestsOf(pod *corev1.Pod) resources.List {
	known, ok := b.requests[pod.UID]
	if !ok || known.version != pod.ResourceVersion {
		known = asked{pod.ResourceVersion, resources.PodRequests(pod)}
	}
	b.seen[pod.UID] = known
	return known.amounts
}

// queuesOf are the queues of an account, from below, if quota is enforced.
func (b *builder) queuesOf(account string) (path []int) {
	q := b.tracker.Quota
	if account == "" || !q.Enforced {
		return nil
	}
	for _, name := range q.Ledger.Path(account) {
		i, known := b.queueAt[name]
		if !known {
			i = len(b.Cluster.Queues)
			b.queueAt[name] = i
			free, _ := q.Ledger.Limits(name), 0
			_, all := q.Ledger.Totals(name)
			for resource, limit := range free {
				free[resource] = resources.Left(limit, all.Amount(resource))
			}
			b.Cluster.Queues = append(b.Cluster.Queues, free)
		}
		path = append(path, i)
	}
	return path
}

// gangOf is a waiting gang as a plan sees it.
func (b *builder) gangOf(w *Waiting) timeline.Gang {
	g := timeline.Gang{For: w.runs, Queues: b.queuesOf(w.account), Line: w.Queue, Since: w.since}
	if w.asked != nil {
		g.Asks, g.Needs = true, b.needs(w.asked)
		return g
	}
	if len(w.members) == 0 {
		g.Needs = []timeline.Need{{Kind: b.evenKind(w), Count: w.count}}
		return g
	}
	counts, kinds, order := map[int]int{}, map[types.UID]int{}, []int{}
	for _, m := range w.members {
		kind := b.kindOf(m, "")
		if counts[kind] == 0 {
			order = append(order, kind)
		}
		counts[kind]++
		kinds[m.UID] = kind
	}
	for _, kind := range order {
		g.Needs = append(g.Needs, timeline.Need{Kind: kind, Count: counts[kind]})
	}
	g.Reserved = b.reservationOf(w, kinds)
	return g
}

// reservationOf is the room that is kept for a gang.
func (b *builder) reservationOf(w *Waiting, kinds map[types.UID]int) *timeline.Reservation {
	if w.reserved == nil {
		return nil
	}
	r := &timeline.Reservation{Start: w.reserved.Start}
	for _, m := range w.members {
		node, known := b.nodeAt[w.reserved.Places[m.UID]]
		if !known {
			return nil // it was chosen for other members
		}
		r.Places = append(r.Places, timeline.Place{Node: node, Kind: kinds[m.UID], Count: 1})
	}
	return r
}

// evenKind is the kind of pods that do not exist yet.
func (b *builder) evenKind(w *Waiting) int {
	each := resources.Evenly(w.minimum, w.count)
	each[corev1.ResourcePods] = 1
	return b.kind("even "+each.String(), timeline.Kind{Requests: each})
}

// kindOf is the kind of a member. Prefixes keep kinds apart. A plan knows amounts, labels and taints, and asks no filters of the profile.
func (b *builder) kindOf(m *gang.Member, prefix string) int {
	groups := b.tracker.Quota.NodeGroupsOf(m.Pod, false)
	key := prefix + placement.DemandOf(&m.Pod.Spec) + groups.String()
	if i, known := b.kindAt[key]; known {
		return i
	}
	kind := timeline.Kind{Requests: b.advertised(m.Requests), MaxPerNode: placement.MaxPerNode(m.Pod)}
	takes := sync.OnceValue(func() []bool { // a plan may end before the kind
		takes, affinity := make([]bool, len(b.nodes)), nodeaffinity.GetRequiredNodeAffinity(m.Pod)
		for i, node := range b.nodes {
			takes[i] = mayGo(m.Pod, affinity, node, groups)
		}
		return takes
	})
	kind.Takes = func(node int) bool { return takes()[node] }
	return b.kind(key, kind)
}

// kind is the index of a kind, which is added if it is new.
func (b *builder) kind(key string, kind timeline.Kind) int {
	i, known := b.kindAt[key]
	if !known {
		i = len(b.Cluster.Kinds)
		b.kindAt[key] = i
		b.Cluster.Kinds = append(b.Cluster.Kinds, kind)
	}
	return i
}

// advertised are the requests for what some node has. Others are for filters that know more.
func (b *builder) advertised(requests resources.List) resources.List {
	kept := resources.List{}
	for name, amount := range requests {
		if b.has[name] {
			kept[name] = amount
		}
	}
	return kept
}

// mayGo says whether a pod may go to a node that has room.
func mayGo(pod *corev1.Pod, affinity nodeaffinity.RequiredNodeAffinity, node *corev1.Node, groups quota.NodeGroupPath) bool {
	if matches, err := affinity.Match(node); err != nil || !matches || groups.Refuses(node.Labels[schedulingv1beta1.NodeGroupLabel]) != "" {
		return false
	}
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append([]corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}, taints...)
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule
	}, false)
	return !untolerated
}
