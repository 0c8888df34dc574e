package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// stage is a Controller that syncs when a test tells it to. Its informers never start. Each write of a Queue gives it the next resource
// version, as in the API.
type stage struct {
	*Controller
	t         *testing.T
	muster    *musterfake.Clientset
	events    *record.FakeRecorder
	informers musterinformers.SharedInformerFactory
	version   int
	shares    quota.Shares
	waiting   map[string]resources.Sums
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, muster: musterfake.NewSimpleClientset(), events: record.NewFakeRecorder(100), version: 100}
	clients.CheckPreconditions(&s.muster.Fake, s.muster.Tracker())
	s.muster.PrependReactor("update", "queues", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.version++
		action.(clienttesting.UpdateAction).GetObject().(*schedulingv1beta1.Queue).ResourceVersion = fmt.Sprint(s.version)
		return false, nil, nil
	})
	s.muster.PrependReactor("patch", "queues", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		var sent metav1.PartialObjectMetadata
		if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
			return true, nil, err
		}
		live, err := s.muster.Tracker().Get(patch.GetResource(), "", patch.GetName())
		if err == nil && sent.ResourceVersion != "" && sent.ResourceVersion != live.(*schedulingv1beta1.Queue).ResourceVersion {
			return true, nil, apierrors.NewConflict(queueResource, patch.GetName(), errors.New("changed"))
		}
		return false, nil, nil
	})
	s.informers = musterinformers.NewSharedInformerFactory(s.muster, 0)
	tracker, err := usage.New(informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0), s.informers)
	require.NoError(t, err)
	s.Controller, err = New(Config{
		MusterClient: s.muster, MusterInformers: s.informers, Usage: tracker, Recorder: s.events,
		Shares: func() quota.Shares { return s.shares }, Waiting: func() map[string]resources.Sums { return s.waiting },
	})
	require.NoError(t, err)
	return s
}

// add puts an open queue into the API and where the informer shows it.
func (s *stage) add(name, parent string) {
	s.t.Helper()
	queue := mustertesting.MakeQueue(name).Parent(parent).State(open).Obj()
	queue.UID, queue.ResourceVersion = mustertesting.MakePod("x").UID(name).Obj().UID, "1"
	require.NoError(s.t, s.muster.Tracker().Add(queue))
	require.NoError(s.t, s.informers.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
}

// show has the informer show a queue as it is in the API.
func (s *stage) show(name string) {
	s.t.Helper()
	require.NoError(s.t, s.informers.Scheduling().V1beta1().Queues().Informer().GetIndexer().Update(s.queue(name)))
}

func (s *stage) queue(name string) *schedulingv1beta1.Queue {
	s.t.Helper()
	queue, err := s.muster.SchedulingV1beta1().Queues().Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return queue
}

// command puts a Command into the API and where the informer shows it.
func (s *stage) command(name, queue, action string) *busv1alpha1.Command {
	s.t.Helper()
	command := commandFor(queue, action)
	command.Name, command.UID = name, mustertesting.MakePod("x").UID(name).Obj().UID
	command.ResourceVersion = fmt.Sprint(len(s.commands.List()) + 1)
	require.NoError(s.t, s.muster.Tracker().Add(command))
	require.NoError(s.t, s.commands.Add(command))
	return command
}

// exists tells whether the API has a Command.
func (s *stage) exists(name string) bool {
	s.t.Helper()
	_, err := s.muster.BusV1alpha1().Commands("ns").Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(s.t, err)
	return true
}

func (s *stage) sync(name string) (time.Duration, error) {
	s.t.Helper()
	return s.Sync(s.t.Context(), name)
}

// refuse makes the API server answer with an error, until allow is called.
func (s *stage) refuse(verb, resource string, answer error) (allow func()) {
	refused := true
	s.muster.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return refused, nil, answer })
	return func() { refused = false }
}

var (
	commandResource = schema.GroupResource{Resource: "commands"}
	queueResource   = schema.GroupResource{Resource: "queues"}
)

