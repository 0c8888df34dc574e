package queueing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	gangs        = 40 // played at the same time
	stepsOfAGang = 40
)

// TestPhasesAreThoseThatClientsKnow: each status that is written describes the members at a moment between the last status and this one. It
// holds for any changes, at any speed. All objects share one sequence of resource versions, so the recorded watches tell in which order
// things were written.
func TestPhasesAreThoseThatClientsKnow(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.eventually("the default queue is open, so that no gang waits for it", func() bool {
		queue, err := muster.SchedulingV1beta1().Queues().Get(s.ctx, schedulingv1beta1.DefaultQueue, metav1.GetOptions{})
		return err == nil && queue.Status.State == schedulingv1beta1.QueueStateOpen
	})
	r := s.record()
	errs := make([]error, gangs)
	players := make([]*player, gangs)
	var group sync.WaitGroup
	for i := range gangs {
		seed := rand.Uint64()
		players[i] = &player{ctx: s.ctx, namespace: s.namespace, group: fmt.Sprint("g", i), seed: seed, rand: rand.New(rand.NewPCG(seed, 0))}
		group.Go(func() { errs[i] = players[i].play() })
	}
	group.Wait()
	for i, p := range players {
		require.NoError(t, errs[i])
		require.Eventually(t, func() bool { return r.settled(p.group) }, soon, 5*time.Millisecond, "%s, seed %d", p.group, p.seed)
	}
	for _, p := range players {
		// A status that was right before the last pod was removed may be the last but one.
		assert.EventuallyWithT(t, func(c *assert.CollectT) { assert.Empty(c, r.wrong(p.group, p.removed)) }, soon, 50*time.Millisecond,
			"%s, seed %d", p.group, p.seed)
	}
}

// player plays scheduler, kubelet, users and the job controller for one gang.
type player struct {
	ctx              context.Context
	namespace, group string
	seed             uint64
	rand             *rand.Rand
	pods             []*playedPod
	created          int
	removed          []types.UID // that the job controller has removed
}

type playedPod struct {
	name                     string
	uid                      types.UID
	bound, running, finished bool
	leaving                  bool
}

func (p *player) play() error {
	group := mustertesting.MakePodGroup(p.group).Namespace(p.namespace).MinMember(2).Obj()
	if _, err := muster.SchedulingV1beta1().PodGroups(p.namespace).Create(p.ctx, group, metav1.CreateOptions{}); err != nil {
		return err
	}
	for range 2 + p.rand.IntN(2) {
		if err := p.create(); err != nil {
			return err
		}
	}
	for range stepsOfAGang {
		if err := p.step(); err != nil {
			return fmt.Errorf("seed %d: %w", p.seed, err)
		}
	}
	return nil
}

// step does one thing that can be done now. Steps that are likely in the life of a gang are likely here.
func (p *player) step() error {
	if p.rand.IntN(12) == 0 {
		return p.setMinimum(p.rand.IntN(5))
	}
	if len(p.pods) < 2 || len(p.pods) < 5 && p.rand.IntN(6) == 0 {
		return p.create()
	}
	pod := p.pods[p.rand.IntN(len(p.pods))]
	switch {
	case pod.leaving, p.rand.IntN(8) == 0:
		return p.delete(pod, 0)
	case p.rand.IntN(12) == 0:
		pod.leaving = pod.bound && !pod.finished // the API server deletes other pods at once
		return p.delete(pod, 30)
	case !pod.bound && p.rand.IntN(4) == 0:
		return p.setStatus(pod, corev1.PodPending, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room",
		})
	case !pod.bound:
		pod.bound = true
		return kube.CoreV1().Pods(p.namespace).Bind(p.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	case !pod.running:
		pod.running = true
		return p.setStatus(pod, corev1.PodRunning)
	case !pod.finished && p.rand.IntN(4) == 0:
		pod.finished = true
		return p.setStatus(pod, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}[p.rand.IntN(2)])
	}
	return nil
}

