package queueing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// order gives a Command for a queue, as existing clients do, and returns its name.
func (s *fixture) order(action busv1alpha1.Action, queue string) string {
	s.Helper()
	target := s.queue(queue)
	command, err := muster.BusV1alpha1().Commands(s.namespace).Create(s.ctx, &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"},
		Action:     string(action),
		TargetObject: metav1.NewControllerRef(&metav1.ObjectMeta{Name: queue, UID: target.UID},
			schedulingv1beta1.SchemeGroupVersion.WithKind("Queue")),
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	return command.Name
}

func (s *fixture) commandGone(name string) {
	s.Helper()
	s.eventually("the command is deleted", func() bool {
		_, err := muster.BusV1alpha1().Commands(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func TestQueuesThatAlwaysExist(t *testing.T) {
	s := newFixture(t)
	for name, want := range map[string]schedulingv1beta1.QueueSpec{
		"root":    {Weight: 1, Reclaimable: new(bool), DequeueStrategy: "traverse"},
		"default": {Weight: 1, Reclaimable: ptrTo(true), DequeueStrategy: "traverse", Parent: "root"},
	} {
		s.eventually(name+" exists", func() bool {
			_, err := muster.SchedulingV1beta1().Queues().Get(s.ctx, name, metav1.GetOptions{})
			return err == nil
		})
		s.queueState(name, schedulingv1beta1.QueueStateOpen)
		assert.Equal(t, want, s.queue(name).Spec)
	}
	old := s.queue("default").UID
	require.NoError(t, clients.Delete(s.ctx, "default", muster.SchedulingV1beta1().Queues().Delete))
	s.eventually("default is made anew", func() bool {
		anew, err := muster.SchedulingV1beta1().Queues().Get(s.ctx, "default", metav1.GetOptions{})
		return err == nil && anew.UID != old && anew.Status.State == schedulingv1beta1.QueueStateOpen
	})
}

func ptrTo[T any](value T) *T { return &value }

func TestAQueueWithoutParentIsAChildOfTheRoot(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	queue := s.createQueue(mustertesting.MakeQueue(s.name("q"))).Name
	s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	s.eventually("the parent is set", func() bool { return s.queue(queue).Spec.Parent == "root" })
}

func TestClosingWaitsForWorkButNotForWhatIsCompleted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	queue := s.createQueue(mustertesting.MakeQueue(s.name("q"))).Name
	s.createGroup(mustertesting.MakePodGroup("done").Queue(queue)) // no minimum and no members: completed at once
	s.phase("done", schedulingv1beta1.PodGroupCompleted)
	s.createGroup(mustertesting.MakePodGroup("g").Queue(queue).MinMember(1))
	s.phase("g", schedulingv1beta1.PodGroupInqueue)

	s.commandGone(s.order(busv1alpha1.CloseQueueAction, queue))
	s.queueState(queue, schedulingv1beta1.QueueStateClosing)
	s.event("default", "Queue", queue, "CloseQueue", "Close queue succeed")
	s.createGroup(mustertesting.MakePodGroup("late").Queue(queue).MinMember(1))
	s.why("late", fmt.Sprintf("queue %q is Closing", queue))
	s.deleteGroup("late")
	s.deleteGroup("g")
	s.queueState(queue, schedulingv1beta1.QueueStateClosed)

	s.createGroup(mustertesting.MakePodGroup("later").Queue(queue).MinMember(1))
	s.why("later", fmt.Sprintf("queue %q is Closed", queue))
	s.commandGone(s.order(busv1alpha1.OpenQueueAction, queue))
	s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	s.phase("later", schedulingv1beta1.PodGroupInqueue)
}

func TestChildrenCloseAndOpenWithTheirParent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	parent := s.createQueue(mustertesting.MakeQueue(s.name("parent"))).Name
	child := s.createQueue(mustertesting.MakeQueue(s.name("child")).Parent(parent)).Name
	grandchild := s.createQueue(mustertesting.MakeQueue(s.name("grandchild")).Parent(child)).Name
	stubborn := s.createQueue(mustertesting.MakeQueue(s.name("stubborn")).Parent(parent)).Name
	all := []string{parent, child, grandchild, stubborn}
	for _, queue := range all {
		s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	}
	s.order(busv1alpha1.CloseQueueAction, stubborn)
	s.queueState(stubborn, schedulingv1beta1.QueueStateClosed)
	s.order(busv1alpha1.CloseQueueAction, parent)
	for _, queue := range all {
		s.queueState(queue, schedulingv1beta1.QueueStateClosed)
	}
	assert.Equal(t, "true", s.queue(child).Annotations[schedulingv1beta1.ClosedByParentAnnotation])

	newborn := s.createQueue(mustertesting.MakeQueue(s.name("newborn")).Parent(parent)).Name
	s.queueState(newborn, schedulingv1beta1.QueueStateClosed)
	s.commandGone(s.order(busv1alpha1.OpenQueueAction, child))
	s.event("default", "Queue", child, "OpenQueue", fmt.Sprintf(
		"Failed to open queue %s because its parent queue %s is closing or closed. Open the parent queue first.", child, parent))
	assert.Equal(t, schedulingv1beta1.QueueStateClosed, s.queue(child).Status.State)

	s.order(busv1alpha1.OpenQueueAction, parent)
	for _, queue := range []string{parent, child, grandchild, newborn} {
		s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	}
	s.eventually("the mark is taken back", func() bool {
		return s.queue(child).Annotations[schedulingv1beta1.ClosedByParentAnnotation] == "false"
	})
	assert.Equal(t, schedulingv1beta1.QueueStateClosed, s.queue(stubborn).Status.State, "it was closed for itself")
}

func TestCommandsAreExecutedOnce(t *testing.T) {
	s := newFixture(t)
	queue := s.createQueue(mustertesting.MakeQueue(s.name("q"))).Name
	s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	t.Run("in the order of their creation, also when they came while no controller ran", func(t *testing.T) {
		var last string
		whileDown(func() {
			s.order(busv1alpha1.OpenQueueAction, queue)
			s.order(busv1alpha1.CloseQueueAction, queue)
			s.order(busv1alpha1.OpenQueueAction, queue)
			last = s.order(busv1alpha1.CloseQueueAction, queue)
		})
		s.commandGone(last)
		s.queueState(queue, schedulingv1beta1.QueueStateClosed)
	})
	t.Run("not for a namesake of the queue", func(t *testing.T) {
		var stale string
		whileDown(func() {
			stale = s.order(busv1alpha1.OpenQueueAction, queue)
			require.NoError(t, clients.Delete(s.ctx, queue, muster.SchedulingV1beta1().Queues().Delete))
		})
		s.commandGone(stale)
		s.createQueue(mustertesting.MakeQueue(queue))
		s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	})
	t.Run("the root stays open", func(t *testing.T) {
		s.commandGone(s.order(busv1alpha1.CloseQueueAction, "root"))
		s.event("default", "Queue", "root", "CloseQueue", "Failed to close queue root: it cannot be closed.")
		assert.Equal(t, schedulingv1beta1.QueueStateOpen, s.queue("root").Status.State)
	})
	t.Run("nonsense is named", func(t *testing.T) {
		name := s.order(busv1alpha1.AbortJobAction, queue)
		s.commandGone(name)
		s.event("default", "Queue", queue, "UnknownCommand",
			fmt.Sprintf("Command %s/%s asks for %q; a queue knows OpenQueue and CloseQueue", s.namespace, name, "AbortJob"))
	})
}

func TestWhatIsInAQueue(t *testing.T) {
	s := newFixture(t)
	parent := s.createQueue(mustertesting.MakeQueue(s.name("parent"))).Name
	child := s.createQueue(mustertesting.MakeQueue(s.name("child")).Parent(parent)).Name
	s.createGroup(mustertesting.MakePodGroup("runs").Queue(child).MinMember(2))
	s.createPods("runs", "a", "b")
	s.bind("a", "b")
	s.createGroup(mustertesting.MakePodGroup("waits").Queue(child).MinMember(1))
	s.createGroup(mustertesting.MakePodGroup("pends").Queue(child).MinMember(1).MinResources("example.com/none", "1"))
	s.createGroup(mustertesting.MakePodGroup("done").Queue(child))

	want := schedulingv1beta1.QueueStatus{
		State: schedulingv1beta1.QueueStateOpen, Pending: 1, Inqueue: 1, Running: 1, Completed: 1,
		Allocated: mustertesting.Resources("cpu", "2", "pods", "2"),
	}
	s.eventually("the child is counted", func() bool { return assert.ObjectsAreEqual(text(want), text(s.queue(child).Status)) })
	s.eventually("what is kept for the one that waits is told", func() bool {
		reserved := s.queue(child).Status.Reservation.Resource
		return reserved.Pods().Value() == 1 && len(reserved) == 1
	})
	figures := func() *schedulingv1beta1.QueueFigures { return s.queue(child).Status.Muster.Figures }
	s.eventually("what runs and what is kept stand apart", func() bool {
		return figures() != nil && figures().Used == "pods 2" && figures().Reserved == "1"
	})
	s.eventually("the Jobs of the child are counted in the parent, too", func() bool {
		own, above := s.queue(child).Status.Muster, s.queue(parent).Status.Muster
		return own.Running == 1 && own.Waiting == 2 && above.Running == 1 && above.Waiting == 2
	})
	s.patchQueue(parent, `{"spec":{"capability":{"cpu":"8"}}}`)
	s.eventually("the limit is the parent's", func() bool { return figures().Used == "cpu 2/8" })
	s.eventually("the share is what it asks for", func() bool {
		deserved := s.queue(child).Status.Muster.Deserved
		return deserved.Cpu().Value() == 2 && deserved.Pods().Value() == 4 && s.queue("root").Status.Muster.Deserved.Cpu().Value() >= 1000
	})
	above := schedulingv1beta1.QueueStatus{State: want.State, Allocated: want.Allocated}
	s.eventually("the parent has what the child uses", func() bool {
		return assert.ObjectsAreEqual(text(above), text(s.queue(parent).Status))
	})

	before := s.queue(child).ResourceVersion
	s.never("the status is written though nothing changes", func() bool { return s.queue(child).ResourceVersion != before })

	t.Run("follows the queue of the PodGroup", func(t *testing.T) {
		_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Patch(s.ctx, "runs", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"queue":%q}}`, parent), metav1.PatchOptions{})
		require.NoError(t, err)
		s.eventually("the child is rid of it", func() bool {
			status := s.queue(child).Status
			return status.Running == 0 && len(status.Allocated) == 0 && s.queue(parent).Status.Running == 1
		})
	})
	t.Run("ends with the pods", func(t *testing.T) {
		s.setPhase(corev1.PodSucceeded, "a")
		s.deletePods("b")
		s.eventually("the parent is empty", func() bool { return len(s.queue(parent).Status.Allocated) == 0 })
	})
}

// text is a status in words, so that equal quantities compare as equal.
func text(status schedulingv1beta1.QueueStatus) string {
	return fmt.Sprint(status.State, status.Pending, status.Inqueue, status.Running, status.Unknown, status.Completed,
		status.Allocated.Cpu(), status.Allocated.Pods(), len(status.Allocated))
}
