package jobplugins_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestCostOfALargeJob: a Job of 2,000 pods with svc and ssh is created with hardly a write beside its pods.
func TestCostOfALargeJob(t *testing.T) {
	const pods, others = 2000, 20
	s := newStage(t)
	before := controller.Requests.Writes()
	job := s.apply(mustertesting.MakeJob("j").Plugin("svc").Plugin("ssh").Task(mustertesting.MakeTask("w", pods)))
	s.admit(job)
	s.poll("the pods are created and counted", func(context.Context) bool { return s.get("j").Status.Pending == pods })
	cost := controller.Requests.Writes() - before - pods
	t.Logf("%d writes beside the pods", cost)
	assert.LessOrEqual(t, cost, int64(others))
	last := s.pod(fmt.Sprintf("j-w-%d", pods-1))
	assert.Less(t, last.Size(), 8<<10, "what a pod costs does not grow with the Job")
}

// refreshes measures the time from a change of replicas until the hosts and ssh's configuration name the new pod.
type refreshes struct {
	s              *stage
	hosts, secrets watch.Interface
	replicas       int32
}

func newRefreshes(s *stage, first int32) *refreshes {
	s.t.Helper()
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Plugin("svc").Plugin("ssh").Task(mustertesting.MakeTask("w", first)))
	s.awaitOwned("j")
	s.admit(job)
	s.pod(fmt.Sprintf("j-w-%d", first-1))
	r := &refreshes{s: s, replicas: first}
	var err error
	r.hosts, err = kube.CoreV1().ConfigMaps(s.namespace).Watch(s.t.Context(),
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "j-svc").String()})
	require.NoError(s.t, err)
	r.secrets, err = kube.CoreV1().Secrets(s.namespace).Watch(s.t.Context(),
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "j-ssh").String()})
	require.NoError(s.t, err)
	s.t.Cleanup(r.hosts.Stop)
	s.t.Cleanup(r.secrets.Stop)
	return r
}

// grow adds a pod to the Job and returns how long it took until both lists had it.
func (r *refreshes) grow() time.Duration {
	r.s.t.Helper()
	r.replicas++
	newest := fmt.Sprintf("j-w-%d", r.replicas-1)
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/tasks/0/replicas","value":%d}]`, r.replicas)
	start := time.Now()
	_, err := muster.BatchV1alpha1().Jobs(r.s.namespace).Patch(r.s.t.Context(), "j", "application/json-patch+json", []byte(patch), metav1.PatchOptions{})
	require.NoError(r.s.t, err)
	deadline := time.After(mustertesting.Timeout)
	hosts, secrets := r.hosts.ResultChan(), r.secrets.ResultChan()
	for hosts != nil || secrets != nil {
		select {
		case e := <-hosts:
			if m, ok := e.Object.(*corev1.ConfigMap); ok && strings.HasSuffix(m.Data["w.host"], newest+".j") {
				hosts = nil
			}
		case e := <-secrets:
			if m, ok := e.Object.(*corev1.Secret); ok && strings.Contains(string(m.Data["config"]), "Host "+newest+"\n") {
				secrets = nil
			}
		case <-deadline:
			require.Fail(r.s.t, "the lists do not name the new pod", newest)
		}
	}
	return time.Since(start)
}

// TestScalingRefreshesTheLists in place: same objects, same key. BenchmarkScaling tells how long it takes.
func TestScalingRefreshesTheLists(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := newRefreshes(s, 2)
	before := s.owned("j")
	for range 5 {
		r.grow()
	}
	after := s.owned("j")
	assert.Equal(t, before.hosts.UID, after.hosts.UID)
	assert.Equal(t, before.secret.UID, after.secret.UID)
	assert.Equal(t, before.secret.Data["id_rsa"], after.secret.Data["id_rsa"])
	assert.Equal(t, before.service, after.service)
	assert.Equal(t, before.policy, after.policy)
	s.pod("j-w-6")

	s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Replicas, j.Spec.Tasks[0].MinAvailable = 1, nil })
	s.poll("one host", func(context.Context) bool { return s.owned("j").hosts.Data["w.host"] == "j-w-0.j" })
}

// BenchmarkScaling reports the median and the longest time from the change of a spec to the refreshed lists.
func BenchmarkScaling(b *testing.B) {
	for _, pods := range []int32{2, 200} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			r := newRefreshes(newStage(b), pods)
			var took []time.Duration
			for b.Loop() {
				took = append(took, r.grow())
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms-p50")
			b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "ms-max")
		})
	}
}

// TestAnIdleJobCostsNothing: defaults of the API server are no difference.
func TestAnIdleJobCostsNothing(t *testing.T) {
	s := newStage(t)
	jobs := []*mustertesting.JobWrapper{
		team(),
		mustertesting.MakeJob("ray").Plugin("ray").Task(mustertesting.MakeTask("head", 1)).Task(mustertesting.MakeTask("worker", 1)),
	}
	jobs[0].Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: request()})
	for _, job := range jobs {
		job := s.apply(job)
		s.admit(job)
		s.poll("its pods are counted", func(context.Context) bool { return s.get(job.Name).Status.Pending == 2 })
	}
	before := controller.Requests.Writes()
	for _, job := range jobs {
		// A change of no meaning makes the controller look again.
		s.edit(job.Obj().Name, func(j *batchv1alpha1.Job) { j.Annotations = map[string]string{"note": "x"} })
	}
	s.PodsStay(4, "nothing happens", s.in())
	// A Job has the annotations of its PodGroup.
	assert.LessOrEqual(t, controller.Requests.Writes()-before, int64(len(jobs)))
}