// TestACommandIsExecutedOnceThoughItCannotBeDeleted: a queue that is opened meanwhile stays open.
func TestACommandIsExecutedOnceThoughItCannotBeDeleted(t *testing.T) {
	s := newStage(t)
	s.add("q", "root")
	s.command("close", "q", "CloseQueue")
	allow := s.refuse("delete", "commands", apierrors.NewForbidden(commandResource, "close", errors.New("not today")))
	_, err := s.sync("q")
	require.Error(t, err, "the deletion is tried again")
	require.Equal(t, closed, s.queue("q").Status.State)

	reopened := s.queue("q")
	reopened.Status.State = open
	_, err = s.muster.SchedulingV1beta1().Queues().UpdateStatus(t.Context(), reopened, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.show("q")
	_, err = s.sync("q")
	require.Error(t, err)
	allow()
	_, err = s.sync("q")
	require.NoError(t, err)
	assert.Equal(t, open, s.queue("q").Status.State)
	assert.False(t, s.exists("close"))
	assert.Len(t, s.events.Events, 1, "there is one event")
}

// TestACommandIsDeletedOnlyOnceItHasHadItsEffect: a controller that stops in between finds it again.
func TestACommandIsDeletedOnlyOnceItHasHadItsEffect(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
	}{
		"the queue was changed meanwhile": {apierrors.NewConflict(queueResource, "q", errors.New("changed"))},
		"the queue is gone":               {apierrors.NewNotFound(queueResource, "q")},
		"the write is refused":            {apierrors.NewForbidden(queueResource, "q", errors.New("not today"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.add("q", "root")
			s.command("close", "q", "CloseQueue")
			allow := s.refuse("update", "queues", c.answer)
			_, err := s.sync("q")
			assert.Equal(t, !apierrors.IsNotFound(c.answer), err != nil, "it is tried again after a back-off, or once the queue is seen to be gone")
			assert.True(t, s.exists("close"))
			assert.Empty(t, s.events.Events)

			allow()
			_, err = s.sync("q")
			require.NoError(t, err)
			assert.Equal(t, closed, s.queue("q").Status.State)
			assert.False(t, s.exists("close"))
			assert.Len(t, s.events.Events, 1)
		})
	}
}

// TestANamesakeOfACommandIsNotDeleted: the Command was deleted, and another of its name was created, before the informer showed it.
func TestANamesakeOfACommandIsNotDeleted(t *testing.T) {
	s := newStage(t)
	s.add("q", "root")
	seen := s.command("c", "q", "CloseQueue")
	namesake := seen.DeepCopy()
	namesake.UID, namesake.Action = "another", "OpenQueue"
	require.NoError(t, s.muster.Tracker().Update(busv1alpha1.SchemeGroupVersion.WithResource("commands"), namesake, "ns"))
	_, err := s.sync("q")
	require.NoError(t, err)
	require.True(t, s.exists("c"))

	require.NoError(t, s.commands.Update(namesake))
	_, err = s.sync("q")
	require.NoError(t, err)
	assert.False(t, s.exists("c"))
	assert.Equal(t, open, s.queue("q").Status.State)
}

// TestCommandsForAQueueThatDoesNotExistAreDeleted: a queue that exists and that the informer does not show yet executes them.
func TestCommandsForAQueueThatDoesNotExistAreDeleted(t *testing.T) {
	s := newStage(t)
	s.command("c", "none", "CloseQueue")
	_, err := s.sync("none")
	require.NoError(t, err)
	assert.False(t, s.exists("c"))

	s.add("new", "root")
	s.command("d", "new", "CloseQueue")
	require.NoError(t, s.informers.Scheduling().V1beta1().Queues().Informer().GetIndexer().Delete(s.queue("new")))
	_, err = s.sync("new")
	require.NoError(t, err)
	assert.False(t, s.exists("d"))
	assert.Equal(t, closed, s.queue("new").Status.State)
}

// TestAQueueFromABackupIsWritten: after a restore of etcd the resource version is lower than that of the last write.
func TestAQueueFromABackupIsWritten(t *testing.T) {
	s := newStage(t)
	s.add("q", "root")
	restored := s.queue("q")
	restored.ResourceVersion = "50"
	executed := s.command("close", "q", "CloseQueue")
	_, err := s.sync("q")
	require.NoError(t, err)
	require.NoError(t, s.commands.Delete(executed))

	require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), restored, ""))
	s.show("q")
	s.muster.PrependReactor("update", "queues", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent := action.(clienttesting.UpdateAction).GetObject().(*schedulingv1beta1.Queue)
		return sent.ResourceVersion != restored.ResourceVersion, nil, apierrors.NewConflict(queueResource, "q", errors.New("changed"))
	})
	s.command("open", "q", "OpenQueue")
	_, err = s.sync("q")
	require.True(t, apierrors.IsConflict(err), err)
	again, err := s.sync("q")
	require.NoError(t, err)
	assert.Zero(t, again)
	assert.Equal(t, open, s.queue("q").Status.State)
	assert.False(t, s.exists("open"))
}

