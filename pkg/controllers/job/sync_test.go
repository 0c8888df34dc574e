package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	testingclock "k8s.io/utils/clock/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// desk is a controller of the Job j, or of another, that looks when a test tells it to. Its informers show what the test puts there, and
// its clients know of that, too. The Job is shown with the status that was written last.
type desk struct {
	*Controller
	t      *testing.T
	kube   *fake.Clientset
	muster *musterfake.Clientset
	events *record.FakeRecorder
	time   *testingclock.FakePassiveClock
	groups cache.Indexer
}

func newDesk(t *testing.T) *desk {
	d := &desk{
		t: t, kube: fake.NewSimpleClientset(), muster: musterfake.NewSimpleClientset(),
		events: record.NewFakeRecorder(100), time: testingclock.NewFakePassiveClock(time.Unix(10_000, 0)),
	}
	self := &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "self"}}}
	d.kube.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) { return true, self, nil })
	musterInformers := externalversions.NewSharedInformerFactory(d.muster, 0)
	d.Controller = New(Config{
		Kube: d.kube, Muster: d.muster, KubeInformers: informers.NewSharedInformerFactory(d.kube, 0), MusterInformers: musterInformers,
		Recorder: d.events, Clock: d.time,
	})
	clients.CheckPreconditions(&d.kube.Fake, d.kube.Tracker())
	clients.CheckPreconditions(&d.muster.Fake, d.muster.Tracker())
	d.groups = musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetIndexer()
	d.shows(mustertesting.MakeQueue(schedulingv1beta1.DefaultQueue).State(schedulingv1beta1.QueueStateOpen).Obj())
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		d.worker.Run(ended, 0)
	})
	return d
}

// shows puts an object where informers and clients find it, in place of one of its name.
func (d *desk) shows(object runtime.Object) {
	d.t.Helper()
	tracker, index, resource := d.muster.Tracker(), cache.Indexer(nil), schema.GroupVersionResource{}
	switch object.(type) {
	case *batchv1alpha1.Job:
		index, resource = d.handlers.jobIndex, batchv1alpha1.SchemeGroupVersion.WithResource("jobs")
	case *schedulingv1beta1.PodGroup:
		index, resource = d.groups, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	case *schedulingv1beta1.Queue:
		index, resource = d.queueIndex, schedulingv1beta1.SchemeGroupVersion.WithResource("queues")
	case *corev1.Pod:
		tracker, index, resource = d.kube.Tracker(), d.pods.index, corev1.SchemeGroupVersion.WithResource("pods")
	case *busv1alpha1.Command:
		index, resource = d.commands.index, busv1alpha1.SchemeGroupVersion.WithResource("commands")
	case plugin.Object:
		kind := d.kindOf(object)
		tracker, resource = d.kube.Tracker(), kind.resource.WithVersion("v1")
		if kind.informer != nil {
			index = kind.informer.GetIndexer()
		}
	}
	if index != nil {
		require.NoError(d.t, index.Update(object))
	}
	namespace := object.(metav1.Object).GetNamespace()
	err := tracker.Create(resource, object, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = tracker.Update(resource, object, namespace)
	}
	require.NoError(d.t, err)
}

// kindOf returns the kind of an object that plugins make or need, or of a claim.
func (d *desk) kindOf(object runtime.Object) *kind {
	d.t.Helper()
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		return d.objects.kinds.claims
	case *rbacv1.RoleBinding:
		return d.objects.kinds.bindings
	}
	kind, err := d.objects.kinds.of(object.(plugin.Object))
	require.NoError(d.t, err)
	return kind
}

// looks at the Job j.
func (d *desk) looks() (time.Duration, error) {
	d.t.Helper()
	return d.looksIn(d.t.Context())
}

// looksIn is looks with a context, which may have a logger.
func (d *desk) looksIn(ctx context.Context) (time.Duration, error) {
	d.t.Helper()
	after, err := d.Sync(ctx, metav1.NamespaceDefault+"/j")
	if job, getErr := d.muster.BatchV1alpha1().Jobs(metav1.NamespaceDefault).Get(d.t.Context(), "j", metav1.GetOptions{}); getErr == nil {
		require.NoError(d.t, d.handlers.jobIndex.Update(job))
	}
	return after, err
}

// job as its status was written last.
func (d *desk) job() *batchv1alpha1.Job {
	d.t.Helper()
	job, err := d.muster.BatchV1alpha1().Jobs(metav1.NamespaceDefault).Get(d.t.Context(), "j", metav1.GetOptions{})
	require.NoError(d.t, err)
	return job
}

