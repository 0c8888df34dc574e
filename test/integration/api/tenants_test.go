package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/muster-sched/muster/manifests"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// separateTenants installs the policies that are off by default, for as long as the test runs.
func separateTenants(t *testing.T) {
	t.Helper()
	files, err := fs.Glob(manifests.FS, "tenancy/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		require.NoError(t, err)
		for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
			if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
				gvr.Resource = "validatingadmissionpolicybindings"
			}
			_, err = client.Resource(gvr).Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, client.Resource(gvr).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}))
			})
		}
	}
}

// give lets someone do what the rules say, in the whole cluster.
func give(t *testing.T, name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	rbac := admin(t).RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, rbac.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{to},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, rbac.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

func userNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// mayUse lets its owner use one queue.
func mayUse(queue string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{queues.Group}, Resources: []string{"queues"}, ResourceNames: []string{queue}, Verbs: []string{"use"}}
}

const tenantPod = `{apiVersion: v1, kind: Pod, metadata: {name: theirs}, spec: {containers: [{name: a, image: a}]}}`

// TestTenantsKeepToTheirQueues: two teams share a cluster. Red may use queue red, and act for robot; the ServiceAccount blue-deployer may
// use queue blue. Each attempt of red to charge another team is refused, with the field and the remedy.
func TestTenantsKeepToTheirQueues(t *testing.T) {
	bind(t, "red", "edit")
	give(t, "red-uses", userNamed("red"), mayUse("red"), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"robot"}, Verbs: []string{"impersonate"}})
	give(t, "blue-uses", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "blue-deployer"}, mayUse("blue"))
	createServiceAccount(t, "blue-deployer")
	createServiceAccount(t, "default")
	separateTenants(t)
	red, controller := as(t, "red"), as(t, "system:serviceaccount:muster-system:muster-controller")
	eventually(t, "red's own queue is open to it, and blue's is not", func() bool {
		own := dryRun(t, red, podGroups, merge(t, parse(t, smallPodGroup), `spec: {queue: red}`))
		others := dryRun(t, red, podGroups, merge(t, parse(t, smallPodGroup), `spec: {queue: blue}`))
		labelled := dryRun(t, red, podGroups, merge(t, parse(t, smallPodGroup), `{metadata: {labels: {muster.sh/user: blue}}, spec: {queue: red}}`))
		pod := dryRun(t, red, pods, merge(t, parse(t, tenantPod), `metadata: {annotations: {scheduling.volcano.sh/queue-name: blue}}`))
		return own == nil && apierrors.IsForbidden(others) && apierrors.IsForbidden(labelled) && apierrors.IsForbidden(pod)
	})
	const noQueue, noUser = "spec.queue: red may not use queue ", "metadata.labels[muster.sh/user]: red may not act for user blue: give your own name"
	const noPod = "metadata.annotations[scheduling.volcano.sh/queue-name]: neither red nor the ServiceAccount "
	check(t, map[string]judged{
		"a Job in its queue":                 {red, jobs, smallJob, `spec: {queue: red}`, ""},
		"a Job in another's queue":           {red, jobs, smallJob, `spec: {queue: blue}`, noQueue + "blue: name another queue"},
		"a Job without a queue":              {red, jobs, smallJob, `{}`, noQueue + "default: name another queue"},
		"a PodGroup in another's queue":      {red, podGroups, smallPodGroup, `spec: {queue: blue}`, noQueue + "blue: name another queue"},
		"a PodGroup without a queue":         {red, podGroups, smallPodGroup, `{}`, noQueue + "default: name another queue"},
		"the controller's PodGroup":          {controller, podGroups, smallPodGroup, `{metadata: {labels: {muster.sh/user: blue}}, spec: {queue: blue}}`, ""},
		"a plain pod":                        {red, pods, tenantPod, `{}`, ""},
		"a pod in its queue":                 {red, pods, tenantPod, `metadata: {annotations: {scheduling.volcano.sh/queue-name: red}}`, ""},
		"a pod in another's queue":           {red, pods, tenantPod, `metadata: {annotations: {scheduling.volcano.sh/queue-name: blue}}`, noPod + "default may use queue blue"},
		"a pod whose ServiceAccount may":     {red, pods, tenantPod, `{metadata: {annotations: {scheduling.volcano.sh/queue-name: blue}}, spec: {serviceAccountName: blue-deployer}}`, ""},
		"a pod whose ServiceAccount may not": {red, pods, tenantPod, `{metadata: {annotations: {scheduling.volcano.sh/queue-name: green}}, spec: {serviceAccountName: blue-deployer}}`, noPod + "blue-deployer may use queue green"},
		"a Job of its own name":              {red, jobs, smallJob, `{metadata: {labels: {muster.sh/user: red}}, spec: {queue: red}}`, ""},
		"a Job for whom it may impersonate":  {red, jobs, smallJob, `{metadata: {labels: {muster.sh/user: robot}}, spec: {queue: red}}`, ""},
		"a Job of another's name":            {red, jobs, smallJob, `{metadata: {labels: {muster.sh/user: blue}}, spec: {queue: red}}`, noUser},
		"a PodGroup of another's name":       {red, podGroups, smallPodGroup, `{metadata: {labels: {muster.sh/user: blue}}, spec: {queue: red}}`, noUser},
		"a pod of another's name":            {red, pods, tenantPod, `metadata: {labels: {muster.sh/user: blue}}`, noUser},
		"a Job with a template of another name": {red, jobs, smallJob, `spec: {queue: red, tasks: [{name: a, replicas: 1, template: {
			metadata: {labels: {muster.sh/user: blue}}, spec: {containers: [{name: a, image: a}]}}}]}`, noUser},
		"a question about a Job in its queue":      {red, startReviews, smallReview, `spec: {job: {spec: {queue: red}}}`, ""},
		"a question about a Job in another's":      {red, startReviews, smallReview, `spec: {job: {spec: {queue: blue}}}`, "spec.job.spec.queue: red may not use queue blue"},
		"a question about a Job without a queue":   {red, startReviews, smallReview, `{}`, "spec.job.spec.queue: red may not use queue default"},
		"a question about a Job without a spec":    {red, startReviews, smallReview, `spec: {job: {spec: null}}`, "spec.job.spec.queue: red may not use queue default"},
		"a question about a Job of another's name": {red, startReviews, smallReview, `spec: {job: {metadata: {labels: {muster.sh/user: blue}}, spec: {queue: red}}}`, noUser},
		"a question about a PodGroup in its queue": {red, startReviews, smallReview, groupInstead, ""},
		"a question about a PodGroup in another's": {red, startReviews, smallReview, strings.Replace(groupInstead, "red", "blue", 1), "spec.podGroup.spec.queue: red may not use queue blue"},
		"a question about a PodGroup of another's name": {red, startReviews, smallReview,
			strings.Replace(groupInstead, "{name: a}", "{name: a, labels: {muster.sh/user: blue}}", 1), noUser},
		"a question about another template": {red, startReviews, smallReview, `spec: {job: {spec: {queue: red, tasks: [{name: a, replicas: 1, template: {
			metadata: {labels: {muster.sh/user: blue}}}}]}}}`, noUser},
	})
	t.Run("changes", func(t *testing.T) { requireKeptFromChanging(t, red) })
}

