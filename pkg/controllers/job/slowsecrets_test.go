package job

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestNamespacesTakeTurnsWithSlowSecrets: a tenant whose hundred Jobs want RSA keys keeps no other tenant waiting for more than one of them.
func TestNamespacesTakeTurnsWithSlowSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s := newSlowSecrets(func(key string) { order = append(order, key) })
		slow := func() *plugin.SlowSecret {
			return &plugin.SlowSecret{Name: "ssh", Make: func() (map[string][]byte, error) { return map[string][]byte{"id_rsa": nil}, nil }}
		}
		ask := func(namespace, name string) map[string][]byte {
			return s.get(mustertesting.MakeJob(name).Namespace(namespace).UID(namespace+name).Obj(), slow())
		}
		for i := range 100 {
			assert.Nil(t, ask("busy", fmt.Sprint(i)))
		}
		assert.Nil(t, ask("other", "j"))
		s.forget("busy/3")
		ctx, stop := context.WithCancel(t.Context())
		go s.worker.Run(ctx, 1)
		synctest.Wait()
		stop()
		synctest.Wait()
		assert.Equal(t, []string{"busy/0", "other/j", "busy/1", "busy/2", "busy/4"}, order[:5])
		assert.Len(t, order, 100, "one Secret for each Job, and none for the Job that was forgotten")
		assert.NotNil(t, ask("other", "j"))
		assert.Nil(t, s.get(mustertesting.MakeJob("j").Namespace("other").UID("another").Obj(), slow()), "a namesake gets a Secret of its own")
	})
}

// TestAJobWaitsForItsRSAKey: no pod is created before the key is there, and no problem is reported meanwhile. The Secret has the key that
// was made, once. A Secret of the Job that has lost its key gets another one.
func TestAJobWaitsForItsRSAKey(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{"no Secret": nil, "a Secret without a key": {Data: map[string][]byte{"id_rsa.pub": []byte("old")}}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Plugin("ssh", "--ssh-key-type=rsa").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
			if secret != nil {
				secret.ObjectMeta = metav1.ObjectMeta{Namespace: job.Namespace, Name: "j-ssh", UID: "s", Labels: plugin.PodsOf(job),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}}
				d.shows(secret)
			}
			require.NoError(t, d.settles())
			_, err := d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
			require.Error(t, err, "it waits")
			assert.Empty(t, d.told())
			_, err = d.objects.slowSecrets.Sync(t.Context(), keyOf(job))
			require.NoError(t, err)
			made := d.objects.slowSecrets.byJob[keyOf(job)].data["id_rsa"]
			require.NotEmpty(t, made)
			_, err = d.objects.slowSecrets.Sync(t.Context(), keyOf(job))
			require.NoError(t, err)
			require.NoError(t, d.settles())
			stored, err := d.kube.CoreV1().Secrets(job.Namespace).Get(t.Context(), "j-ssh", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, string(made), string(stored.Data["id_rsa"]))
			_, err = d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Empty(t, d.objects.slowSecrets.byJob, "the Secret keeps it")
		})
	}
}
