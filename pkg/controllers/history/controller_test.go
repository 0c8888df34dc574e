package history

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/history"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

var began = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)

func at(after time.Duration) metav1.Time { return metav1.NewTime(began.Add(after)) }

// world is a Controller whose events come from the test.
type world struct {
	*Controller
	t     *testing.T
	clock *clocktesting.FakePassiveClock
}

// newWorld makes a Controller that keeps its history in a folder.
func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	kube, muster := kubefake.NewSimpleClientset(), musterfake.NewSimpleClientset()
	clock := clocktesting.NewFakePassiveClock(began.Add(2 * time.Hour))
	c, err := New(Config{
		Muster: muster, KubeInformers: informers.NewSharedInformerFactory(kube, 0), MusterInformers: externalversions.NewSharedInformerFactory(muster, 0),
		PhJobs: true, Store: history.New(dir, history.Limits{Bytes: 1 << 30}), Clock: clock,
	})
	require.NoError(t, err)
	return &world{c, t, clock}
}

// records reads the history.
func (w *world) records() (records []*historyv1alpha1.Record) {
	w.t.Helper()
	for entry, err := range w.store.Read(w.t.Context(), history.Scope{}) {
		require.NoError(w.t, err)
		records = append(records, entry.Record)
	}
	return records
}

func (w *world) sync(job metav1.Object) error {
	_, err := w.Sync(w.t.Context(), keyOf(job))
	return err
}

// pending is a Job of two pods that waits.
func pending(name string) *batchv1alpha1.Job {
	job := mustertesting.MakeJob(name).Namespace("team-a").UID("uid-of-"+name).Queue("research").Label("muster.sh/user", "ada").
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1500m", "memory", "1Gi")).Obj()
	job.CreationTimestamp = at(0)
	job.Status.State.Phase = batchv1alpha1.Pending
	return job
}

// after is the Job in a later state.
func after(job *batchv1alpha1.Job, phase batchv1alpha1.JobPhase, change ...func(*batchv1alpha1.JobStatus)) *batchv1alpha1.Job {
	later := job.DeepCopy()
	later.Status.State.Phase = phase
	for _, c := range change {
		c(&later.Status)
	}
	return later
}

func started(status *batchv1alpha1.JobStatus) { status.StartTime = new(at(10 * time.Minute)) }

func completed(status *batchv1alpha1.JobStatus) {
	status.CompletionTime = new(at(70 * time.Minute))
	status.RunningDuration = &metav1.Duration{Duration: time.Hour}
	status.RetryCount = 1
	status.State.Reason, status.State.Message = "Completed", "all tasks have completed"
}

// member is a pod of a Job that was bound at a time. It has ended if ended is not zero.
func member(job *batchv1alpha1.Job, name string, bound, ended time.Duration) *corev1.Pod {
	pod := mustertesting.MakePod(name).Namespace(job.Namespace).UID(name).Owner(job).Requests("cpu", "1500m", "memory", "1Gi").Obj()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(bound)}}
	if ended > 0 {
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(ended)}}}}
	}
	return pod
}

func TestARecordSaysHowAJobWent(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.leads = true
	job := pending("training")
	running := after(job, batchv1alpha1.Running, started)
	lean := after(running, batchv1alpha1.Completed, completed)
	lean.Spec.Tasks[0].Template = corev1.PodTemplateSpec{} // as the informer has it
	w.jobChanged(nil, job)
	w.jobChanged(job, running)
	evicted := member(job, "evicted", 10*time.Minute, 0)
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	w.clock.SetTime(began.Add(20 * time.Minute))
	w.podHandler().OnDelete(evicted)
	for _, pod := range []*corev1.Pod{member(job, "a", 30*time.Minute, 60*time.Minute), member(job, "b", 30*time.Minute, 70*time.Minute)} {
		require.NoError(t, w.pods.Add(pod))
	}
	w.clock.SetTime(began.Add(70 * time.Minute))
	w.jobChanged(running, lean)
	require.NoError(t, w.sync(job))

	require.Len(t, w.records(), 1)
	r := w.records()[0]
	assert.Equal(t, "3", r.Requests.Cpu().String())
	assert.Equal(t, "2Gi", r.Requests.Memory().String())
	minutes := 10. + 30 + 40
	assert.Equal(t, map[corev1.ResourceName]float64{"cpu": 1.5 * 60 * minutes, "memory": 60 * minutes * (1 << 30)}, r.ResourceSeconds)
	r.Requests, r.ResourceSeconds = nil, nil
	r.Created, r.Started, r.Ended = metav1.Time{}, nil, metav1.Time{}
	assert.Equal(t, &historyv1alpha1.Record{
		Kind: "Job", Namespace: "team-a", Name: "training", UID: "uid-of-training", User: "ada", Queue: "research",
		Phase: "Completed", Reason: "Completed", Message: "all tasks have completed",
		WaitSeconds: 600, RunSeconds: 3600, Restarts: 1, Evictions: 1, Pods: 2,
	}, r)
}