// edit changes the spec of the Job, as a user does.
func (d *desk) edit(change func(*batchv1alpha1.JobSpec)) {
	d.t.Helper()
	job := d.job()
	change(&job.Spec)
	job.Generation++
	d.shows(job)
}

// told returns the events since the last call.
func (d *desk) told() []string {
	var told []string
	for len(d.events.Events) > 0 {
		told = append(told, <-d.events.Events)
	}
	return told
}

// refuses makes the API server refuse to do something, until allow is called.
func refuses(client *clienttesting.Fake, verb, resource string) (allow func()) {
	refused := true
	client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !refused {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "it", errors.New("not today"))
	})
	return func() { refused = false }
}

// since is a status of a Job that is in a phase since a time.
func (d *desk) since(p batchv1alpha1.JobPhase, ago time.Duration, reason string) batchv1alpha1.JobStatus {
	at := metav1.NewTime(d.time.Now().Add(-ago))
	return batchv1alpha1.JobStatus{
		State:        batchv1alpha1.JobState{Phase: p, Reason: reason, Message: "because", LastTransitionTime: at},
		Conditions:   []batchv1alpha1.JobCondition{{Status: p, LastTransitionTime: &at, Reason: reason, Message: "because"}},
		MinAvailable: 1,
	}
}

// TestAJobThatWasGivenMoreTimeIsNotDeleted: its user has raised ttlSecondsAfterFinished, and the informer does not show it yet.
func TestAJobThatWasGivenMoreTimeIsNotDeleted(t *testing.T) {
	d := newDesk(t)
	job := mustertesting.MakeJob("j").UID("u").TTL(60).Task(mustertesting.MakeTask("a", 1)).
		Status(d.since(batchv1alpha1.Completed, 61*time.Second, "PodsSucceeded")).Obj()
	job.ResourceVersion = "1"
	d.shows(job)
	var deleted bool
	d.muster.PrependReactor("delete", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.DeleteActionImpl).DeleteOptions
		if options.Preconditions.ResourceVersion != nil && *options.Preconditions.ResourceVersion != "2" {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "j", errors.New("it has changed"))
		}
		assert.Equal(t, job.UID, *options.Preconditions.UID)
		deleted = true
		return true, nil, nil
	})
	after, err := d.looks()
	require.NoError(t, err)
	assert.Equal(t, conflictPause, after, "it is looked at again")
	assert.False(t, deleted)
	assert.Empty(t, d.told())

	job = d.job()
	hour := int32(3600)
	job.ResourceVersion, job.Spec.TTLSecondsAfterFinished = "2", &hour
	d.shows(job)
	after, err = d.looks()
	require.NoError(t, err)
	assert.LessOrEqual(t, after, time.Hour-61*time.Second)
	assert.False(t, deleted)
	d.time.SetTime(d.time.Now().Add(time.Hour))
	_, err = d.looks()
	require.NoError(t, err)
	assert.True(t, deleted)
}

// TestAnExpiredJobWaitsForItsRecord: the history has to have it before it is deleted. An aborted Job has no record.
func TestAnExpiredJobWaitsForItsRecord(t *testing.T) {
	for phase, waits := range map[batchv1alpha1.JobPhase]bool{batchv1alpha1.Completed: true, batchv1alpha1.Aborted: false} {
		d := newDesk(t)
		recorded := false
		d.objects.mayDelete = func(uid types.UID, ended time.Time) bool {
			assert.Equal(t, types.UID("u"), uid)
			assert.WithinDuration(t, d.time.Now().Add(-61*time.Second), ended, time.Second)
			return recorded
		}
		d.shows(mustertesting.MakeJob("j").UID("u").TTL(60).Task(mustertesting.MakeTask("a", 1)).Status(d.since(phase, 61*time.Second, "Any")).Obj())
		deletions := 0
		d.muster.PrependReactor("delete", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			deletions++
			return true, nil, nil
		})
		after, err := d.looks()
		require.NoError(t, err)
		if waits {
			assert.Zero(t, deletions)
			assert.LessOrEqual(t, after, plan.RetrySoon, "it is looked at again")
			recorded = true
			_, err = d.looks()
			require.NoError(t, err)
		}
		assert.Equal(t, 1, deletions, phase)
	}
}

