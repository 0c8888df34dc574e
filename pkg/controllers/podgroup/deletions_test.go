package podgroup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// atWork is a member of gang g that is at work.
func atWork(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("g").Node("n").Phase(corev1.PodRunning)
}

// vanish has the informer tell that a pod is gone.
func (s *stage) vanish(pod *corev1.Pod) {
	s.t.Helper()
	require.NoError(s.t, s.kubeInformers.Core().V1().Pods().Informer().GetStore().Delete(pod))
	s.podHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: pod.Namespace + "/" + pod.Name, Obj: pod})
}

// TestALostMemberMakesARunningGangUnknown: a gang of two of which a runs on, and b goes. No replacement exists.
func TestALostMemberMakesARunningGangUnknown(t *testing.T) {
	now := time.Unix(1, 0)
	terminating := atWork("b").Terminating(now)
	preempted := func() *mustertesting.PodWrapper {
		return atWork("b").Condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler, "")
	}
	for name, c := range map[string]struct {
		seen []*corev1.Pod // b, from one update to the next; the last is gone then
		does func(s *stage)
		want any
	}{
		"it is deleted by force":           {seen: []*corev1.Pod{atWork("b").Obj()}, want: unknown},
		"it is deleted":                    {seen: []*corev1.Pod{atWork("b").Obj(), terminating.Obj()}, want: unknown},
		"it is deleted, and fails by that": {seen: []*corev1.Pod{atWork("b").Obj(), terminating.Obj(), atWork("b").Terminating(now).Phase(corev1.PodFailed).Obj()}, want: unknown},
		"it had failed before":             {seen: []*corev1.Pod{atWork("b").Phase(corev1.PodFailed).Obj(), atWork("b").Terminating(now).Phase(corev1.PodFailed).Obj()}, want: inqueue},
		"the job controller deletes it":    {seen: []*corev1.Pod{atWork("b").Obj()}, does: func(s *stage) { s.Removing("b") }, want: inqueue},
		"it deletes it with a grace period": {
			seen: []*corev1.Pod{atWork("b").Obj(), terminating.Obj(), atWork("b").Terminating(now).Phase(corev1.PodFailed).Obj()},
			does: func(s *stage) { s.Removing("b") }, want: inqueue,
		},
		"the job controller came late": {
			seen: []*corev1.Pod{atWork("b").Obj()}, does: func(s *stage) { s.Removing("b"); s.NotRemoved("b") }, want: unknown,
		},
		"the job controller asks again, late": {
			seen: []*corev1.Pod{atWork("b").Obj()}, does: func(s *stage) { s.Removing("b"); s.Removing("b"); s.NotRemoved("b") }, want: inqueue,
		},
		"the scheduler preempts it":           {seen: []*corev1.Pod{atWork("b").Obj(), preempted().Terminating(now).Obj()}, want: inqueue},
		"it was being deleted at the start":   {seen: []*corev1.Pod{terminating.Obj()}, want: inqueue},
		"the Job is gone, and its pods go":    {seen: []*corev1.Pod{atWork("b").Obj()}, does: (*stage).orphan, want: inqueue},
		"the one that runs had only finished": {seen: []*corev1.Pod{atWork("b").Obj()}, does: func(s *stage) { s.cache(atWork("a").Phase(corev1.PodSucceeded).Obj()) }, want: inqueue},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(running).Obj()
			s.serve(group)
			s.cache(group)
			s.cache(atWork("a").Obj())
			s.cache(c.seen[0])
			s.deletions.watch(s.usage.Pods())
			if c.does != nil {
				c.does(s)
			}
			for i := range c.seen[1:] {
				s.cache(c.seen[i+1])
				s.podHandler().OnUpdate(c.seen[i], c.seen[i+1])
			}
			s.vanish(c.seen[len(c.seen)-1])
			_, err := s.Sync(t.Context(), "default/g")
			require.NoError(t, err)
			assert.Equal(t, c.want, s.group("g").Status.Phase)
			assert.Empty(t, s.deletions.leaving, "nothing is remembered of a pod that is gone")
		})
	}
}

