package api_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// as returns the client of a user.
func as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	theirs, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return theirs
}

func admin(t testing.TB) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return kube
}

// bind gives a user one of the cluster's roles in the namespace default.
func bind(t *testing.T, user, role string) {
	t.Helper()
	bindings := admin(t).RbacV1().RoleBindings(metav1.NamespaceDefault)
	_, err := bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bindings.Delete(context.Background(), user, metav1.DeleteOptions{})) })
}

// eventually waits until a request ends as it should. Roles and policies reach the API server's caches a moment after they are written.
func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, mustertesting.Timeout, true,
		func(context.Context) (bool, error) { return met(), nil })
	require.NoError(t, err, "not seen: %s", what)
}

func dryRun(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, object map[string]any) error {
	t.Helper()
	_, err := client.Resource(gvr).Namespace(metav1.NamespaceDefault).Create(t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func commandOn(apiVersion, kind, target string) map[string]any {
	return map[string]any{
		"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": map[string]any{"name": "order"}, "action": "CloseQueue",
		"target": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": target, "uid": "00000000-0000-0000-0000-000000000000"},
	}
}

// TestQueueCommandsNeedTheRightToUpdateTheQueue: a user who may create Commands in a namespace commands only the queues that he may update.
func TestQueueCommandsNeedTheRightToUpdateTheQueue(t *testing.T) {
	const queueGroup, jobGroup = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
	bind(t, "orders-queues", "edit")
	give(t, "orders-queues", userNamed("orders-queues"), rbacv1.PolicyRule{
		APIGroups: []string{queues.Group}, Resources: []string{"queues"}, ResourceNames: []string{"theirs"}, Verbs: []string{"update"}})
	user := as(t, "orders-queues")
	requireForbidden := func(t *testing.T, err error) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "target: orders-queues may not order anything of queue others: that needs the right to update queues/others")
	}
	eventually(t, "the user orders its own queue", func() bool {
		return dryRun(t, user, commands, commandOn(queueGroup, "Queue", "theirs")) == nil
	})
	t.Run("of another queue", func(t *testing.T) {
		requireForbidden(t, dryRun(t, user, commands, commandOn(queueGroup, "Queue", "others")))
	})
	t.Run("of another queue, by another version of the API", func(t *testing.T) {
		requireForbidden(t, dryRun(t, user, commands, commandOn("scheduling.volcano.sh/v9", "Queue", "others")))
	})
	t.Run("of a Job", func(t *testing.T) {
		require.NoError(t, dryRun(t, user, commands, commandOn(jobGroup, "Job", "others")))
	})
	t.Run("of nothing", func(t *testing.T) {
		require.NoError(t, dryRun(t, user, commands, map[string]any{
			"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": map[string]any{"name": "order"}, "action": "CloseQueue",
		}))
	})
	t.Run("by the administrator", func(t *testing.T) {
		require.NoError(t, dryRun(t, client, commands, commandOn(queueGroup, "Queue", "others")))
	})
	t.Run("by a change of a Command", func(t *testing.T) {
		stored := create(t, commands, commandOn(jobGroup, "Job", "others"))
		stored.Object["target"] = commandOn(queueGroup, "Queue", "others")["target"]
		_, err := user.Resource(commands).Namespace(metav1.NamespaceDefault).Update(t.Context(), stored, metav1.UpdateOptions{})
		requireForbidden(t, err)
	})
	t.Run("labels may change", func(t *testing.T) {
		stored := create(t, commands, commandOn(queueGroup, "Queue", "others"))
		stored.SetLabels(map[string]string{"a": "b"})
		_, err := user.Resource(commands).Namespace(metav1.NamespaceDefault).Update(t.Context(), stored, metav1.UpdateOptions{})
		require.NoError(t, err)
	})
}