// TestASuspendedJobDoesNotExpire: it waits to go on. A Job that a Command or a policy has aborted expires.
func TestASuspendedJobDoesNotExpire(t *testing.T) {
	for name, c := range map[string]struct {
		suspended, expires bool
		reason             string
	}{
		"suspended": {suspended: true, reason: plan.ReasonSuspended},
		"aborted":   {reason: "CommandIssued", expires: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.shows(mustertesting.MakeJob("j").UID("u").TTL(60).Suspend(c.suspended).Task(mustertesting.MakeTask("a", 1)).
				Status(d.since(batchv1alpha1.Aborted, time.Hour, c.reason)).Obj())
			after, err := d.looks()
			require.NoError(t, err)
			_, err = d.muster.BatchV1alpha1().Jobs(metav1.NamespaceDefault).Get(t.Context(), "j", metav1.GetOptions{})
			assert.Equal(t, c.expires, apierrors.IsNotFound(err))
			if !c.expires {
				assert.Zero(t, after, "no time is waited for")
			}
		})
	}
}

// stands shows a Job of one task, its pods that run and its PodGroup, which is admitted.
func (d *desk) stands(builder *mustertesting.JobWrapper, p batchv1alpha1.JobPhase, indexes ...int32) *batchv1alpha1.Job {
	d.t.Helper()
	job := builder.UID("u").Status(d.since(p, time.Hour, "Because")).Obj()
	job.Generation = 1
	filled := defaults.Job(job, "")
	for _, index := range indexes {
		pod := build.Pod(filled, &filled.Spec.Tasks[0], index)
		pod.UID, pod.Status.Phase = types.UID(pod.Name), corev1.PodRunning
		pod.Spec.NodeName = "n"
		d.shows(pod)
	}
	group := build.PodGroup(filled, d.defaults.priorityOf, build.Additions{})
	group.UID, group.Status.Phase = "g", schedulingv1beta1.PodGroupInqueue
	d.shows(group)
	d.shows(job)
	return job
}

// settles looks until only time is left to wait for. Enough time passes for each status to be written.
func (d *desk) settles() (err error) {
	d.t.Helper()
	for range 5 {
		_, err = d.looks()
		d.time.SetTime(d.time.Now().Add(messageInterval))
	}
	return err
}

// TestWhatCannotBeDeletedIsSaid: by an event, and behind the reason for the phase, which stays.
func TestWhatCannotBeDeletedIsSaid(t *testing.T) {
	plain := func() *mustertesting.JobWrapper {
		return mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1))
	}
	for name, c := range map[string]struct {
		phase    batchv1alpha1.JobPhase
		pods     []int32
		resource string
		event    string
		problem  string
	}{
		"pods, aborting":     {batchv1alpha1.Aborting, []int32{0}, "pods", "FailedDelete", `Error deleting pods: deleting pod j-a-0: `},
		"pods, terminating":  {batchv1alpha1.Terminating, []int32{0}, "pods", "FailedDelete", `Error deleting pods: deleting pod j-a-0: `},
		"pods, completing":   {batchv1alpha1.Completing, []int32{0}, "pods", "FailedDelete", `Error deleting pods: deleting pod j-a-0: `},
		"PodGroup, aborted":  {batchv1alpha1.Aborted, nil, "podgroups", "PodGroupError", `Failed to delete PodGroup, err: deleting PodGroup j-u: `},
		"objects, completed": {batchv1alpha1.Completed, nil, "services", "PluginError", `Execute plugin when job delete failed, err: deleting the services j: `},
		"the Job, failed":    {batchv1alpha1.Failed, nil, "jobs", "FailedDelete", `Error deleting the expired job: deleting the expired Job: `},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			builder := plain()
			if c.resource == "jobs" {
				builder.TTL(60)
			}
			job := d.stands(builder, c.phase, c.pods...)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "j", UID: "s",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}}}
			d.shows(service)
			client := &d.muster.Fake
			if c.resource == "pods" || c.resource == "services" {
				client = &d.kube.Fake
			}
			allow := refuses(client, "delete", c.resource)
			require.Error(t, d.settles(), "it is tried again")
			why := c.problem + c.resource
			told := d.told()
			require.Len(t, told, 1, "it is said once")
			assert.Contains(t, told[0], "Warning "+c.event+" "+c.problem)
			state := d.job().Status.State
			assert.Equal(t, "Because", state.Reason)
			assert.Contains(t, state.Message, "because; not done yet: "+why)

			allow()
			_, err := d.looks()
			require.NoError(t, err)
			if c.resource == "jobs" {
				return // it is gone
			}
			require.NoError(t, d.settles())
			assert.Equal(t, "because", d.job().Status.State.Message)
		})
	}
}

