package phjob_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	pending   = primehubv1alpha1.PhJobPending
	preparing = primehubv1alpha1.PhJobPreparing
	running   = primehubv1alpha1.PhJobRunning
	succeeded = primehubv1alpha1.PhJobSucceeded
	failed    = primehubv1alpha1.PhJobFailed
	cancelled = primehubv1alpha1.PhJobCancelled
)

// TestAJobSucceeds leads a job from its submission to its end, and to the end of its pod.
func TestAJobSucceeds(t *testing.T) {
	w := newWorld(t, "4", "4")
	w.submit("job", "bob", 2)
	job := w.phase("job", preparing)
	pod := w.pod("job")
	assert.Equal(t, "base:1", pod.Spec.Containers[0].Image)
	assert.True(t, metav1.IsControlledBy(pod, job))
	assert.Equal(t, "phjob-"+string(job.UID)+"-0", pod.Annotations[schedulingv1beta1.GroupNameAnnotation])

	w.starts("job")
	w.says("job", primehubv1alpha1.ReasonPodRunning, "Job is currently running")
	assert.NotNil(t, w.job("job").Status.StartTime)
	assert.Equal(t, "job", w.job("job").Status.PodName)

	w.podStatus("job", `{"phase":"Succeeded"}`)
	job = w.phase("job", succeeded)
	w.says("job", primehubv1alpha1.ReasonPodSucceeded, "Job completed")
	assert.NotNil(t, job.Status.FinishTime)
	w.eventually("its quota is given back", func() bool { return len(w.groups()) == 0 })

	w.change("job", cancel)
	w.later(7*24*time.Hour - time.Hour)
	w.never("the pod goes before seven days", func() bool { return !w.hasPod("job") })
	w.later(2 * time.Hour)
	w.podGoes("job")
	assert.Equal(t, job.Status, w.job("job").Status, "the record stays, and a job that has ended is not cancelled")
}

// TestAJobFails: the status says how, also when no container has an end.
func TestAJobFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "8", "8")
	for name, c := range map[string]struct{ status, message string }{
		"exits": {`{"phase":"Failed","containerStatuses":[{"name":"main","image":"","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":3,"reason":"Error","message":"no such file"}}}]}`,
			"Job failed due to Error: no such file"},
		"evicted": {`{"phase":"Failed","reason":"Evicted","message":"The node was low on memory"}`, "Job failed due to Evicted: The node was low on memory"},
	} {
		w.submit(name, "bob", 1)
		w.starts(name)
		w.podStatus(name, c.status)
		w.phase(name, failed)
		w.says(name, primehubv1alpha1.ReasonPodFailed, c.message)
		assert.True(t, w.hasPod(name), "its log can be read")
	}
}

// TestCancel: in each phase that is not final, the job ends and its pod goes. The next job can use its quota.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("runs", "ann", 4)
	w.starts("runs")
	w.submit("waits", "bob", 4)
	w.submit("next", "lin", 4)
	w.says("waits", primehubv1alpha1.ReasonOverQuota,
		`Insufficient group/user quota: queue "`+w.group+`" has 0 cpu free of its capability, 4 needed`)
	w.says("next", primehubv1alpha1.ReasonOverQuota,
		"Insufficient group/user quota: an earlier job of the group waits, and jobs of a group start in the order of their creation")

	w.change("waits", cancel)
	w.phase("waits", cancelled)
	w.says("waits", primehubv1alpha1.ReasonCancelled, "Cancelled by user")
	assert.False(t, w.hasPod("waits"))

	w.change("runs", cancel)
	w.phase("runs", cancelled)
	assert.Equal(t, pending, w.job("next").Status.Phase, "the pod has not ended yet")
	w.podGoes("runs")
	w.phase("next", preparing)

	w.change("next", cancel)
	w.phase("next", cancelled)
	w.podGoes("next")
	before := w.job("next").Status
	w.change("next", cancel)
	assert.Equal(t, before, w.job("next").Status)
	w.eventually("nothing is left", func() bool { return len(w.groups()) == 0 })
}

