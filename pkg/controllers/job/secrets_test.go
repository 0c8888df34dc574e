package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestSubjectOf(t *testing.T) {
	assert.Equal(t, &rbacv1.Subject{Kind: "ServiceAccount", Namespace: "muster-system", Name: "muster-controller"},
		subjectOf("system:serviceaccount:muster-system:muster-controller"))
	assert.Equal(t, &rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "admin"}, subjectOf("admin"))
	assert.Equal(t, "User", subjectOf("system:serviceaccount:no-name").Kind)
}

// TestSecretsOfAJobThatHasEnded: the Job's own Secret goes, one of another owner with its name stays, and the RoleBinding goes last.
func TestSecretsOfAJobThatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		owned, fails, secretStays, bindingStays bool
	}{
		"its own":                     {owned: true},
		"of another owner":            {secretStays: true},
		"the API server deletes none": {owned: true, fails: true, secretStays: true, bindingStays: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Completed)
			meta := metav1.ObjectMeta{Namespace: job.Namespace, Name: "j-ssh", UID: "s"}
			owned := meta
			owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}
			d.shows(&rbacv1.RoleBinding{ObjectMeta: owned})
			if c.owned {
				meta = owned
			}
			d.shows(&corev1.Secret{ObjectMeta: meta})
			if c.fails {
				d.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewInternalError(assert.AnError)
				})
			}
			_, err := d.looks()
			assert.Equal(t, c.fails, err != nil, "%v", err)
			_, err = d.kube.CoreV1().Secrets(job.Namespace).Get(t.Context(), "j-ssh", metav1.GetOptions{})
			assert.Equal(t, c.secretStays, err == nil, "%v", err)
			_, err = d.kube.RbacV1().RoleBindings(job.Namespace).Get(t.Context(), "j-ssh", metav1.GetOptions{})
			assert.Equal(t, c.bindingStays, err == nil, "%v", err)
		})
	}
}

// TestARightTakesTime: a refusal after the RoleBinding was created is no problem, unless it lasts.
func TestARightTakesTime(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").Plugin("ssh").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
	d.shows(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: "j-ssh", UID: "b", CreationTimestamp: metav1.NewTime(d.time.Now()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secretsRole},
	})
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "j-ssh", assert.AnError)
	refuse := true
	d.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return refuse, nil, forbidden })
	after, err := d.looks()
	require.NoError(t, err)
	assert.LessOrEqual(t, after, time.Second)
	assert.Empty(t, d.told())

	d.time.SetTime(d.time.Now().Add(rightTime))
	_, err = d.looks()
	require.ErrorContains(t, err, "reading the secret j-ssh")

	refuse = false
	require.NoError(t, d.settles())
	_, err = d.kube.CoreV1().Secrets(job.Namespace).Get(t.Context(), "j-ssh", metav1.GetOptions{})
	require.NoError(t, err)
}

// TestAnEndedJobHasNoProblemWithoutARight (issue 40, 10): its RoleBinding is new, or is gone and still shown. Each takes the right away for a
// moment.
func TestAnEndedJobHasNoProblemWithoutARight(t *testing.T) {
	for name, age := range map[string]time.Duration{"the binding is gone": -1, "the binding is new": 0, "the binding is old": rightTime} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Plugin("ssh").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Completed)
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
				Namespace: job.Namespace, Name: "j-ssh", UID: "b", CreationTimestamp: metav1.NewTime(d.time.Now().Add(-age)),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)},
			}}
			d.shows(binding)
			if age < 0 {
				require.NoError(t, d.kube.RbacV1().RoleBindings(job.Namespace).Delete(t.Context(), "j-ssh", metav1.DeleteOptions{}))
			}
			allow := refuses(&d.kube.Fake, "get", "secrets")
			_, err := d.looks()
			if age == rightTime {
				require.ErrorContains(t, err, "reading the secret j-ssh")
				assert.Len(t, d.told(), 1, "it lasts")
				return
			}
			require.NoError(t, err)
			assert.Empty(t, d.told())
			assert.Equal(t, "because", d.job().Status.State.Message)

			allow()
			require.NoError(t, d.settles())
			assert.Empty(t, d.told())
		})
	}
}

// TestAChangedSecretIsRepairedBeforePodsAreCreated: no informer shows Secrets.
func TestAChangedSecretIsRepairedBeforePodsAreCreated(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").Plugin("ssh").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
	require.NoError(t, d.settles())
	secrets := d.kube.CoreV1().Secrets(job.Namespace)
	made, err := secrets.Get(t.Context(), "j-ssh", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, secrets.Delete(t.Context(), "j-ssh", metav1.DeleteOptions{}))
	pod, err := d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, d.pods.index.Delete(pod))
	require.NoError(t, d.kube.CoreV1().Pods(job.Namespace).Delete(t.Context(), "j-a-0", metav1.DeleteOptions{}))
	require.NoError(t, d.settles())
	again, err := secrets.Get(t.Context(), "j-ssh", metav1.GetOptions{})
	require.NoError(t, err, "it is there before the pod")
	assert.NotEqual(t, string(made.Data["id_rsa"]), string(again.Data["id_rsa"]), "the key was lost")
	_, err = d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
	require.NoError(t, err)
}