// TestAChildFollowsBeforeTheInformerShowsItsParent: it follows what was last written of the parent.
func TestAChildFollowsBeforeTheInformerShowsItsParent(t *testing.T) {
	s := newStage(t)
	s.add("p", "root")
	s.add("c", "p")
	for _, step := range []struct {
		action string
		want   schedulingv1beta1.QueueState
		mark   string
	}{{"CloseQueue", closed, "true"}, {"OpenQueue", open, "false"}} {
		command := s.command(step.action, "p", step.action)
		_, err := s.sync("p")
		require.NoError(t, err)
		require.NoError(t, s.commands.Delete(command))
		require.Equal(t, step.want, s.queue("p").Status.State)
		_, err = s.sync("c")
		require.NoError(t, err)
		assert.Equal(t, step.want, s.queue("c").Status.State)
		assert.Equal(t, step.mark, s.queue("c").Annotations[schedulingv1beta1.ClosedByParentAnnotation])
	}
}

// TestTheParentThatAUserHasSetMeanwhileStays: a queue without a parent is given the root as its parent. A parent that a user sets before
// the informer shows it is not overwritten.
func TestTheParentThatAUserHasSetMeanwhileStays(t *testing.T) {
	s := newStage(t)
	s.add("q", "")
	moved := s.queue("q")
	moved.ResourceVersion, moved.Spec.Parent = "2", "org"
	require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), moved, ""))
	_, err := s.sync("q")
	require.True(t, apierrors.IsConflict(err), err)
	assert.Equal(t, "org", s.queue("q").Spec.Parent)

	s.show("q")
	_, err = s.sync("q")
	require.NoError(t, err)
	assert.Equal(t, "org", s.queue("q").Spec.Parent)
}

// TestQueuesThatTakeNoJobsAreLabelled follows the label of a queue that gets a child, closes, and opens without a child.
func TestQueuesThatTakeNoJobsAreLabelled(t *testing.T) {
	s := newStage(t)
	label := func(name string) string {
		_, err := s.sync(name)
		require.NoError(t, err)
		s.show(name)
		return s.queue(name).Labels[schedulingv1beta1.TakesNoJobsLabel]
	}
	s.add("q", "root")
	assert.Empty(t, label("q"))
	s.add("c", "q")
	assert.Equal(t, "parent", label("q"))
	assert.Empty(t, label("c"))

	edited := s.queue("q")
	edited.Labels = map[string]string{"team": "a"}
	require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), edited, ""))
	s.show("q")
	assert.Equal(t, "parent", label("q"), "a user has removed it")
	assert.Equal(t, "a", s.queue("q").Labels["team"])

	command := s.command("close", "q", "CloseQueue")
	assert.Equal(t, "closed", label("q"))
	require.NoError(t, s.commands.Delete(command))
	require.NoError(t, s.children.Delete(s.queue("c")))
	s.command("open", "q", "OpenQueue")
	assert.Empty(t, label("q"))
	assert.Equal(t, map[string]string{"team": "a"}, s.queue("q").Labels)
}

// TestACommandThatIsGoingIsNotExecuted: it was taken back, and a finalizer keeps it.
func TestACommandThatIsGoingIsNotExecuted(t *testing.T) {
	s := newStage(t)
	s.add("q", "root")
	going := s.command("close", "q", "CloseQueue")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/keep"}
	require.NoError(t, s.commands.Update(going))
	_, err := s.sync("q")
	require.NoError(t, err)
	assert.Equal(t, open, s.queue("q").Status.State)
	assert.Empty(t, s.events.Events)
}

// TestTheMarkOfAClosedChildSurvivesACrash: it is set before the child is closed, and taken back after the child is open. A controller stops
// in between, here because the second write is refused. The next one brings the child in line.
func TestTheMarkOfAClosedChildSurvivesACrash(t *testing.T) {
	for name, c := range map[string]struct {
		parent, child schedulingv1beta1.QueueState
		mark          string
		refused       string // the verb of the second write
		between       string // the mark after the first write
		state         schedulingv1beta1.QueueState
		want          schedulingv1beta1.QueueState
	}{
		"the child closes": {parent: closed, child: open, mark: "false", refused: "update", between: "true", state: open, want: closed},
		"the child opens":  {parent: open, child: closed, mark: "true", refused: "patch", between: "true", state: open, want: open},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.add("p", "root")
			s.add("c", "p")
			for name, state := range map[string]schedulingv1beta1.QueueState{"p": c.parent, "c": c.child} {
				queue := s.queue(name)
				queue.Status.State = state
				if name == "c" {
					queue.Annotations = map[string]string{schedulingv1beta1.ClosedByParentAnnotation: c.mark}
				}
				require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), queue, ""))
				s.show(name)
			}
			allow := s.refuse(c.refused, "queues", apierrors.NewForbidden(queueResource, "c", errors.New("not today")))
			_, err := s.sync("c")
			require.Error(t, err)
			assert.Equal(t, c.between, s.queue("c").Annotations[schedulingv1beta1.ClosedByParentAnnotation])
			assert.Equal(t, c.state, s.queue("c").Status.State)

			allow()
			s.show("c")
			_, err = s.sync("c")
			require.NoError(t, err)
			assert.Equal(t, c.want, s.queue("c").Status.State)
			assert.Equal(t, fmt.Sprint(c.want == closed), s.queue("c").Annotations[schedulingv1beta1.ClosedByParentAnnotation])
		})
	}
}