// TestExample1 is that of PrimeHub's documentation: the group's quota is short, and all behind wait.
func TestExample1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("a", "bob", 2)
	w.submit("b", "pan", 4)
	w.submit("c", "lin", 2)
	w.phase("a", preparing)
	w.never("b or c starts", func() bool { return w.job("b").Status.Phase != pending || w.job("c").Status.Phase != pending })
	w.starts("a")
	w.podStatus("a", `{"phase":"Succeeded"}`)
	w.phase("b", preparing)
	assert.Equal(t, pending, w.job("c").Status.Phase)
}

// TestExample2 is that of PrimeHub's documentation. A job that lacks its user's quota blocks no other user's, however long it waits.
func TestExample2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("a", "bob", 2)
	w.submit("b", "bob", 4)
	w.says("b", primehubv1alpha1.ReasonOverQuota, `Insufficient group/user quota: user "bob" of queue "`+w.group+`" has 2 cpu free of its quota, 4 needed`)
	w.never("b starts", func() bool { return w.job("b").Status.Phase != pending })
	w.submit("c", "lin", 2)
	w.phase("a", preparing)
	w.phase("c", preparing)
	assert.Equal(t, pending, w.job("b").Status.Phase)
}

// TestJobsStartInTheOrderOfTheirCreation, whatever their names are. That includes jobs that the controller finds when it starts.
func TestJobsStartInTheOrderOfTheirCreation(t *testing.T) {
	w := newWorld(t, "4", "4")
	names := []string{"j5", "j4", "j3", "j2", "j1"}
	whileDown(func() {
		for i, name := range names {
			w.submit(name, fmt.Sprint("user-", i), 4)
		}
	})
	for _, name := range names {
		w.phase(name, preparing)
		w.eventually("all have a PodGroup", func() bool { return len(w.groups()) == len(names) })
		for _, other := range names {
			assert.True(t, other == name || w.job(other).Status.Phase == pending, "%s starts after %s", other, name)
		}
		names = names[1:]
		w.change(name, cancel)
		w.podGoes(name)
		w.phase(name, cancelled)
		w.eventually("its PodGroup is gone", func() bool { return len(w.groups()) == len(names) })
	}
}

// TestJobsInPreparationCount: a job that has its quota and no pod that runs keeps it. The hold of an ordinary PodGroup would end after a second
// here.
func TestJobsInPreparationCount(t *testing.T) {
	w := newWorld(t, "4", "4")
	w.submit("a", "bob", 4)
	w.pod("a")
	w.submit("b", "lin", 2)
	w.submit("c", "pan", 2)
	w.never("b or c starts", func() bool { return w.job("b").Status.Phase != pending || w.job("c").Status.Phase != pending })
	whileDown(func() {})
	w.never("b or c starts after a restart", func() bool { return w.job("b").Status.Phase != pending || w.job("c").Status.Phase != pending })
}

// TestAboveAWholeQuota: the group's, an ancestor's or the user's. Other jobs are not blocked.
func TestAboveAWholeQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "2")
	w.submit("group", "bob", 8)
	w.submit("user", "bob", 4)
	w.submit("fits", "bob", 2)
	for _, name := range []string{"group", "user"} {
		w.phase(name, failed)
		w.says(name, primehubv1alpha1.ReasonOverQuota, "Your instance type resource limit is bigger than your user or group quota.")
	}
	w.phase("fits", preparing)

	w.submit("waits", "ann", 2)
	w.submit("lowered", "pan", 2)
	w.phase("waits", preparing)
	w.says("lowered", primehubv1alpha1.ReasonOverQuota, `Insufficient group/user quota: queue "`+w.group+`" has 0 cpu free of its capability, 2 needed`)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller writes the queue's status
		q := w.queue()
		q.Spec.Muster.UserQuota.Default = mustertesting.Resources("cpu", "1")
		_, err := muster.SchedulingV1beta1().Queues().Update(t.Context(), q, metav1.UpdateOptions{})
		return err
	}))
	w.phase("lowered", failed)
	assert.Equal(t, preparing, w.job("waits").Status.Phase, "what has its quota keeps it")
}