func (p *player) setMinimum(n int) error {
	_, err := muster.SchedulingV1beta1().PodGroups(p.namespace).Patch(p.ctx, p.group, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"minMember":%d}}`, n), metav1.PatchOptions{})
	return err
}

func (p *player) create() error {
	p.created++
	pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", p.group, p.created)).Namespace(p.namespace).Group(p.group).SchedulerName("none").Obj()
	pod, err := kube.CoreV1().Pods(p.namespace).Create(p.ctx, pod, metav1.CreateOptions{})
	if err == nil {
		p.pods = append(p.pods, &playedPod{name: pod.Name, uid: pod.UID})
	}
	return err
}

// delete deletes a pod, in half of all cases as the job controller.
func (p *player) delete(pod *playedPod, grace int64) error {
	if p.rand.IntN(2) == 0 {
		podGroups.Removing(pod.uid)
		p.removed = append(p.removed, pod.uid)
	}
	if !pod.leaving || grace == 0 {
		p.pods = slices.DeleteFunc(p.pods, func(other *playedPod) bool { return other == pod })
	}
	err := kube.CoreV1().Pods(p.namespace).Delete(p.ctx, pod.name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if apierrors.IsNotFound(err) {
		return nil // the client has sent the request twice, as it does when a connection is lost
	}
	return err
}

func (p *player) setStatus(pod *playedPod, phase corev1.PodPhase, conditions ...corev1.PodCondition) error {
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Phase: phase, Conditions: conditions}})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Pods(p.namespace).Patch(p.ctx, pod.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// recorder keeps what the API server said, by PodGroup.
type recorder struct {
	mu       sync.Mutex
	pods     map[string][]podEvent
	statuses map[string][]groupEvent
}

type podEvent struct {
	version int
	gone    bool
	pod     *corev1.Pod
}

type groupEvent struct {
	version int
	group   *schedulingv1beta1.PodGroup
}

// record watches the namespace until the test ends.
func (s *fixture) record() *recorder {
	s.Helper()
	r := &recorder{pods: map[string][]podEvent{}, statuses: map[string][]groupEvent{}}
	pods, err := kube.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{})
	require.NoError(s, err)
	s.watch(pods.ResourceVersion, kube.CoreV1().Pods(s.namespace).Watch, func(event watch.Event) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			group := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
			r.mu.Lock()
			defer r.mu.Unlock()
			r.pods[group] = append(r.pods[group], podEvent{versionOf(pod), event.Type == watch.Deleted, pod})
		}
	})
	s.watch(pods.ResourceVersion, muster.SchedulingV1beta1().PodGroups(s.namespace).Watch, func(event watch.Event) {
		if group, ok := event.Object.(*schedulingv1beta1.PodGroup); ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.statuses[group.Name] = append(r.statuses[group.Name], groupEvent{versionOf(group), group})
		}
	})
	return r
}

// watch calls see for each event from a resource version on. The API server closes a watch that it finds slow; it is opened again then.
func (s *fixture) watch(version string, open func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(watch.Event)) {
	s.Helper()
	watcher, err := watchtools.NewRetryWatcherWithContext(s.ctx, version, &cache.ListWatch{WatchFuncWithContext: open})
	require.NoError(s, err)
	s.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			see(event)
		}
	}()
}

func versionOf(object metav1.Object) int {
	version, err := strconv.Atoi(object.GetResourceVersion())
	if err != nil {
		panic(err)
	}
	return version
}

// moment is what the members of a gang add up to at a resource version.
type moment struct {
	version                                            int
	seated, finished, leaving                          int // bound or finished; finished; finished and being deleted
	members, running, succeeded, failed, unschedulable int
	waiting, unfinished                                int // without a node; neither finished nor going
	losses                                             int // how many bound members were removed until then, and not by Muster
	gone                                               int // how many members that had succeeded were removed until then
}

// with is the moment when members that have succeeded and are gone count, too.
func (m moment) with(gone int) moment {
	m.seated, m.finished, m.members, m.succeeded = m.seated+gone, m.finished+gone, m.members+gone, m.succeeded+gone
	return m
}

// moments are the states of the members one after the other. The first is that before there were any.
func (r *recorder) moments(group string, removed []types.UID) []moment {
	live := map[types.UID]*corev1.Pod{}
	atWork := map[types.UID]bool{} // whether it was at work when its deletion began
	losses, gone := 0, 0
	all := []moment{{}}
	for _, event := range r.pods[group] {
		last := live[event.pod.UID]
		if last != nil && last.DeletionTimestamp == nil && (event.gone || event.pod.DeletionTimestamp != nil) {
			atWork[last.UID] = last.Spec.NodeName != "" && !hasFinished(last)
		}
		live[event.pod.UID] = event.pod
		if event.gone {
			delete(live, event.pod.UID)
			if last != nil && last.Status.Phase == corev1.PodSucceeded {
				gone++
			}
			if atWork[event.pod.UID] && !slices.Contains(removed, event.pod.UID) {
				losses++
			}
		}
		m := moment{version: event.version, losses: losses, gone: gone}
		for _, pod := range live {
			m.add(pod)
		}
		all = append(all, m)
	}
	return all
}

func hasFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (m *moment) add(pod *corev1.Pod) {
	going := pod.DeletionTimestamp != nil
	switch {
	case hasFinished(pod):
		m.seated++
		m.finished++
		if going {
			m.leaving++
		}
	case pod.Spec.NodeName != "":
		m.seated++
	case !going && len(pod.Status.Conditions) > 0:
		m.unschedulable++
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		m.succeeded++
	case corev1.PodFailed:
		m.failed++
	case corev1.PodRunning:
		if !going {
			m.running++
		}
	}
	if going {
		return
	}
	m.members++
	if !hasFinished(pod) {
		m.unfinished++
		if pod.Spec.NodeName == "" {
			m.waiting++
		}
	}
}

// phases are the phases that may follow a phase at a moment, by docs/concepts.md and wire contract 4. lost and kept are what was seen since
// the phase before. A member was lost, or none was whose loss alone made the gang partial.
func (m moment) phases(last schedulingv1beta1.PodGroupPhase, minimum int, lost, kept bool) []schedulingv1beta1.PodGroupPhase {
	one := func(phase schedulingv1beta1.PodGroupPhase) []schedulingv1beta1.PodGroupPhase {
		return []schedulingv1beta1.PodGroupPhase{phase}
	}
	idle := m.seated == m.finished && m.waiting == 0
	switch {
	case last == schedulingv1beta1.PodGroupCompleted && idle:
		return one(schedulingv1beta1.PodGroupCompleted)
	case m.running > 0 && m.seated < minimum && (m.unschedulable > 0 || last == schedulingv1beta1.PodGroupUnknown):
		return one(schedulingv1beta1.PodGroupUnknown)
	case m.running > 0 && m.seated < minimum && last == schedulingv1beta1.PodGroupRunning:
		var either []schedulingv1beta1.PodGroupPhase
		if lost {
			either = append(either, schedulingv1beta1.PodGroupUnknown)
		}
		if kept {
			either = append(either, schedulingv1beta1.PodGroupInqueue)
		}
		return either
	case m.seated < minimum, m.seated == 0 && m.members > 0:
		return one(schedulingv1beta1.PodGroupInqueue)
	case idle && m.leaving == 0:
		return one(schedulingv1beta1.PodGroupCompleted)
	}
	return one(schedulingv1beta1.PodGroupRunning)
}

// settled says whether the phase is one that the members may have now, and all that happened is recorded.
func (r *recorder) settled(group string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, statuses := r.moments(group, nil), r.statuses[group]
	if len(statuses) == 0 {
		return false
	}
	now, last := all[len(all)-1], statuses[len(statuses)-1].group
	for gone := range now.gone + 1 {
		m := now.with(gone)
		if slices.Contains(m.phases(last.Status.Phase, int(last.Spec.MinMember), true, true), last.Status.Phase) && m.counts(last) {
			return true
		}
	}
	return false
}

// counts says whether a status has the numbers of the moment.
func (m moment) counts(group *schedulingv1beta1.PodGroup) bool {
	return [3]int32{group.Status.Running, group.Status.Succeeded, group.Status.Failed} == [3]int32{int32(m.running), int32(m.succeeded), int32(m.failed)}
}

// view is a moment that a status may describe. base is the number of succeeded members that were gone when the run of the gang began.
type view struct{ at, base int }

// wrong describes the first status that no moment explains; "" if there is none. It goes through the statuses with the moments that each
// may describe. None of them is before a moment of the last status.
func (r *recorder) wrong(group string, removed []types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.moments(group, removed)
	from := []view{{}}
	var last *schedulingv1beta1.PodGroup
	minimums := 0 // changes of the minimum since the status before
	for _, event := range r.statuses[group] {
		next := event.group
		if last != nil && last.Spec.MinMember != next.Spec.MinMember {
			minimums++
		}
		if last == nil || last.Status.Phase == next.Status.Phase && [3]int32{last.Status.Running, last.Status.Succeeded, last.Status.Failed} ==
			[3]int32{next.Status.Running, next.Status.Succeeded, next.Status.Failed} {
			last = next
			continue
		}
		to := viewsOf(all, from, last, event, minimums > 0)
		if len(to) == 0 {
			return fmt.Sprintf("%s -> %s (%d running, %d succeeded, %d failed) with minimum %d at %d, after one of %v, of the moments from the first of them on %+v", last.Status.Phase, next.Status.Phase,
				next.Status.Running, next.Status.Succeeded, next.Status.Failed, next.Spec.MinMember, event.version, from, all[from[0].at:min(from[0].at+6, len(all))])
		}
		from, last, minimums = to, next, 0
	}
	now := all[len(all)-1]
	if !slices.ContainsFunc(from, func(v view) bool { return now.with(now.gone - v.base).counts(last) }) {
		return fmt.Sprintf("at the end %+v is not counted after one of %v: %+v", last.Status, from, now)
	}
	return ""
}

// viewsOf are the moments that a status may describe, after the views of the status before.
func viewsOf(all []moment, from []view, last *schedulingv1beta1.PodGroup, next groupEvent, minimumChanged bool) []view {
	to := sets.New[view]()
	for _, v := range from {
		for at := v.at; at < len(all) && all[at].version <= next.version; at++ {
			for _, base := range basesOf(all[v.at:at+1], v.base, last, next.group, minimumChanged) {
				if describes(all[v.at:at+1], base, last, next.group, minimumChanged) {
					to.Insert(view{at, base})
				}
			}
		}
	}
	return to.UnsortedList()
}

// basesOf are the numbers of members that may have been forgotten when these moments have passed. When a run was over, the first member of
// the next one has all forgotten that are gone.
func basesOf(passed []moment, base int, last, next *schedulingv1beta1.PodGroup, minimumChanged bool) []int {
	bases := sets.New[int]()
	isOver := last.Status.Phase == schedulingv1beta1.PodGroupCompleted && last.Status.Failed == 0 &&
		(minimumChanged || last.Status.Succeeded >= next.Spec.MinMember)
	for _, m := range passed {
		if isOver && m.unfinished > 0 {
			bases.Insert(m.gone)
		}
	}
	if !isOver || minimumChanged || passed[len(passed)-1].unfinished == 0 {
		bases.Insert(base)
	}
	return bases.UnsortedList()
}

// describes says whether a status describes the last of the moments that have passed. That a member is gone may be noticed a little later.
func describes(passed []moment, base int, last, next *schedulingv1beta1.PodGroup, minimumChanged bool) bool {
	counted := make([]moment, len(passed))
	for i, m := range passed {
		counted[i] = m.with(max(0, m.gone-base))
	}
	end := len(passed) - 1
	for gone := max(0, passed[0].gone-base); gone <= passed[end].gone-base; gone++ {
		counted[end] = passed[end].with(gone)
		if counted[end].counts(next) && explains(counted, last.Status.Phase, next, minimumChanged) {
			return true
		}
	}
	return false
}

// explains says whether a status may follow a phase, when these moments have passed. The write of a status fails if the PodGroup has
// changed meanwhile. So its minimum is the one that the status describes.
func explains(passed []moment, last schedulingv1beta1.PodGroupPhase, next *schedulingv1beta1.PodGroup, minimumChanged bool) bool {
	minimum, now := int(next.Spec.MinMember), passed[len(passed)-1]
	lost := now.losses > passed[0].losses
	kept := true
	for i := 1; i < len(passed) && !minimumChanged; i++ {
		tookIt := passed[i].losses > passed[i-1].losses && passed[i-1].seated >= minimum
		if tookIt && !slices.ContainsFunc(passed[i:], func(m moment) bool { return m.seated >= minimum || m.running == 0 }) {
			kept = false
		}
	}
	return slices.Contains(now.phases(last, minimum, lost, kept), next.Status.Phase)
}
