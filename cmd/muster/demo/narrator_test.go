package demo

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// recorded is a narrator whose record is made by hand, at times of its own.
type recorded struct {
	*narrator
	told bytes.Buffer
	now  time.Time
}

func record() *recorded {
	r := &recorded{now: time.Now().Add(-time.Hour)}
	r.narrator = newNarrator(&r.told)
	r.start = r.now
	r.log = watchlog.New(func() time.Time { return r.now })
	return r
}

// after moves the time on, before the next thing that happens.
func (r *recorded) after(d time.Duration) *recorded {
	r.now = r.now.Add(d)
	return r
}

func (r *recorded) job(name string, phase batchv1alpha1.JobPhase) *recorded {
	r.log.RecordJob(mustertesting.MakeJob(name).Status(batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: phase}}).Obj())
	return r
}

func (r *recorded) pod(pod *mustertesting.PodWrapper) *recorded {
	r.log.RecordPod(pod.Obj())
	return r
}

func demoPod(job, task, index string) *mustertesting.PodWrapper {
	name := job + "-" + task + "-" + index
	return mustertesting.MakePod(name).UID(name).Task(task).Version(0).Annotation(batchv1alpha1.JobNameKey, job)
}

func TestPodsThatAreBoundTogetherMakeOneLine(t *testing.T) {
	r := record()
	worker0, worker1, ps := demoPod("tf", "worker", "0"), demoPod("tf", "worker", "1"), demoPod("tf", "ps", "0")
	r.after(time.Second).job("tf", batchv1alpha1.Pending).pod(worker0).pod(worker1).pod(ps)
	r.after(time.Second).pod(worker0.Node("n")).after(12 * time.Millisecond).pod(worker1.Node("n")).pod(ps.Node("n"))
	r.after(time.Second).job("tf", batchv1alpha1.Running)
	r.tellAll()
	assert.Equal(t, `    1.0s  tf is Pending
    1.0s  tf: 3 pods created (1 ps, 2 worker)
    2.0s  tf: 3 pods bound within 12 ms (1 ps, 2 worker)
    3.0s  tf is Running
`, r.told.String())
	r.told.Reset()
	r.tellAll()
	assert.Empty(t, r.told.String(), "nothing is told twice")
}

func TestAWaveThatGoesOnHoldsBackWhatCameLater(t *testing.T) {
	r := record()
	pods := []*mustertesting.PodWrapper{demoPod("tf", "worker", "0"), demoPod("tf", "worker", "1")}
	r.after(time.Second).pod(pods[0]).after(time.Millisecond).job("tf", batchv1alpha1.Pending).after(time.Millisecond)
	r.tellUntil(r.now.Add(-time.Millisecond))
	first := r.told.String()
	assert.Equal(t, "    1.0s  tf: pod tf-worker-0 created\n    1.0s  tf is Pending\n", first)

	r.after(time.Second).pod(pods[0].Node("n"))
	r.after(time.Millisecond).job("tf", batchv1alpha1.Running)
	r.after(time.Millisecond).pod(pods[1].Node("n"))
	r.told.Reset()
	r.tellUntil(r.now.Add(-time.Millisecond))
	assert.Empty(t, r.told.String(), "the phase waits for the wave that began before it")
}

func TestSinglePodsAreNamed(t *testing.T) {
	r := record()
	failed := demoPod("tf", "worker", "3").Node("n").Phase(corev1.PodFailed).Obj()
	failed.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}},
	}}
	killed := demoPod("spark", "driver", "0").Node("n").Phase(corev1.PodFailed).Terminating(time.Now()).Obj()
	killed.CreationTimestamp = metav1.Now()
	r.log.RecordPod(failed)
	r.log.RecordPod(killed)
	r.tellAll()
	assert.Contains(t, r.told.String(), "tf: pod tf-worker-3 failed with exit code 137")
	assert.NotContains(t, r.told.String(), "spark-driver-0 failed", "a pod that was killed has not failed")
}
