package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// randomLoad is a gang, or pods without one. Every evicted pod is created again, as a controller does.
type randomLoad struct {
	name, queue string
	minimum     int // 0 for pods without a gang
	make        func(name string) *corev1.Pod
	pods        sets.Set[string] // that exist
	created     int
}

// randomLoads are a cluster whose queues are asked for more than it has.
type randomLoads struct {
	*world
	random     *rand.Rand
	scheduler  *restarts
	slow       bool             // some loads have a grace period: their pods are gone a while after they were evicted
	capability map[string]int64 // of the leaf queues, and of "org", which has all of them below it
	state      string           // which pods exist, and where
	loads      []*randomLoad
	again      int              // pods that were created again
	seated     sets.Set[string] // pods that were bound at some time
	leaving    map[string]int   // how often pods were seen that are being deleted
}

// historySeeds are the seeds of the random loads that a test tries. MUSTER_EVICTION_HISTORIES=200 tries more, and MUSTER_EVICTION_SEED one
// again.
func historySeeds(t *testing.T, count int) (seeds []uint64) {
	first := rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("MUSTER_EVICTION_HISTORIES")); err == nil {
		count = n
	}
	if s, err := strconv.ParseUint(os.Getenv("MUSTER_EVICTION_SEED"), 10, 64); err == nil {
		count, first = 1, s
	}
	for i := range count {
		seeds = append(seeds, first+uint64(i))
	}
	return seeds
}

// newRandomLoads makes an empty cluster for the loads of a seed.
func newRandomLoads(t *testing.T, seed uint64, scheduler *restarts) *randomLoads {
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, 2+random.IntN(2))
	t.Cleanup(w.clear)
	return &randomLoads{world: w, random: random, scheduler: scheduler, capability: map[string]int64{}, seated: sets.New[string](), leaving: map[string]int{}}
}

// TestRandomLoadsComeToRest is pkg/placement's history on the real scheduler: evictions end although evicted pods come again. Every pod
// that has others evicted is bound, no queue exceeds its capability, and the bound pods are charged.
func TestRandomLoadsComeToRest(t *testing.T) {
	scheduler, over := &restarts{since: time.Now()}, make(chan struct{})
	close(over)
	for i, seed := range historySeeds(t, 10) {
		t.Run(fmt.Sprint("load", i), func(t *testing.T) {
			r := newRandomLoads(t, seed, scheduler)
			r.draw()
			r.awaitRest(over)
			r.checkRest()
			require.Empty(t, r.evictedInVain())
		})
	}
}

// draw makes the queues and the loads.
func (r *randomLoads) draw() {
	random := r.random
	total := 8 + random.IntN(4)
	r.capability["org"] = int64(total)
	r.queue("org", fmt.Sprint(total), capability(fmt.Sprint(total)))
	owed := total
	for _, name := range []string{"a", "b", "c"} {
		deserved := random.IntN(owed + 1)
		owed -= deserved
		limit := deserved + 1 + random.IntN(total-deserved+1)
		if limit > total {
			limit = total
		}
		r.capability[name] = int64(limit)
		r.queue(name, fmt.Sprint(deserved), capability(fmt.Sprint(limit)), func(q *schedulingv1beta1.Queue) { q.Spec.Parent = r.namespace + "-org" })
	}
	classes := []func(*corev1.Pod){func(*corev1.Pod) {}, r.class(10), r.class(20)}
	for i := range 4 + random.IntN(4) {
		l := &randomLoad{name: fmt.Sprintf("l%d", i), queue: []string{"a", "b", "c"}[random.IntN(3)], pods: sets.New[string]()}
		size, class, amount := 1+random.IntN(3), classes[random.IntN(3)], cpu(fmt.Sprint(1+random.IntN(3)))
		queue, gang, grace := r.namespace+"-"+l.queue, "", int64(0)
		if r.slow && random.IntN(2) == 0 {
			grace = 30
		}
		if random.IntN(2) == 0 {
			l.minimum, gang = 1+random.IntN(size), l.name
			r.createGroup(l.name, int32(l.minimum), queue)
		}
		leaves := func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = grace }
		l.make = func(name string) *corev1.Pod {
			if gang == "" {
				return r.pod(name, "", class, amount, leaves, aloneIn(queue))
			}
			return r.pod(name, gang, class, amount, leaves)
		}
		r.loads = append(r.loads, l)
		if r.slow && i == 2 {
			r.letTheFirstRun()
		}
		for range size {
			r.submit(l)
		}
	}
}

// letTheFirstRun waits a moment for pods of the first loads to be bound, so that later ones have some evicted. Loads may fit in no queue.
func (r *randomLoads) letTheFirstRun() {
	_ = wait.PollUntilContextTimeout(r.ctx, 50*time.Millisecond, 2*time.Second, true, func(context.Context) (bool, error) { return r.bound("l") > 0, nil })
}