// orphan makes the PodGroup that of a Job that is gone.
func (s *stage) orphan() {
	s.t.Helper()
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(running).Owner(mustertesting.MakeJob("j").UID("j").Obj()).Obj()
	s.cache(group)
}

// TestNothingIsNotedOfAGroupThatCannotBe: a pod's annotation takes any text, and no sync would ever ask for it.
func TestNothingIsNotedOfAGroupThatCannotBe(t *testing.T) {
	s := newStage(t)
	s.deletions.watch(nil)
	pod := atWork("a").Group("long/text").Obj()
	s.cache(pod)
	s.vanish(pod)
	assert.Empty(t, s.deletions.groups)
}

// TestWhatIsNoLoss: a minimum above the members that have nodes does not make a gang Unknown by itself.
func TestWhatIsNoLoss(t *testing.T) {
	s := newStage(t)
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(running).Obj()
	s.serve(group)
	s.deletions.watch(nil)
	for _, name := range []string{"a", "b", "c"} {
		s.cache(atWork(name).Obj())
	}
	s.vanish(atWork("c").Obj())
	s.cache(group)
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	require.Equal(t, running, s.group("g").Status.Phase, "it was surplus")

	stage := s.group("g").DeepCopy()
	stage.Spec.MinMember = 4
	s.written.Forget("default/g")
	s.cache(stage)
	_, err = s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Equal(t, inqueue, s.group("g").Status.Phase, "the minimum was raised, or a stage of dependsOn opens")
}

// TestALossIsNotForgottenWhenTheStatusIsRefused: the next sync reports it.
func TestALossIsNotForgottenWhenTheStatusIsRefused(t *testing.T) {
	for name, answer := range map[string]error{
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "podgroups"}, "g", errors.New("changed")),
		"refusal":  apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "g", errors.New("not today")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(running).Obj()
			s.serve(group)
			s.cache(group)
			s.deletions.watch(nil)
			s.cache(atWork("a").Obj())
			s.vanish(atWork("b").Obj())
			refuse := true
			s.muster.PrependReactor("update", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) { return refuse, nil, answer })
			_, err := s.Sync(t.Context(), "default/g")
			require.Error(t, err)
			refuse = false
			_, err = s.Sync(t.Context(), "default/g")
			require.NoError(t, err)
			assert.Equal(t, unknown, s.group("g").Status.Phase)
		})
	}
}

// TestDeletionsSideBySide: handlers, the job controller and syncs ask and tell at the same time. Each gang that has lost members is reported
// once, and nothing is left.
func TestDeletionsSideBySide(t *testing.T) {
	l := newDeletions()
	l.watch(nil)
	const pods = 2000
	told := make(chan string, 2*pods)
	done := make(chan struct{})
	for half := range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := half; i < pods; i += 2 {
				name := fmt.Sprint(i)
				pod := mustertesting.MakePod(name).UID(name).Group(name).Node("n").Phase(corev1.PodRunning).Obj()
				if i%4 < 2 {
					l.removing(types.UID(name))
				}
				l.change(pod, mustertesting.MakePod(name).UID(name).Group(name).Node("n").Terminating(time.Unix(1, 0)).Obj())
				l.gone(pod)
			}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5 {
				for i := half; i < pods; i += 2 {
					if key := fmt.Sprint("default/", i); l.take(key) {
						told <- key
					}
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	for i := range pods {
		if key := fmt.Sprint("default/", i); l.take(key) {
			told <- key
		}
	}
	close(told)
	seen := map[string]int{}
	for key := range told {
		seen[key]++
	}
	assert.Len(t, seen, pods/2)
	for key, times := range seen {
		require.Equal(t, 1, times, key)
	}
	assert.Empty(t, l.leaving)
	assert.Empty(t, l.groups)
}