// requireKeptFromChanging checks what a tenant makes of objects of its namespace that exist.
func requireKeptFromChanging(t *testing.T, red dynamic.Interface) {
	group := create(t, podGroups, merge(t, parse(t, smallPodGroup), `spec: {queue: blue}`)).GetName()
	patch := func(text string) error {
		object, err := resource(podGroups).Get(t.Context(), group, metav1.GetOptions{})
		require.NoError(t, err)
		_, err = red.Resource(podGroups).Namespace(metav1.NamespaceDefault).Update(t.Context(),
			&unstructured.Unstructured{Object: merge(t, object.Object, text)}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.NoError(t, patch(`spec: {minMember: 3}`))
	require.NoError(t, patch(`spec: {queue: red}`))
	require.ErrorContains(t, patch(`spec: {queue: green}`), "spec.queue: red may not use queue green")
	require.NoError(t, patch(`metadata: {labels: {muster.sh/user: red}}`))
	require.ErrorContains(t, patch(`metadata: {labels: {muster.sh/user: blue}}`), "red may not act for user blue")

	started := create(t, podGroups, merge(t, parse(t, smallPodGroup), `{metadata: {name: started, labels: {muster.sh/user: red}}, spec: {queue: red}}`))
	require.NoError(t, unstructured.SetNestedField(started.Object, "Running", "status", "phase"))
	_, err := resource(podGroups).UpdateStatus(t.Context(), started, metav1.UpdateOptions{})
	require.NoError(t, err)
	group = "started"
	require.NoError(t, patch(`metadata: {labels: {a: b}}`))
	require.ErrorContains(t, patch(`metadata: {labels: {muster.sh/user: null}}`), "metadata.labels[muster.sh/user]: a PodGroup that has started keeps its user")
	require.ErrorContains(t, patch(`metadata: {labels: {muster.sh/user: robot}}`), "a PodGroup that has started keeps its user")
}

func createServiceAccount(t *testing.T, name string) {
	t.Helper()
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	_, err := client.Resource(accounts).Namespace(metav1.NamespaceDefault).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
}

// TestAResourceQuotaCountsJobs: how many Jobs, PodGroups and Commands a namespace has is limited by the API server itself.
func TestAResourceQuotaCountsJobs(t *testing.T) {
	kube := admin(t)
	namespace, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "counted-"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{}))
	})
	quotas := kube.CoreV1().ResourceQuotas(namespace.Name)
	for gvr, base := range map[schema.GroupVersionResource]string{jobs: smallJob, podGroups: smallPodGroup, commands: smallCommand} {
		t.Run(gvr.Resource, func(t *testing.T) {
			counted := corev1.ResourceName("count/" + gvr.GroupResource().String())
			one := corev1.ResourceList{counted: resourceapi.MustParse("1")}
			_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: gvr.Resource}, Spec: corev1.ResourceQuotaSpec{Hard: one},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			eventually(t, "the namespace is counted", func() bool {
				quota, err := quotas.Get(t.Context(), gvr.Resource, metav1.GetOptions{})
				_, known := quota.Status.Used[counted]
				return err == nil && known
			})
			try := func(name string) error {
				object := &unstructured.Unstructured{Object: parse(t, base)}
				object.SetName(name)
				_, err := client.Resource(gvr).Namespace(namespace.Name).Create(t.Context(), object, metav1.CreateOptions{})
				return err
			}
			require.NoError(t, try("first"))
			eventually(t, "the second is refused", func() bool { return apierrors.IsForbidden(try("second")) })
			require.ErrorContains(t, try("second"), "exceeded quota: "+gvr.Resource+", requested: "+string(counted)+"=1, used: "+string(counted)+"=1")
		})
	}
}

// TestAnInventedOwnerOpensNoClosedQueue: PodGroups with a controller are for what ran before the queue closed. A user can write any.
func TestAnInventedOwnerOpensNoClosedQueue(t *testing.T) {
	createKnownQueues(t)
	bind(t, "latecomer", "edit")
	createServiceAccount(t, "default")
	give(t, "latecomer-uses", userNamed("latecomer"), mayUse("closed"), mayUse("known"))
	separateTenants(t)
	create(t, queues, queueOf("known", ""))
	user, controller := as(t, "latecomer"), as(t, "system:serviceaccount:muster-system:muster-controller")
	const refused = "spec.queue: queue closed takes no new work, and latecomer may not make a PodGroup for what ran before"
	group := func(queue string) map[string]any {
		return merge(t, parse(t, smallPodGroup), fmt.Sprintf(`{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]},
			spec: {queue: %s}}`, queue))
	}
	eventually(t, "the policy", func() bool {
		err := dryRun(t, user, podGroups, group("closed"))
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), refused)
	})
	require.NoError(t, dryRun(t, user, podGroups, group("known")))
	require.NoError(t, dryRun(t, controller, podGroups, group("closed")))
}