// TestRequeue: a pod that does not run in time goes, and its job keeps its place. Other jobs can use its quota.
func TestRequeue(t *testing.T) {
	w := newWorld(t, "4", "4")
	w.submit("stuck", "bob", 4)
	w.submit("other", "lin", 4)
	first := w.pod("stuck")
	w.podStatus("stuck", `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node fits"}]}`)
	w.says("stuck", primehubv1alpha1.ReasonPodPending, "no node fits")
	w.later(startTimeout) // to the controllers, each new pod has been there for so long
	w.eventually("it went back to its queue, again and again", func() bool { return w.job("stuck").Status.Requeued > 3 })
	w.later(-startTimeout)
	w.phase("stuck", preparing)
	w.eventually("another pod is made, as it is still the first in its queue", func() bool { return w.pod("stuck").UID != first.UID })
	w.eventually("the PodGroups of before are gone", func() bool { return len(w.groups()) == 2 })
	other := w.job("other")
	assert.Equal(t, pending, other.Status.Phase)
	assert.Zero(t, other.Status.Requeued, "it never came first")

	w.change("stuck", func(job *primehubv1alpha1.PhJob) { job.Spec.RequeueLimit = ptr.To(job.Status.Requeued) })
	w.later(startTimeout)
	w.phase("stuck", failed)
	w.says("stuck", primehubv1alpha1.ReasonOverRequeueLimit, "Job failed due to System Error: phJob has failed because it was requeued more than specified times")
	w.podGoes("stuck")
	w.eventually("it is the other's turn", func() bool { return w.job("other").Status.Phase == preparing || w.job("other").Status.Requeued > 0 })
}

// TestTheReasonOfARequeueStays until the job starts again.
func TestTheReasonOfARequeueStays(t *testing.T) {
	w := newWorld(t, "4", "4")
	w.submit("stuck", "bob", 4)
	w.pod("stuck")
	w.podStatus("stuck", `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node fits"}]}`)
	w.says("stuck", primehubv1alpha1.ReasonPodPending, "no node fits")
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller writes the queue's status
		q := w.queue()
		q.Spec.Capability = mustertesting.Resources("cpu", "4")
		q.Spec.Muster.MaxRunningJobs = ptr.To[int32](0)
		_, err := muster.SchedulingV1beta1().Queues().Update(t.Context(), q, metav1.UpdateOptions{})
		return err
	}))
	w.later(startTimeout)
	w.eventually("it says why it waits", func() bool {
		status := w.job("stuck").Status
		return status.Phase == pending && status.Requeued == 1 && strings.Contains(status.Message, "maxRunningJobs")
	})
	assert.False(t, w.hasPod("stuck"))
}

// TestTimeout: a job that has run for as long as it may fails, and its pod goes.
func TestTimeout(t *testing.T) {
	w := newWorld(t, "8", "8")
	w.submit("short", "bob", 1, func(job *primehubv1alpha1.PhJob) { job.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) })
	w.submit("default", "bob", 1)
	w.submit("endless", "bob", 1, func(job *primehubv1alpha1.PhJob) { job.Spec.ActiveDeadlineSeconds = ptr.To[int64](0) })
	for _, name := range []string{"short", "default", "endless"} {
		w.starts(name)
	}
	w.later(2 * time.Minute)
	w.phase("short", failed)
	w.says("short", primehubv1alpha1.ReasonOverActivateDeadline,
		"Job failed due to System Error: phJob has failed because it was active longer than specified deadline")
	w.podGoes("short")
	assert.Equal(t, running, w.job("default").Status.Phase)
	w.later(24 * time.Hour)
	w.phase("default", failed)
	assert.Equal(t, running, w.job("endless").Status.Phase)
}

