package job

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestOnlyWhatWasSeenIsDeleted: an object was deleted, and another of its name was created, and the informer does not show that yet.
// The controller deletes what the informer shows, never the other one.
func TestOnlyWhatWasSeenIsDeleted(t *testing.T) {
	meta := func(job *batchv1alpha1.Job) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: job.Namespace, Name: "it", UID: "seen",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}}
	}
	pods, groups := corev1.SchemeGroupVersion.WithResource("pods"), schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	for name, c := range map[string]struct {
		phase    batchv1alpha1.JobPhase
		pods     []int32
		resource schema.GroupVersionResource
		object   string                                      // the name
		make     func(job *batchv1alpha1.Job) runtime.Object // nil if stands makes it
	}{
		"a pod":      {phase: batchv1alpha1.Aborting, pods: []int32{0}, resource: pods, object: "j-a-0"},
		"a PodGroup": {phase: batchv1alpha1.Aborted, resource: groups, object: "j-u"},
		"a Service": {phase: batchv1alpha1.Completed, resource: corev1.SchemeGroupVersion.WithResource("services"), object: "it",
			make: func(job *batchv1alpha1.Job) runtime.Object { return &corev1.Service{ObjectMeta: meta(job)} }},
		"a ConfigMap": {phase: batchv1alpha1.Failed, resource: corev1.SchemeGroupVersion.WithResource("configmaps"), object: "it",
			make: func(job *batchv1alpha1.Job) runtime.Object { return &corev1.ConfigMap{ObjectMeta: meta(job)} }},
		"a RoleBinding": {phase: batchv1alpha1.Terminated, resource: rbacv1.SchemeGroupVersion.WithResource("rolebindings"), object: "it",
			make: func(job *batchv1alpha1.Job) runtime.Object { return &rbacv1.RoleBinding{ObjectMeta: meta(job)} }},
		"a NetworkPolicy": {phase: batchv1alpha1.Completed, resource: networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), object: "it",
			make: func(job *batchv1alpha1.Job) runtime.Object { return &networkingv1.NetworkPolicy{ObjectMeta: meta(job)} }},
		"a Command": {phase: batchv1alpha1.Running, resource: busv1alpha1.SchemeGroupVersion.WithResource("commands"), object: "it",
			make: func(job *batchv1alpha1.Job) runtime.Object { return commandFor(job, "it", "NoSuchAction") }},
	} {
		for variant, isReplaced := range map[string]bool{"as seen": false, "replaced": true} {
			t.Run(name+", "+variant, func(t *testing.T) {
				d := newDesk(t)
				job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), c.phase, c.pods...)
				if c.make != nil {
					d.shows(c.make(job))
				}
				tracker := d.kube.Tracker()
				if c.resource == groups || c.resource.Group == busv1alpha1.SchemeGroupVersion.Group {
					tracker = d.muster.Tracker()
				}
				live, err := tracker.Get(c.resource, job.Namespace, c.object)
				require.NoError(t, err)
				if isReplaced {
					another := live.DeepCopyObject()
					another.(metav1.Object).SetUID("another")
					require.NoError(t, tracker.Update(c.resource, another, job.Namespace))
				}
				_, err = d.looks()
				require.NoError(t, err, "the object to delete is gone, which is no error")
				_, err = tracker.Get(c.resource, job.Namespace, c.object)
				if isReplaced {
					assert.NoError(t, err)
				} else {
					assert.True(t, apierrors.IsNotFound(err), "%v", err)
				}
			})
		}
	}
}

// commandFor makes a Command for a Job. Its UID is its name.
func commandFor(job *batchv1alpha1.Job, name string, action busv1alpha1.Action) *busv1alpha1.Command {
	return &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{Namespace: job.Namespace, Name: name, UID: mustertesting.MakePod("x").UID(name).Obj().UID},
		Action:       string(action),
		TargetObject: metav1.NewControllerRef(job, build.JobKind),
	}
}

// TestAnObjectOfAnotherOwnerIsLeftAlone: a plugin wants a Service whose name is in use.
func TestAnObjectOfAnotherOwnerIsLeftAlone(t *testing.T) {
	for name, isShown := range map[string]bool{"the informer shows it": true, "only the API has it": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Plugin("svc").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
			theirs := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "j", UID: "theirs", Labels: map[string]string{"their": "label"}},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"their": "pods"}},
			}
			d.shows(theirs)
			if !isShown {
				require.NoError(t, d.objects.kinds.services.informer.GetIndexer().Delete(theirs))
			}
			require.NoError(t, d.settles())
			live, err := d.kube.CoreV1().Services(job.Namespace).Get(t.Context(), "j", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, theirs.Spec.Selector, live.Spec.Selector)
			assert.Equal(t, theirs.Labels, live.Labels)
			assert.Equal(t, plan.ReasonObjectNameTaken, d.job().Status.State.Reason)
			_, err = d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
			assert.True(t, apierrors.IsNotFound(err), "the pods would not find each other: %v", err)
		})
	}
}

