package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestAPageForAUserWithFewRights says what it does not know.
func TestAPageForAUserWithFewRights(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.CreateJob(mustertesting.MakeJob("job").Queue("no-such-queue").Task(mustertesting.MakeTask("worker", 1)))
	s.JobReason(s.Name("job"), "QueueNotFound")
	const user = "limited"
	_, err := s.Kube.RbacV1().Roles(s.Namespace).Create(s.Ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"jobs", "podgroups", "pods", "events"}, Verbs: []string{"get", "list"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.Kube.RbacV1().RoleBindings(s.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	var got answer
	// The API server's authorizer learns of a role a moment later.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got = called(s, "muster", "explain", "job", "job", "-n", s.Namespace, "--as", user)
		assert.Zero(c, got.code, got.err)
	}, mustertesting.Patience, mustertesting.Patience/30)
	assert.Contains(t, got.out, "The queue of the Job does not exist. (QueueNotFound)")
	assert.Contains(t, got.out, "What is missing here?\n  You may not list queues: nothing is said about quota.\n")
	assert.Contains(t, got.out, "You may not list nodes and the pods on them: nothing is said about room on nodes.\n")
}