// TestAnObjectThatCannotBeDeletedBlocksNothing: an expired Job goes although an object of it stays, and a Job that runs gets its pods.
func TestAnObjectThatCannotBeDeletedBlocksNothing(t *testing.T) {
	t.Run("of an expired Job", func(t *testing.T) {
		d := newDesk(t)
		job := d.stands(mustertesting.MakeJob("j").TTL(60).Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Completed)
		d.shows(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "j", UID: "s",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}}})
		refuses(&d.kube.Fake, "delete", "services")
		refuses(&d.muster.Fake, "delete", "podgroups")
		_, err := d.looks()
		require.Error(t, err)
		_, err = d.muster.BatchV1alpha1().Jobs(job.Namespace).Get(t.Context(), "j", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err))
	})
	t.Run("of one that runs", func(t *testing.T) {
		d := newDesk(t)
		d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), batchv1alpha1.Running, 0, 5)
		refuses(&d.kube.Fake, "delete", "pods")
		_, err := d.looks()
		require.Error(t, err)
		_, err = d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-1", metav1.GetOptions{})
		assert.NoError(t, err)
	})
}

// TestADeletedPodGroupIsNotSeenAnyMore: a Job may be resumed before the informer shows that its PodGroup is gone. It waits until the next
// PodGroup is admitted.
func TestADeletedPodGroupIsNotSeenAnyMore(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Suspend(true).Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Aborted)
	job := d.job()
	job.Status.State.Reason = plan.ReasonSuspended
	d.shows(job)
	_, err := d.looks()
	require.NoError(t, err)

	job = d.job()
	job.Spec.Suspend = nil
	d.shows(job)
	_, err = d.looks()
	require.NoError(t, err)
	require.Equal(t, batchv1alpha1.Pending, d.job().Status.State.Phase)
	pods, err := d.kube.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)
	group, err := d.muster.SchedulingV1beta1().PodGroups(job.Namespace).Get(t.Context(), batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, group.UID, "it is another one")

	group.UID, group.Status.Phase = "another", schedulingv1beta1.PodGroupInqueue
	d.shows(group)
	require.NoError(t, d.settles())
	_, err = d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
	assert.NoError(t, err)
}

// TestTheEstimateOfAJobMayChange: its PodGroup has what the Job says last. Other annotations stay.
func TestTheEstimateOfAJobMayChange(t *testing.T) {
	const key = schedulingv1beta1.RunningEstimateAnnotation
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Annotation("other", "x").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
	for _, estimate := range []struct {
		field      time.Duration
		annotation string
		want       string
	}{{time.Hour, "", "1h0m0s"}, {2 * time.Hour, "", "2h0m0s"}, {0, "5m", "5m"}, {0, "", ""}} {
		job := d.job()
		job.Spec.RunningEstimate = nil
		if delete(job.Annotations, key); estimate.annotation != "" {
			job.Annotations[key] = estimate.annotation
		}
		if estimate.field > 0 {
			job.Spec.RunningEstimate = &metav1.Duration{Duration: estimate.field}
		}
		d.shows(job)
		_, err := d.looks()
		require.NoError(t, err)
		group, err := d.muster.SchedulingV1beta1().PodGroups(job.Namespace).Get(t.Context(), batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
		require.NoError(t, err)
		d.shows(group)
		assert.Equal(t, estimate.want, group.Annotations[key])
		assert.Equal(t, "x", group.Annotations["other"])
	}
}

// TestReadyGoesWithAWriteAndAsksForNone: the column READY agrees with the counts of each status that is written. A Job whose status has
// no such text, as that of an earlier release, is not written for it.
func TestReadyGoesWithAWriteAndAsksForNone(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)), batchv1alpha1.Running, 0, 1, 2)
	require.NoError(t, d.settles())
	assert.Equal(t, "3/3", d.job().Status.RunningOfMinimum)

	d.becomes(corev1.PodSucceeded, "j-a-0")
	require.NoError(t, d.settles())
	assert.Equal(t, "2/3", d.job().Status.RunningOfMinimum)

	older := d.job()
	older.ResourceVersion, older.Status.RunningOfMinimum = "9", ""
	d.shows(older)
	d.muster.ClearActions()
	require.NoError(t, d.settles())
	for _, action := range d.muster.Actions() {
		assert.False(t, action.Matches("update", "jobs/status"))
	}
	assert.Empty(t, d.job().Status.RunningOfMinimum)
}

// TestAMissingPriorityClassIsAnErrorOfTheUser: the Job tells of it, so the log has no error line.
func TestAMissingPriorityClassIsAnErrorOfTheUser(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
	d.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "j-a-0", errors.New("no PriorityClass with name typo was found"))
	})
	err := d.settles()
	var users *worker.UsersError
	require.ErrorAs(t, err, &users)
	assert.Contains(t, d.job().Status.State.Message, "no PriorityClass with name typo was found")
}

