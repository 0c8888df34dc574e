package localcluster

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// historyDir is where muster-controller keeps the history of Jobs.
func (l *layout) historyDir() string { return l.internal("history") }

// historyResources are the kinds of manifests/deploy/history that a local cluster has.
var historyResources = map[string]schema.GroupVersionResource{
	"Service":    {Version: "v1", Resource: "services"},
	"APIService": {Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
}

// installHistory has the API server pass requests for the history on to muster-controller. That is a process of this machine, so its Service
// is a name.
func installHistory(ctx context.Context, l *layout, client dynamic.Interface) error {
	port, err := strconv.ParseInt(l.ports.port(MusterController), 10, 64)
	if err != nil {
		return fmt.Errorf("reading a port: %w", err)
	}
	objects, err := readObjects("deploy/history")
	if err != nil {
		return err
	}
	for _, object := range objects {
		resource, isWanted := historyResources[object.GetKind()]
		if !isWanted {
			continue
		}
		if err := pointToProcess(object, port); err != nil {
			return fmt.Errorf("reading %s %s of manifests/deploy/history: %w", object.GetKind(), object.GetName(), err)
		}
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).
			Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("installing %s %s of manifests/deploy/history: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// pointToProcess has a Service or an APIService lead to a port of this machine.
func pointToProcess(object *unstructured.Unstructured, port int64) error {
	if object.GetKind() == "Service" {
		return unstructured.SetNestedMap(object.Object, map[string]any{"type": "ExternalName", "externalName": "localhost"}, "spec")
	}
	return unstructured.SetNestedField(object.Object, port, "spec", "service", "port")
}