// TestAnObjectThatIsBeingDeletedIsNotUpdated: a plugin wants a Service that differs from the live one.
func TestAnObjectThatIsBeingDeletedIsNotUpdated(t *testing.T) {
	for name, isDeleted := range map[string]bool{"it stays": false, "it is being deleted": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Plugin("svc").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
			live := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: job.Namespace, Name: "j", UID: "ours", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)},
			}}
			if isDeleted {
				live.DeletionTimestamp, live.Finalizers = &metav1.Time{Time: time.Unix(1000, 0)}, []string{"a/finalizer"}
			}
			d.shows(live)
			require.NoError(t, d.settles())
			updated, err := d.kube.CoreV1().Services(job.Namespace).Get(t.Context(), "j", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, isDeleted, len(updated.Spec.Selector) == 0)
			assert.Equal(t, isDeleted, len(updated.Labels) == 0)
		})
	}
}

// TestAClaimOfAnotherOwnerIsLeftAlone: only the API has it, the informer does not show it yet. A claim of the Job itself, which an
// earlier look has created, is as good as a new one.
func TestAClaimOfAnotherOwnerIsLeftAlone(t *testing.T) {
	for name, isOurs := range map[string]bool{"of another owner": false, "of the Job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			builder := mustertesting.MakeJob("j").UID("u").Task(mustertesting.MakeTask("a", 1))
			volume := batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}
			volume.VolumeClaimName = volumes.GeneratedName(builder.Obj(), &volume)
			job := d.stands(builder.Volume(volume), batchv1alpha1.Pending)
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: volume.VolumeClaimName, UID: "c"}}
			if isOurs {
				claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}
			}
			require.NoError(t, d.kube.Tracker().Add(claim))
			require.NoError(t, d.settles())
			told := d.told()
			if isOurs {
				assert.Empty(t, told)
				return
			}
			require.Len(t, told, 1, "there is one event")
			assert.Contains(t, told[0], "Warning PVCError Failed to create PVC, err: making the claim "+claim.Name+": it is there already")
			assert.Equal(t, eventClaimError, d.job().Status.State.Reason)
			pods, err := d.kube.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, pods.Items)
		})
	}
}

// TestCommandsAreExecutedOneAfterTheOther: the status remembers one Command. The next one waits until the informer shows that the last one
// is gone. Otherwise the last one would be executed a second time.
func TestCommandsAreExecutedOneAfterTheOther(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
	first, second := commandFor(job, "first", busv1alpha1.AbortJobAction), commandFor(job, "second", busv1alpha1.ResumeJobAction)
	first.ResourceVersion, second.ResourceVersion = "9", "10"
	d.shows(second)
	d.shows(first)
	exists := func(command *busv1alpha1.Command) bool {
		_, err := d.muster.BusV1alpha1().Commands(job.Namespace).Get(t.Context(), command.Name, metav1.GetOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
		return err == nil
	}
	require.NoError(t, d.settles())
	assert.Equal(t, "first", d.job().Status.HandledCommand)
	assert.Equal(t, batchv1alpha1.Aborting, d.job().Status.State.Phase)
	assert.False(t, exists(first))
	assert.True(t, exists(second))

	require.NoError(t, d.commands.index.Delete(first))
	require.NoError(t, d.settles())
	assert.Equal(t, "second", d.job().Status.HandledCommand)
	assert.False(t, exists(second))
	require.NoError(t, d.commands.index.Delete(second))
	require.NoError(t, d.settles())
	var actions []string
	for _, event := range d.told() {
		if _, begun, isAction := strings.Cut(event, "Start to execute action "); isAction {
			action, _, _ := strings.Cut(begun, ":")
			actions = append(actions, action)
		}
	}
	assert.Equal(t, []string{"AbortJob", "ResumeJob"}, actions)
}

// TestCommandsOfAJobThatIsNotShown: they are deleted if the API has no such Job. They stay if only the informer of Jobs is behind.
func TestCommandsOfAJobThatIsNotShown(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running)
	require.NoError(t, d.handlers.jobIndex.Delete(job))
	command := commandFor(job, "c", busv1alpha1.AbortJobAction)
	d.shows(command)
	sync := func() error {
		_, err := d.Sync(t.Context(), keyOf(job))
		return err
	}
	exists := func() bool {
		_, err := d.muster.BusV1alpha1().Commands(job.Namespace).Get(t.Context(), "c", metav1.GetOptions{})
		return err == nil
	}
	require.NoError(t, sync())
	assert.True(t, exists(), "the Job exists, and the informer will show it")
	allow := refuses(&d.muster.Fake, "get", "jobs")
	require.Error(t, sync())
	allow()
	assert.True(t, exists(), "it is not known whether the Job exists")
	require.NoError(t, d.muster.Tracker().Delete(batchv1alpha1.SchemeGroupVersion.WithResource("jobs"), job.Namespace, job.Name))
	require.NoError(t, sync())
	assert.False(t, exists())
}