// run starts the worker until the test ends.
func (s *stage) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.worker.Run(ctx, 1)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// soon waits until met.
func soon(t *testing.T, what string, met func() bool) {
	t.Helper()
	assert.Eventually(t, met, mustertesting.Timeout, 5*time.Millisecond, what)
}

// TestChildrenAreSyncedWhenTheirParentChanges: the children have no event of their own then.
func TestChildrenAreSyncedWhenTheirParentChanges(t *testing.T) {
	s := newStage(t)
	for name, parent := range map[string]string{"p": "root", "c": "p", "d": "p", "other": "root"} {
		s.add(name, parent)
	}
	before := s.queue("p")
	after := before.DeepCopy()
	after.Status.State = closing
	require.NoError(t, s.muster.Tracker().Update(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"), after, ""))
	s.show("p")
	s.queueHandler().OnUpdate(before, after)
	s.run()
	for _, name := range []string{"c", "d"} {
		soon(t, name+" is closed", func() bool { return s.queue(name).Status.State == closed })
	}
	assert.Equal(t, open, s.queue("other").Status.State)
}

// TestUsageIsCountedUpToTheRoot: a queue uses what all queues below it use.
func TestUsageIsCountedUpToTheRoot(t *testing.T) {
	s := newStage(t)
	s.add("root", "")
	s.add("p", "root")
	s.add("c", "p")
	for _, name := range []string{"root", "p", "c"} {
		s.usage.Ledger().SetQueue(s.queue(name))
	}
	s.usage.Ledger().Charge("pod", "c", resources.List{corev1.ResourceCPU: 1500})
	s.countLater("c", false)
	s.run()
	for _, name := range []string{"c", "p", "root"} {
		soon(t, name+" counts what is used", func() bool { return s.queue(name).Status.Allocated.Cpu().MilliValue() == 1500 })
	}
}

// TestJobsAreCountedUpToTheRoot (issue 44, 3): running and waiting are summed up as used is. Inqueue waits, and Unknown runs.
func TestJobsAreCountedUpToTheRoot(t *testing.T) {
	s := newStage(t)
	s.add("root", "")
	s.add("p", "root")
	s.add("c", "p")
	s.add("other", "root")
	for _, name := range []string{"root", "p", "c", "other"} {
		s.usage.Ledger().SetQueue(s.queue(name))
	}
	for queue, phases := range map[string][]schedulingv1beta1.PodGroupPhase{
		"c": {schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupUnknown, schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupInqueue,
			schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupCompleted, ""},
		"other": {schedulingv1beta1.PodGroupRunning},
	} {
		for i, phase := range phases {
			group := mustertesting.MakePodGroup(fmt.Sprint(queue, i)).Queue(queue).Phase(phase).Obj()
			require.NoError(t, s.informers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Add(group))
			s.groupHandler().OnAdd(group, false)
		}
	}
	s.run()
	for name, want := range map[string][2]int32{"c": {2, 4}, "p": {2, 4}, "other": {1, 0}, "root": {3, 4}} {
		soon(t, name+" counts its Jobs", func() bool {
			own := s.queue(name).Status.Muster
			return own != nil && own.Running == want[0] && own.Waiting == want[1]
		})
	}
	assert.EqualValues(t, 1, s.queue("c").Status.Running, "Volcano's numbers are of the queue itself, by phase")
	assert.Zero(t, s.queue("p").Status.Running)
}

// TestBuiltInQueues: root and default are created. An existing one that the informer does not show yet is kept.
func TestBuiltInQueues(t *testing.T) {
	for name, isThere := range map[string]bool{"there is none": false, "it was created meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if isThere {
				theirs := mustertesting.MakeQueue("default").Parent("root").Capability("cpu", "7").Obj()
				require.NoError(t, s.muster.Tracker().Add(theirs))
			}
			_, err := s.sync("default")
			require.NoError(t, err)
			queue := s.queue("default")
			assert.Equal(t, open, queue.Status.State)
			assert.Equal(t, "root", queue.Spec.Parent)
			assert.Equal(t, isThere, queue.Spec.Capability.Cpu().Value() == 7)

			_, err = s.sync("root")
			require.NoError(t, err)
			assert.Equal(t, open, s.queue("root").Status.State)
			assert.Empty(t, s.queue("root").Spec.Parent)
		})
	}
	s := newStage(t)
	_, err := s.sync("mine")
	require.NoError(t, err)
	_, err = s.muster.SchedulingV1beta1().Queues().Get(t.Context(), "mine", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "no other queue is created")
}