func TestARecordSaysHowAPhJobWent(t *testing.T) {
	w := newWorld(t, t.TempDir())
	job := &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: "train", UID: "uid-of-train", CreationTimestamp: at(0)},
		Spec:       primehubv1alpha1.PhJobSpec{UserID: "17", UserName: "bob", GroupID: "research"},
		Status: primehubv1alpha1.PhJobStatus{
			Phase: primehubv1alpha1.PhJobFailed, Reason: primehubv1alpha1.ReasonPodFailed, StartTime: new(at(time.Minute)), FinishTime: new(at(3 * time.Minute))},
	}
	queue := mustertesting.MakeQueue("q").Obj()
	queue.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: "research"}
	w.queues = queueLister(t, queue)
	w.phJobHandler().OnAdd(job, true)
	require.NoError(t, w.sync(job))
	require.Len(t, w.records(), 1)
	r := w.records()[0]
	assert.Equal(t, []string{"PhJob", "bob", "q", "Failed", "PodFailed"}, []string{r.Kind, r.User, r.Queue, r.Phase, r.Reason})
	assert.Equal(t, []int64{60, 120, 1}, []int64{r.WaitSeconds, r.RunSeconds, int64(r.Pods)})
}

// TestAnEndIsRecordedOnce: also by a controller that begins anew.
func TestAnEndIsRecordedOnce(t *testing.T) {
	dir := t.TempDir()
	ended := after(pending("training"), batchv1alpha1.Failed, started, completed)
	for range 3 {
		w := newWorld(t, dir)
		w.jobChanged(nil, ended)
		w.lead(t.Context())
		require.NoError(t, w.sync(ended))
		w.jobChanged(ended, ended)
		require.NoError(t, w.sync(ended))
		require.True(t, w.MayDelete(ended.UID, w.clock.Now()))
		w.deleted(ended)
		require.NoError(t, w.sync(ended))
		assert.Empty(t, w.entries, "nothing of it stays in memory")
		w.store.Close()
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(text), "\n"))
}

// TestAnUnwritableHistoryHoldsJobsForADay: none is deleted because its time is up, and its record is written as soon as that is possible.
func TestAnUnwritableHistoryHoldsJobsForADay(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	w := newWorld(t, filepath.Join(blocked, "history"))
	w.leads = true
	ended, user := after(pending("training"), batchv1alpha1.Completed, completed), after(pending("deleted"), batchv1alpha1.Completed, completed)
	for _, job := range []*batchv1alpha1.Job{ended, user} {
		w.jobChanged(nil, job)
		require.ErrorContains(t, w.sync(job), "making the folder of the history")
	}
	w.deleted(user) // by a user, who may
	assert.False(t, w.MayDelete(ended.UID, w.clock.Now().Add(-23*time.Hour)))
	assert.True(t, w.MayDelete(ended.UID, w.clock.Now().Add(-25*time.Hour)), "the API server does not fill up")
	assert.True(t, w.failing)

	require.NoError(t, os.Remove(blocked))
	for _, job := range []*batchv1alpha1.Job{ended, user} {
		require.NoError(t, w.sync(job))
	}
	assert.Len(t, w.records(), 2)
	assert.True(t, w.MayDelete(ended.UID, w.clock.Now()))
	assert.False(t, w.failing)
}

func TestAJobThatIsDeletedIsRecordedByTheLeader(t *testing.T) {
	for _, leads := range []bool{true, false} {
		w := newWorld(t, t.TempDir())
		w.leads = leads
		job := after(pending("training"), batchv1alpha1.Running, started)
		w.jobChanged(nil, job)
		w.deleted(cache.DeletedFinalStateUnknown{Key: "team-a/training", Obj: job})
		require.NoError(t, w.sync(job))
		assert.Empty(t, w.entries)
		if !leads {
			assert.Empty(t, w.records())
			continue
		}
		require.Len(t, w.records(), 1)
		r := w.records()[0]
		assert.Equal(t, []string{"Deleted", "deleted in phase Running", "3"}, []string{r.Phase, r.Message, r.Requests.Cpu().String()})
		assert.EqualValues(t, 110*60, r.RunSeconds)
	}
}

// TestLinesOnStandardOutput: a controller without a folder prints what ends from now on.
func TestLinesOnStandardOutput(t *testing.T) {
	w := newWorld(t, t.TempDir())
	var out bytes.Buffer
	w.store, w.sinks = nil, []history.Sink{history.Lines{Writer: &out}}
	earlier := after(pending("earlier"), batchv1alpha1.Completed, completed)
	w.jobChanged(nil, earlier)
	w.lead(t.Context())
	next := after(pending("next"), batchv1alpha1.Completed, func(status *batchv1alpha1.JobStatus) { status.CompletionTime = new(metav1.NewTime(w.clock.Now())) })
	w.jobChanged(nil, next)
	for _, job := range []*batchv1alpha1.Job{earlier, next} {
		require.NoError(t, w.sync(job))
	}
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
	assert.True(t, strings.HasPrefix(out.String(), `{"kind":"Job","namespace":"team-a","name":"next",`), out.String())
}

func queueLister(t *testing.T, queues ...*schedulingv1beta1.Queue) musterlisters.QueueLister {
	t.Helper()
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, queue := range queues {
		require.NoError(t, index.Add(queue))
	}
	return musterlisters.NewQueueLister(index)
}
