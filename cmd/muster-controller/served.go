package main

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// firstMissing returns the first resource that the API server does not serve in a version. It is empty if all are served.
func firstMissing(client discovery.DiscoveryInterface, version schema.GroupVersion, resources ...string) (string, error) {
	list, err := client.ServerResourcesForGroupVersion(version.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("asking what the cluster serves of %s: %w", version, err)
	}
	served := map[string]bool{}
	if err == nil {
		for _, resource := range list.APIResources {
			served[resource.Name] = true
		}
	}
	for _, resource := range resources {
		if !served[resource] {
			return resource, nil
		}
	}
	return "", nil
}

// tellMissingDefaults says what users of an older cluster do without. Kubernetes 1.35 serves the policies that write defaults only as
// beta, with a feature gate; 1.36 serves them by default.
func tellMissingDefaults(ctx context.Context, client discovery.DiscoveryInterface) error {
	const policies = "mutatingadmissionpolicies"
	for _, version := range []schema.GroupVersion{admissionregistrationv1.SchemeGroupVersion, admissionregistrationv1beta1.SchemeGroupVersion} {
		if missing, err := firstMissing(client, version, policies); err != nil || missing == "" {
			return err
		}
	}
	klog.FromContext(ctx).Info("The API server writes no defaults into objects, because Kubernetes before 1.36 lacks the policies for it. "+
		"The controller assumes the same defaults, but no queue that the annotation of a namespace names", "missing", policies)
	return nil
}
