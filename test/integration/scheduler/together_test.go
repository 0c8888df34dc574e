package scheduler_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// runningWhole waits until all pods with nodes belong to whole gangs, and returns the gangs' names. It fails if that does not come to be.
func (w *world) runningWhole(size int) (running []string) {
	w.t.Helper()
	w.eventually("gangs run whole, and at least one runs", func() bool {
		running = nil
		pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		bound := map[string]int{}
		for i := range pods.Items {
			if gang := pods.Items[i].Annotations["scheduling.k8s.io/group-name"]; gang != "" && pods.Items[i].Spec.NodeName != "" {
				bound[gang]++
			}
		}
		for gang, n := range bound {
			if n < size {
				return false
			}
			running = append(running, gang)
		}
		return len(running) > 0
	})
	return running
}

// finish deletes the pods of a gang.
func (w *world) finish(gang string, size int) {
	w.t.Helper()
	for i := range size {
		w.remove(fmt.Sprintf("%s-%d", gang, i))
	}
}

func TestTwoGangsThatEachFitAloneNeverHoldHalfOfTheClusterEach(t *testing.T) {
	w := newWorld(t, 4)
	for round := range 5 {
		a, b := fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)
		w.createGroup(a, 3, "")
		w.createGroup(b, 3, "")
		// Their pods come by turns, so that both become complete at about the same time.
		for i := range 3 {
			w.create(w.pod(fmt.Sprintf("%s-%d", a, i), a), w.pod(fmt.Sprintf("%s-%d", b, i), b))
		}
		first := w.runningWhole(3)
		require.Len(t, first, 1, "only one fits")
		w.finish(first[0], 3)
		second := a
		if first[0] == a {
			second = b
		}
		w.expectBound(second, 3)
		w.finish(second, 3)
	}
}

func TestGangsThatEachNeedMostOfTheClusterRunOneAfterTheOther(t *testing.T) {
	const gangs, size = 8, 3
	w := newWorld(t, 4)
	for i := range gangs {
		w.createGroup(fmt.Sprintf("g%d", i), size, "")
	}
	for pod := range size {
		for i := range gangs {
			w.create(w.pod(fmt.Sprintf("g%d-%d", i, pod), fmt.Sprintf("g%d", i)))
		}
	}
	ran := map[string]bool{}
	for range gangs {
		running := w.runningWhole(size)
		require.Len(t, running, 1)
		require.False(t, ran[running[0]])
		ran[running[0]] = true
		w.finish(running[0], size)
	}
	require.Len(t, ran, gangs)
}

func TestAGangThatDoesNotFitHoldsUpNoSmallerOneBehindIt(t *testing.T) {
	w := newWorld(t, 3)
	w.createGroup("large", 4, "")
	w.createGang("large", 4)
	w.expectHeld("large", "room for 3 of the 4 members that start together")
	for i := range 5 {
		name := fmt.Sprintf("small%d", i)
		w.createGroup(name, 3, "")
		w.createGang(name, 3)
		w.expectBound(name, 3)
		w.finish(name, 3)
	}
	require.Zero(t, w.bound("large"))
	w.addNode(3)
	w.expectBound("large", 4)
}

func TestAGangWhoseMembersCannotBePlacedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("failing", 2, "")
	w.createGang("failing", 2, func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "never-comes"}},
			}},
		}}
	})
	w.expectHeld("failing", "room for 0 of the 2 members that start together")
	w.createGroup("small", 2, "")
	w.createGang("small", 2)
	w.expectBound("small", 2)
}

// TestAGangOfAThousandWaitsWholeForTheLastPlace: while one place is missing nothing is bound, and no usable room is held. The decision is
// neither repeated nor reported again; the place comes, and all start.
func TestAGangOfAThousandWaitsWholeForTheLastPlace(t *testing.T) {
	const size = 1000
	w := newQuietWorld(t, 0)
	roomFor := func(pods string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(pods) }
	}
	for i := range 9 {
		w.addNode(i, roomFor("100"))
	}
	w.addNode(9, roomFor("99"))
	seen, before := w.countWrites(), w.tries()
	w.createGroup("g", size, "")
	w.createGang("g", size, cpu("1m"))
	w.expectHeld("g", fmt.Sprintf("room for %d of the %d members that start together", size-1, size))
	w.create(w.pod("ordinary", "", cpu("1m")))
	w.expectBound("ordinary", 1) // it holds none of the places that it cannot use

	// Until all have been told, and for longer than the scheduler waits before it says something else.
	waited, end := before, time.Now().Add(7*time.Second)
	waited.noRoom++
	err := wait.PollUntilContextTimeout(w.ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		require.Equal(t, waited, w.tries(), "it was judged once, and no member was tried")
		return time.Now().After(end) && len(w.waiting("g")) == size, nil
	})
	require.NoError(t, err, "all members say why they wait")
	require.Zero(t, w.bound("g"))
	w.eventually("each member was written to once", func() bool {
		for i := range size {
			if seen.of(fmt.Sprintf("g-%d", i)) != 1 {
				return false
			}
		}
		return true
	})
	require.Len(t, w.eventsOf("PodGroup", "g", "Unschedulable"), 1)

	w.addNode(10, roomFor("2"))
	w.eventuallyIn(2*time.Minute, "the whole gang is bound", func() bool { return w.bound("g") == size })
	started := waited
	started.admitted++
	started.seated++
	// The scheduler counts after the API server has the last binding.
	w.eventually("it started at the first try", func() bool { return w.tries() == started })
}

// tries is what the scheduler has tried to place gangs, in all.
type tries struct {
	noRoom, admitted, seated, rolledBack int // how judgements, and then rounds, have ended
	rejected                             int // members that held room and lost it
}

func (w *world) tries() tries {
	w.t.Helper()
	count := func(name string) int {
		value := w.metric(name)
		if value == "" {
			return 0
		}
		n, err := strconv.Atoi(value)
		require.NoError(w.t, err)
		return n
	}
	const attempts = "muster_gang_attempts_total{result=%q}"
	return tries{
		noRoom:     count(fmt.Sprintf(attempts, "no_room")),
		admitted:   count(fmt.Sprintf(attempts, "admitted")),
		seated:     count(fmt.Sprintf(attempts, "seated")),
		rolledBack: count(fmt.Sprintf(attempts, "rolled_back")),
		rejected:   count("muster_gang_waiting_rejected_total"),
	}
}

// TestNothingIsHeldWhileGangsWaitAmongOrdinaryPods has more gangs and pods than fit come and go together. Gangs run
// whole or not at all whenever things are at rest, and in the end everything has run.
func TestNothingIsHeldWhileGangsWaitAmongOrdinaryPods(t *testing.T) {
	w := newWorld(t, 5)
	for i := range 6 {
		gang := fmt.Sprintf("g%d", i)
		w.createGroup(gang, 3, "")
		w.createGang(gang, 3)
		w.create(w.pod(fmt.Sprintf("alone-%d", i), ""))
	}
	ctx, cancel := context.WithTimeout(w.ctx, 2*soon)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		bound := map[string][]string{}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName != "" {
				owner, _, _ := strings.Cut(pod.Name, "-")
				bound[owner] = append(bound[owner], pod.Name)
			}
		}
		for owner, names := range bound {
			if owner == "alone" || len(names) == 3 {
				w.remove(names[0])
				for _, name := range names[1:] {
					w.remove(name)
				}
			}
		}
		return len(pods.Items) == 0, nil
	})
	require.NoError(t, err, "everything has run")
}
