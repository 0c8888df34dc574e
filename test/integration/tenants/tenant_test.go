package tenants_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
)

// tenant is the administrator of a namespace, who may use a queue. User, namespace and queue have one name.
type tenant struct {
	name   string
	client dynamic.Interface
}

func configOf(user string) *rest.Config {
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config
}

func clientOf(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(configOf(user))
	require.NoError(t, err)
	return client
}

func (m *tenant) muster() versioned.Interface { return versioned.NewForConfigOrDie(configOf(m.name)) }

// apiVersions of the kinds that rows name without one.
var apiVersions = map[string]string{
	"Pod": "v1", "ConfigMap": "v1", "Secret": "v1", "Service": "v1", "ServiceAccount": "v1", "Node": "v1", "Namespace": "v1", "ResourceQuota": "v1",
	"Job": "batch.volcano.sh/v1alpha1", "Command": "bus.volcano.sh/v1alpha1",
	"PodGroup": "scheduling.volcano.sh/v1beta1", "Queue": "scheduling.volcano.sh/v1beta1",
	"PhJob": "primehub.io/v1alpha1", "PhSchedule": "primehub.io/v1alpha1", "Image": "primehub.io/v1alpha1", "InstanceType": "primehub.io/v1alpha1",
	"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1",
	"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
	"ClusterRole": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
	"PriorityClass": "scheduling.k8s.io/v1", "Lease": "coordination.k8s.io/v1",
}

func gvrOf(kind string) schema.GroupVersionResource {
	version, err := schema.ParseGroupVersion(apiVersions[kind])
	if err != nil || version.Version == "" {
		panic("rows must give the apiVersion of kind " + kind)
	}
	resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind))
	return resource
}

// parse reads objects as rows write them, and fills in apiVersion, name and containers where a row leaves them out.
func parse(text string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096); ; {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			panic(fmt.Sprintf("%v in\n%s", err, text))
		}
		if object.GetAPIVersion() == "" {
			object.SetAPIVersion(gvrOf(object.GetKind()).GroupVersion().String())
		}
		if object.GetName() == "" && object.GetGenerateName() == "" {
			object.SetName("try")
		}
		complete(object.GetKind(), object.Object)
		objects = append(objects, object)
	}
}

// complete gives each pod of an object a container that asks for one cpu, if it has none.
func complete(kind string, object map[string]any) {
	child := func(of map[string]any, name string) map[string]any {
		if of[name] == nil {
			of[name] = map[string]any{}
		}
		return of[name].(map[string]any)
	}
	fill := func(pod map[string]any, restart string) {
		spec := child(pod, "spec")
		if spec["containers"] == nil {
			spec["containers"] = []any{map[string]any{"name": "main", "image": "main", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}}
		}
		if spec["restartPolicy"] == nil && restart != "" {
			spec["restartPolicy"] = restart
		}
	}
	switch kind {
	case "Pod":
		fill(object, "")
	case "Job":
		tasks, _ := child(object, "spec")["tasks"].([]any)
		for i, task := range tasks {
			task := task.(map[string]any)
			if task["name"] == nil {
				task["name"] = fmt.Sprintf("task-%d", i)
			}
			fill(child(task, "template"), "Never")
		}
	case "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet":
		spec := child(object, "spec")
		template := child(spec, "template")
		child(child(template, "metadata"), "labels")["app"] = "try"
		child(child(spec, "selector"), "matchLabels")["app"] = "try"
		fill(template, "")
	}
}

// objects is where the tenant creates an object: in its own namespace, unless the object names another one.
func (m *tenant) objects(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return m.in(resource, object.GetNamespace())
}

// clusterWide are the kinds of rows that are in no namespace.
var clusterWide = map[string]bool{
	"nodes": true, "namespaces": true, "queues": true, "clusterroles": true, "clusterrolebindings": true, "priorityclasses": true,
	"validatingadmissionpolicybindings": true,
}

func (m *tenant) in(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	switch {
	case clusterWide[resource.Resource]:
		return m.client.Resource(resource)
	case namespace == "":
		namespace = m.name
	}
	return m.client.Resource(resource).Namespace(namespace)
}

// create creates the objects of a text, as the tenant. The first error ends it.
func (m *tenant) create(ctx context.Context, text string, subresources ...string) error {
	for _, object := range parse(text) {
		if _, err := m.objects(object).Create(ctx, object, metav1.CreateOptions{}, subresources...); err != nil {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// patch changes an object by a merge patch, as the tenant. The name may have a namespace before it.
func (m *tenant) patch(ctx context.Context, kind, name, patch string, subresources ...string) error {
	namespace, name := split(name)
	body, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		panic(err)
	}
	_, err = m.in(gvrOf(kind), namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}

// remove deletes an object, as the tenant. The name may have a namespace before it.
func (m *tenant) remove(ctx context.Context, kind, name string) error {
	namespace, name := split(name)
	return m.in(gvrOf(kind), namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func split(name string) (namespace, base string) {
	if before, after, found := strings.Cut(name, "/"); found {
		return before, after
	}
	return "", name
}