// TestTheLogHasALineForTheStartAndTheEndOfAJob: at -v=1, and no line for what happens between.
func TestTheLogHasALineForTheStartAndTheEndOfAJob(t *testing.T) {
	d := newDesk(t)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	d.stands(mustertesting.MakeJob("j").Queue("default").Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Pending, 0, 1)
	settle := func() {
		for range 5 {
			_, err := d.looksIn(klog.NewContext(t.Context(), logger))
			require.NoError(t, err)
			d.time.SetTime(d.time.Now().Add(messageInterval))
		}
	}
	settle()
	d.becomes(corev1.PodSucceeded, "j-a-0")
	settle()
	d.becomes(corev1.PodSucceeded, "j-a-1")
	settle()
	require.Equal(t, batchv1alpha1.Completed, d.job().Status.State.Phase)

	lines := strings.Split(strings.TrimSpace(logger.GetSink().(ktesting.Underlier).GetBuffer().String()), "\n")
	require.Len(t, lines, 2, lines)
	assert.Regexp(t, `Job started job="default/j" queue="default" after=`, lines[0])
	assert.Regexp(t, `Job finished job="default/j" queue="default" phase="Completed"`, lines[1])
}

// TestTheStatusOfAnEndedJobIsWrittenSeldom: its last pods go one right after the other.
func TestTheStatusOfAnEndedJobIsWrittenSeldom(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)), batchv1alpha1.Failed, 0, 1, 2)
	var going []*corev1.Pod
	for _, one := range d.pods.index.List() {
		pod := one.(*corev1.Pod).DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: d.time.Now()}
		d.shows(pod)
		going = append(going, pod)
	}
	writes := func() (count int) {
		for _, action := range d.muster.Actions() {
			if action.Matches("update", "jobs/status") {
				count++
			}
		}
		return count
	}
	_, err := d.looks()
	require.NoError(t, err)
	require.EqualValues(t, 3, d.job().Status.Terminating)
	before := writes()
	var after time.Duration
	for _, pod := range going {
		d.time.SetTime(d.time.Now().Add(worker.CountsInterval / 4))
		require.NoError(t, d.pods.index.Delete(pod))
		after, err = d.looks()
		require.NoError(t, err)
	}
	assert.Equal(t, before, writes())
	assert.Equal(t, worker.CountsInterval/4, after)
	d.time.SetTime(d.time.Now().Add(after))
	_, err = d.looks()
	require.NoError(t, err)
	assert.Equal(t, before+1, writes())
	assert.Zero(t, d.job().Status.Terminating)

	d.time.SetTime(d.time.Now().Add(worker.CountsInterval))
	after, err = d.looks()
	require.NoError(t, err)
	assert.Zero(t, after)
	assert.Empty(t, d.localStates.byKey, "nothing is kept in mind of a Job that has ended")
}

// TestCountsAreWrittenOnceASecond: pods of a gang end together. One write tells of all, a second after the first end.
func TestCountsAreWrittenOnceASecond(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 5).MinAvailable(1)), batchv1alpha1.Running, 0, 1, 2, 3, 4)
	require.NoError(t, d.settles())
	require.EqualValues(t, 5, d.job().Status.Running)
	first := d.time.Now()
	for i := range 4 {
		d.time.SetTime(first.Add(time.Duration(i) * worker.CountsInterval / 5))
		d.showsPod(fmt.Sprintf("j-a-%d", i), corev1.PodSucceeded, 0)
		after, err := d.looks()
		require.NoError(t, err)
		assert.Equal(t, first.Add(worker.CountsInterval), d.time.Now().Add(after), "it is looked at again in time")
		assert.Zero(t, d.job().Status.Succeeded)
	}
	d.time.SetTime(first.Add(worker.CountsInterval))
	_, err := d.looks()
	require.NoError(t, err)
	assert.EqualValues(t, 4, d.job().Status.Succeeded)
}

// TestTheFirstStatusComesBeforeAnythingElse: clients see at once that a Job is Pending. Nothing is made for it before.
func TestTheFirstStatusComesBeforeAnythingElse(t *testing.T) {
	d := newDesk(t)
	job := mustertesting.MakeJob("j").UID("u").Task(mustertesting.MakeTask("a", 1)).Obj()
	job.Generation = 1
	d.shows(job)
	groups := func() int {
		found, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(found.Items)
	}
	allow := refuses(&d.muster.Fake, "update", "jobs")
	_, err := d.looks()
	require.Error(t, err)
	assert.Zero(t, groups())
	allow()
	_, err = d.looks()
	require.NoError(t, err)
	assert.Equal(t, batchv1alpha1.Pending, d.job().Status.State.Phase)
	assert.Equal(t, 1, groups())
}