// TestOnlyWhoMayBindPodsWritesTheirAccounts: a user who may edit pods moves no charge, and frees none.
func TestOnlyWhoMayBindPodsWritesTheirAccounts(t *testing.T) {
	bind(t, "edits-pods", "edit")
	createServiceAccount(t, "default")
	user := as(t, "edits-pods")
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	podWith := func(annotations map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "charged", "annotations": annotations},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "main"}}},
		}
	}
	account := func(charged, group string) map[string]any {
		return map[string]any{"muster.sh/charged-to": charged, "muster.sh/bound-for": group}
	}
	eventually(t, "the user creates a pod", func() bool { return dryRun(t, user, pods, podWith(nil)) == nil })
	requireForbidden := func(t *testing.T, err error) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "metadata.annotations: muster.sh/charged-to, muster.sh/bound-for and muster.sh/topology-path are written by the scheduler")
	}
	for name, annotations := range map[string]map[string]any{
		"both": account("research", "uid"), "empty": {"muster.sh/charged-to": ""}, "the account": {"muster.sh/charged-to": "a"}, "the PodGroup": {"muster.sh/bound-for": "uid"},
	} {
		t.Run("of a new pod: "+name, func(t *testing.T) { requireForbidden(t, dryRun(t, user, pods, podWith(annotations))) })
	}
	t.Run("by an administrator, who may bind pods", func(t *testing.T) {
		require.NoError(t, dryRun(t, client, pods, podWith(account("research", "uid"))))
	})

	stored := create(t, pods, podWith(account("research", "uid")))
	for name, annotations := range map[string]map[string]any{
		"another account": account("other", "uid"), "another PodGroup": account("research", "other"), "none": {}, "no account": {"muster.sh/bound-for": "uid"},
	} {
		t.Run("of a pod that exists: "+name, func(t *testing.T) {
			changed := stored.DeepCopy()
			require.NoError(t, unstructured.SetNestedMap(changed.Object, annotations, "metadata", "annotations"))
			_, err := user.Resource(pods).Namespace(metav1.NamespaceDefault).Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			requireForbidden(t, err)
		})
	}
	t.Run("other annotations may change", func(t *testing.T) {
		changed := stored.DeepCopy()
		changed.SetAnnotations(map[string]string{"muster.sh/charged-to": "research", "muster.sh/bound-for": "uid", "a": "b"})
		_, err := user.Resource(pods).Namespace(metav1.NamespaceDefault).Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
	})
}

// TestTheClustersOwnRolesKnowMuster: view reads Muster's objects, edit and admin write a namespace's objects, and none writes queues or any
// status.
func TestTheClustersOwnRolesKnowMuster(t *testing.T) {
	kinds := map[schema.GroupVersionResource]map[string]any{
		jobs: parse(t, `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: theirs}, spec: {tasks: [
			{name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}]}}`),
		podGroups: parse(t, `{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: theirs}, spec: {minMember: 1}}`),
		commands:  commandOn("batch.volcano.sh/v1alpha1", "Job", "theirs"),
	}
	for _, c := range []struct {
		role   string
		writes bool
	}{{"view", false}, {"edit", true}, {"admin", true}} {
		t.Run(c.role, func(t *testing.T) {
			name := "has-" + c.role
			bind(t, name, c.role)
			user := as(t, name)
			for gvr, object := range kinds {
				theirs := user.Resource(gvr).Namespace(metav1.NamespaceDefault)
				eventually(t, "reads "+gvr.Resource, func() bool {
					_, err := theirs.List(t.Context(), metav1.ListOptions{})
					return err == nil
				})
				err := dryRun(t, user, gvr, object)
				if c.writes {
					require.NoError(t, err, gvr.Resource)
				} else {
					require.True(t, apierrors.IsForbidden(err), "%s: %v", gvr.Resource, err)
				}
				if gvr == commands {
					continue // have no status
				}
				_, err = theirs.UpdateStatus(t.Context(), &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{})
				require.True(t, apierrors.IsForbidden(err), "status of %s: %v", gvr.Resource, err)
			}
			_, err := user.Resource(queues).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": map[string]any{"name": name},
			}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.True(t, apierrors.IsForbidden(err), "queues: %v", err)
		})
	}
}

// TestUsersReadTheTopology: all users do, as the page for users says. Where that binding is left out, a role for the whole cluster is enough.
func TestUsersReadTheTopology(t *testing.T) {
	for _, gvr := range []schema.GroupVersionResource{hyperNodes, networkTopologies} {
		user := as(t, "reader-of-the-topology")
		eventually(t, "a user without a role reads "+gvr.Resource, func() bool {
			_, err := user.Resource(gvr).List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
		for _, role := range []string{"view", "edit", "admin"} {
			eventually(t, role+" reads "+gvr.Resource, func() bool {
				of, err := admin(t).RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
				return err == nil && slices.ContainsFunc(of.Rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.APIGroups, gvr.Group) && slices.Contains(r.Resources, gvr.Resource) && slices.Contains(r.Verbs, "list")
				})
			})
		}
	}
}
