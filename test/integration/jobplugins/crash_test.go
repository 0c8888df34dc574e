package jobplugins_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

// TestOneKeyAndOneClaimForEachJob, whatever happens to the controller: two controllers work at the same time, as in a change of leader.
// Both are stopped and replaced again and again while the Jobs come.
func TestOneKeyAndOneClaimForEachJob(t *testing.T) {
	const jobs = 12
	s := newStage(t)
	secrets, err := kube.CoreV1().Secrets(s.namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer secrets.Stop()

	second := harness.StartJobController(t.Context(), controller.Env())
	defer second.Stop()
	for i := range jobs {
		s.apply(mustertesting.MakeJob(fmt.Sprintf("j%d", i)).Plugin("svc").Plugin("ssh").
			Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: request()}).Task(mustertesting.MakeTask("w", 1)))
		if i%4 == 3 {
			second.WhileDown(func() { whileDown(func() {}) })
		}
	}
	for i := range jobs {
		s.awaitOwned(fmt.Sprintf("j%d", i))
	}
	s.poll("a claim for each Job", func(context.Context) bool { return len(s.claims()) >= jobs })
	for i := range jobs {
		s.poll("the status tells of all", func(context.Context) bool {
			return len(s.get(fmt.Sprintf("j%d", i)).Status.ControlledResources) == 3
		})
	}
	assert.Len(t, s.claims(), jobs)
	keys := map[string]sets.Set[string]{} // name -> the keys that the Secret has had
	seen := sets.New[string]()
	for len(seen) < jobs {
		event := <-secrets.ResultChan()
		secret, ok := event.Object.(*corev1.Secret)
		require.True(t, ok, "%v", event)
		if keys[secret.Name] == nil {
			keys[secret.Name] = sets.New[string]()
		}
		keys[secret.Name].Insert(string(secret.Data["id_rsa"]))
		if secret.ResourceVersion == s.owned(strings.TrimSuffix(secret.Name, "-ssh")).secret.ResourceVersion {
			seen.Insert(secret.Name)
		}
	}
	for name, had := range keys {
		assert.Equal(t, 1, had.Len(), "keys that %s has had", name)
	}
}

// TestTenThousandPods: objects of their plugins are accepted, and omissions are reported.
func TestTenThousandPods(t *testing.T) {
	s := newStage(t)
	s.apply(mustertesting.MakeJob("j").Plugin("mpi").Plugin("env").
		Task(mustertesting.MakeTask("master", 1)).Task(mustertesting.MakeTask("worker", 9999)))
	o := s.awaitOwned("j")
	assert.Len(t, strings.Split(o.hosts.Data["worker.host"], "\n"), 9999)
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "PluginValueTooLong" && strings.Contains(e.Message, "VC_WORKER_HOSTS")
	})
}