// TestALostNode: the job stays Running, says so, and holds its quota. It goes on when the node comes back, and a cancelled one is gone at
// once.
func TestALostNode(t *testing.T) {
	w := newWorld(t, "4", "4")
	ready := func(status string) {
		_, err := kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	w.submit("job", "bob", 4)
	w.submit("next", "lin", 4)
	w.starts("job")
	ready("Unknown")
	t.Cleanup(func() {
		_, _ = kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	})
	w.says("job", primehubv1alpha1.ReasonPodRunning, "Node "+node+" which was running pod job is unresponsive")
	assert.Equal(t, running, w.job("job").Status.Phase)
	assert.Equal(t, pending, w.job("next").Status.Phase)
	ready("True")
	w.says("job", primehubv1alpha1.ReasonPodRunning, "Job is currently running")
	ready("Unknown")
	w.says("job", primehubv1alpha1.ReasonPodRunning, "Node "+node+" which was running pod job is unresponsive")
	w.change("job", cancel)
	w.phase("job", cancelled)
	w.eventually("the pod is gone, though no kubelet has ended it", func() bool { return !w.hasPod("job") })
	w.phase("next", preparing)
}

// TestAPodThatAUserDeletes: while it prepares another is made, while it runs the job fails.
func TestAPodThatAUserDeletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("job", "bob", 4)
	first := w.pod("job")
	require.NoError(t, kube.CoreV1().Pods(w.namespace).Delete(t.Context(), "job", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	w.eventually("another pod", func() bool { return w.pod("job").UID != first.UID })
	w.starts("job")
	require.NoError(t, kube.CoreV1().Pods(w.namespace).Delete(t.Context(), "job", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	w.phase("job", failed)
	w.says("job", primehubv1alpha1.ReasonPodUnknown, "Job failed because its pod job was deleted before it ended")
}

// TestBadInput: each ends in a reason on the object.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "8", "8")
	w.createType("odd", primehubv1alpha1.InstanceTypeSpec{LimitsCPU: 1, LimitsMemory: "lots"})
	w.createType("none", primehubv1alpha1.InstanceTypeSpec{LimitsCPU: 0, LimitsMemory: "1G"})
	_, err := muster.PrimehubV1alpha1().Images(w.namespace).Create(t.Context(), &primehubv1alpha1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: primehubv1alpha1.ImageSpec{URL: "x", GroupName: "others"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.CoreV1().Pods(w.namespace).Create(t.Context(), mustertesting.MakePod("foreign").Namespace(w.namespace).SchedulerName("none").Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change  func(*primehubv1alpha1.PhJobSpec)
		message string
	}{
		"group":    {func(s *primehubv1alpha1.PhJobSpec) { s.GroupID, s.GroupName = "x", "unknown-group" }, "cannot get group info: Group not found: unknown-group"},
		"image":    {func(s *primehubv1alpha1.PhJobSpec) { s.Image = "x" }, "Image not found: x"},
		"others":   {func(s *primehubv1alpha1.PhJobSpec) { s.Image = "theirs" }, "Image not found: theirs is not offered to group " + w.group},
		"type":     {func(s *primehubv1alpha1.PhJobSpec) { s.InstanceType = "x" }, "InstanceType not found: x"},
		"odd":      {func(s *primehubv1alpha1.PhJobSpec) { s.InstanceType = "odd" }, `InstanceType odd: spec.limits.memory is "lots"`},
		"none":     {func(s *primehubv1alpha1.PhJobSpec) { s.InstanceType = "none" }, "InstanceType none: spec.limits.cpu is 0"},
		"long":     {func(s *primehubv1alpha1.PhJobSpec) { s.Command = strings.Repeat("é", 100000) }, "spec.command has 200000 bytes, of 131071 at most"},
		"longuser": {func(s *primehubv1alpha1.PhJobSpec) { s.UserName = strings.Repeat("@", 60) }, "spec.userName is too long"},
		"foreign":  {func(*primehubv1alpha1.PhJobSpec) {}, "pod foreign exists and belongs to something else: create a PhJob of another name"},
	} {
		w.submit(name, "bob", 1, func(job *primehubv1alpha1.PhJob) { c.change(&job.Spec) })
		job := w.phase(name, failed)
		assert.Equal(t, primehubv1alpha1.ReasonPodCreationFailed, job.Status.Reason, name)
		assert.Contains(t, job.Status.Message, c.message, name)
	}
	long := strings.Repeat("n", 253)
	w.submit(long, "bob", 1)
	w.starts(long)
	w.eventually("nothing of the others is left", func() bool { return len(w.groups()) == 1 })
	_, err = kube.CoreV1().Pods(w.namespace).Get(t.Context(), "foreign", metav1.GetOptions{})
	assert.NoError(t, err, "what belongs to others stays")
}

// TestWhatAppearsJustInTime: an image that was created a moment before is found.
func TestWhatAppearsJustInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "8", "8")
	for _, name := range []string{"one", "two", "three"} {
		_, err := muster.PrimehubV1alpha1().Images(w.namespace).Create(t.Context(), &primehubv1alpha1.Image{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: primehubv1alpha1.ImageSpec{URL: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.submit(name, "bob", 1, func(job *primehubv1alpha1.PhJob) { job.Spec.Image = name })
		w.phase(name, preparing)
		assert.Equal(t, name, w.pod(name).Spec.Containers[0].Image)
	}
}

// TestJupyterServersShareThePool: a server that PrimeHub has labelled with group and user draws on the quota of both.
func TestJupyterServersShareThePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "2")
	server := mustertesting.MakePod("jupyter-bob").Namespace(w.namespace).Requests("cpu", "2").SchedulerName("none").Node(node).Obj()
	server.Labels = map[string]string{primehubv1alpha1.PodGroupLabel: primehubv1alpha1.Escape(w.group), primehubv1alpha1.PodUserLabel: "escaped-bob"}
	_, err := kube.CoreV1().Pods(w.namespace).Create(t.Context(), server, metav1.CreateOptions{})
	require.NoError(t, err)
	w.podStatus("jupyter-bob", `{"conditions":[{"type":"PodScheduled","status":"True"}]}`) // the kubelet has taken it
	w.submit("bobs", "bob", 1)
	w.says("bobs", primehubv1alpha1.ReasonOverQuota, `Insufficient group/user quota: user "bob" of queue "`+w.group+`" has 0 cpu free of its quota, 1 needed`)
	w.submit("lins", "lin", 2)
	w.phase("lins", preparing)
	require.NoError(t, kube.CoreV1().Pods(w.namespace).Delete(t.Context(), "jupyter-bob", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	w.phase("bobs", preparing)
}

// TestTheControllerRestarts in each phase: nothing is made twice, and nothing is lost.
func TestTheControllerRestarts(t *testing.T) {
	w := newWorld(t, "4", "4")
	whileDown(func() { w.submit("job", "bob", 4) })
	pod := w.pod("job")
	whileDown(func() {
		require.NoError(t, kube.CoreV1().Pods(w.namespace).Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "job"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}))
		w.podStatus("job", `{"phase":"Running"}`)
	})
	w.phase("job", running)
	whileDown(func() { w.podStatus("job", `{"phase":"Succeeded"}`) })
	w.phase("job", succeeded)
	assert.Equal(t, pod.UID, w.pod("job").UID)
	w.eventually("its quota is given back", func() bool { return len(w.groups()) == 0 })
}

// TestDeletion: the objects of a PhJob are deleted with it.
func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("job", "bob", 4)
	w.pod("job")
	require.NoError(t, muster.PrimehubV1alpha1().PhJobs(w.namespace).Delete(t.Context(), "job", metav1.DeleteOptions{}))
	w.eventually("its pod and its PodGroup go with it", func() bool { return !w.hasPod("job") && len(w.groups()) == 0 })
}

// TestAPhJobSaysWhenItStarts: as its PodGroup does, while it waits. When it runs it says so no more.
func TestAPhJobSaysWhenItStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	w.submit("a", "bob", 2)
	w.phase("a", preparing)
	at := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
	w.eventually("the plan is written", func() bool {
		group, err := groups.Get(t.Context(), w.groups()[0], metav1.GetOptions{})
		require.NoError(t, err)
		group.Status.Plan = &schedulingv1beta1.PodGroupPlan{
			Position: 1, ComputedAt: metav1.Now(), ExpectedStart: &schedulingv1beta1.ExpectedStart{At: at, Earliest: at, Latest: at},
		}
		_, err = groups.UpdateStatus(t.Context(), group, metav1.UpdateOptions{})
		return err == nil
	})
	w.eventually("the PhJob says when it starts", func() bool { start := w.job("a").Status.ExpectedStart; return start != nil && start.Equal(&at) })
	w.starts("a")
	w.eventually("it does not any more", func() bool { return w.job("a").Status.ExpectedStart == nil })
}