// TestNothingIsDeletedBeforeTheStatusSaysSo: a pod that is deleted unannounced would look evicted to the next controller.
func TestNothingIsDeletedBeforeTheStatusSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*batchv1alpha1.Job)
		phase  batchv1alpha1.JobPhase // when the first pod is deleted
		pods   int                    // that stay
	}{
		"suspended":   {func(job *batchv1alpha1.Job) { suspend := true; job.Spec.Suspend = &suspend }, batchv1alpha1.Aborting, 0},
		"out of time": {func(job *batchv1alpha1.Job) { second := int64(1); job.Spec.ActiveDeadlineSeconds = &second }, batchv1alpha1.Terminating, 0},
		"scaled down": {func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 1 }, batchv1alpha1.Running, 1},
		"a new task":  {func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Name = "b"; job.Spec.Tasks[0].Replicas = 2 }, batchv1alpha1.Running, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), batchv1alpha1.Running, 0, 1)
			job := d.job()
			job.Status.StartTime = &metav1.Time{Time: d.time.Now().Add(-time.Hour)}
			c.change(job)
			job.Generation++
			d.shows(job)
			announced := -1
			d.kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				status := d.job().Status
				if announced < 0 {
					announced = int(status.Terminating)
					assert.Equal(t, c.phase, status.State.Phase)
				}
				return false, nil, nil
			})
			allow := refuses(&d.muster.Fake, "update", "jobs")
			require.Error(t, d.settles())
			assert.Equal(t, -1, announced, "a pod was deleted although the status could not be written")

			allow()
			require.NoError(t, d.settles())
			assert.Positive(t, announced)
			pods, err := d.kube.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, pods.Items, c.pods)
		})
	}
}

// TestJobsAreSyncedWhenTheirQueueChanges: no other event starts a sync of a Job that waits for its queue.
func TestJobsAreSyncedWhenTheirQueueChanges(t *testing.T) {
	queue := func(name string) *mustertesting.QueueWrapper {
		return mustertesting.MakeQueue(name).State(schedulingv1beta1.QueueStateOpen)
	}
	for name, c := range map[string]struct {
		before, after *schedulingv1beta1.Queue // nil if there is none
		blocker       string
	}{
		"the queue comes": {nil, queue("q").Obj(), plan.ReasonQueueNotFound},
		"the queue opens": {queue("q").State(schedulingv1beta1.QueueStateClosed).Obj(), queue("q").Obj(), plan.ReasonQueueNotOpen},
		"its child moves": {queue("child").Parent("q").Obj(), queue("child").Parent("other").Obj(), plan.ReasonQueueHasChildren},
		"its child goes":  {queue("child").Parent("q").Obj(), nil, plan.ReasonQueueHasChildren},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if (c.before == nil || c.before.Name != "q") && c.blocker != plan.ReasonQueueNotFound {
				d.shows(queue("q").Obj())
			}
			if c.before != nil {
				d.shows(c.before)
			}
			job := mustertesting.MakeJob("j").UID("u").Queue("q").Task(mustertesting.MakeTask("a", 1)).Obj()
			job.Generation = 1
			d.shows(job)
			require.NoError(t, d.settles())
			require.Equal(t, c.blocker, d.job().Status.State.Reason)

			handler := d.handlers.queueHandler()
			switch {
			case c.before == nil:
				d.shows(c.after)
				handler.OnAdd(c.after, false)
			case c.after == nil:
				require.NoError(t, d.queueIndex.Delete(c.before))
				handler.OnDelete(c.before)
			default:
				d.shows(c.after)
				handler.OnUpdate(c.before, c.after)
			}
			go d.worker.Run(t.Context(), 1)
			assert.Eventually(t, func() bool {
				_, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
				return err == nil
			}, 10*time.Second, 5*time.Millisecond, "the Job has no PodGroup")
		})
	}
}

// TestAJobOfANewQueueIsNotWarned: its queue has no state yet, because the queue controller is about to open it.
func TestAJobOfANewQueueIsNotWarned(t *testing.T) {
	d := newDesk(t)
	d.shows(mustertesting.MakeQueue("q").State("").Obj())
	job := mustertesting.MakeJob("j").UID("u").Queue("q").Task(mustertesting.MakeTask("a", 1)).Obj()
	job.Generation = 1
	d.shows(job)
	go d.worker.Run(t.Context(), 1)
	d.worker.Enqueue("default/j")
	assert.Eventually(t, func() bool {
		_, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
		return err == nil
	}, 10*time.Second, 5*time.Millisecond, "the Job has no PodGroup")
	assert.Empty(t, d.job().Status.State.Reason)
}