// submit creates a pod of a load.
func (r *randomLoads) submit(l *randomLoad) {
	name := fmt.Sprintf("%s-%d", l.name, l.created)
	l.created++
	l.pods.Insert(name)
	r.create(l.make(name))
}

// awaitRest creates evicted pods again until nothing changes for a while, gangs are complete, and the restarts are over.
func (r *randomLoads) awaitRest(over <-chan struct{}) {
	last, since := "", time.Now()
	err := wait.PollUntilContextTimeout(r.ctx, 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := kube.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		r.look(list.Items)
		if r.state != last || r.brokenGang() != "" {
			last, since = r.state, time.Now()
		}
		select {
		case <-over:
		default:
			return false, nil
		}
		runs := r.scheduler.runsSince()
		return !runs.IsZero() && time.Since(runs) > atRest && time.Since(since) > atRest, nil
	})
	require.NoError(r.t, err, "the loads come to rest: %d pods were evicted; broken gang: %q\n%s", r.again, r.brokenGang(), r.state)
}

// atRest is how long nothing must have changed.
const atRest = 3 * time.Second

// look checks what holds at any time, has what is gone created again, and notes how things are.
func (r *randomLoads) look(pods []corev1.Pod) {
	exists := map[string]*corev1.Pod{}
	for i := range pods {
		exists[pods[i].Name] = &pods[i]
	}
	r.state = ""
	for _, l := range r.loads {
		for _, name := range sets.List(l.pods) {
			pod := exists[name]
			if pod == nil {
				l.pods.Delete(name)
				r.again++
				require.LessOrEqual(r.t, r.again, 100, "the loads go in circles")
				r.submit(l)
				continue
			}
			r.state += fmt.Sprintln(name, pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.DeletionTimestamp)
			r.end(pod)
			if pod.Spec.NodeName != "" {
				r.seated.Insert(name)
			}
		}
	}
	for queue, amount := range r.usedBy(pods) {
		require.LessOrEqual(r.t, amount, r.capability[queue], "the capability of %s", queue)
	}
}

// usedBy adds up the CPUs of the bound pods, by queue.
func (r *randomLoads) usedBy(pods []corev1.Pod) map[string]int64 {
	used := map[string]int64{}
	for i := range pods {
		for _, l := range r.loads {
			if pods[i].Spec.NodeName != "" && l.pods.Has(pods[i].Name) {
				amount := pods[i].Spec.Containers[0].Resources.Requests.Cpu().Value()
				used[l.queue], used["org"] = used[l.queue]+amount, used["org"]+amount
			}
		}
	}
	return used
}

// end removes a pod that is being deleted, after a while, as a kubelet does.
func (r *randomLoads) end(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		return
	}
	if r.leaving[pod.Name]++; r.leaving[pod.Name] == 10 {
		r.remove(pod.Name)
	}
}

// brokenGang names a gang of which fewer members are bound than its minimum, but some.
func (r *randomLoads) brokenGang() string {
	for _, l := range r.loads {
		if bound := len(r.seated.Intersection(l.pods)); 0 < bound && bound < l.minimum {
			return l.name
		}
	}
	return ""
}

// claimants finds for what pod or gang another was evicted.
var claimants = regexp.MustCompile(`evicted to make room for (pod|PodGroup) [^/]+/(l[0-9-]+)`)

// checkRest checks that gangs are whole or wait, and that what is charged is what is bound.
func (r *randomLoads) checkRest() {
	require.Empty(r.t, r.brokenGang(), "fewer members are bound than the minimum")
	r.checkLedger()
	r.t.Log("evicted", r.again)
}

// evictedInVain lists the pods and gangs that had pods evicted and were never bound.
func (r *randomLoads) evictedInVain() (told []string) {
	events, err := kube.CoreV1().Events(r.namespace).List(r.ctx, metav1.ListOptions{})
	require.NoError(r.t, err)
	claims := map[string]int{}
	for i := range events.Items {
		e := &events.Items[i]
		if e.Reason == "Scheduled" {
			r.seated.Insert(e.InvolvedObject.Name)
		}
		if found := claimants.FindStringSubmatch(e.Message); found != nil {
			claims[found[2]]++
		}
	}
	for _, claimant := range slices.Sorted(maps.Keys(claims)) {
		wasSeated := r.seated.Has(claimant)
		for name := range r.seated {
			wasSeated = wasSeated || len(name) > len(claimant) && name[:len(claimant)+1] == claimant+"-"
		}
		if !wasSeated {
			told = append(told, fmt.Sprintf("%d pods were evicted for %s, which was never bound", claims[claimant], claimant))
		}
	}
	return told
}
