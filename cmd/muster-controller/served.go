package main

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// questionPauses are the times between two questions of what the cluster serves, while the API server does not answer. They last from 100 ms
// to 30 s.
var questionPauses = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 20, Cap: 30 * time.Second}

// firstMissing returns the first resource that the API server does not serve in a version. It is empty if all are served. It asks until the
// API server answers or the context ends.
func firstMissing(ctx context.Context, client discovery.DiscoveryInterface, version schema.GroupVersion, resources ...string) (string, error) {
	served := map[string]bool{}
	err := questionPauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		list, err := client.ServerResourcesForGroupVersion(version.String())
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			klog.FromContext(ctx).Error(err, "The API server does not say what it serves, will ask again", "of", version)
			return false, nil
		}
		for _, resource := range list.APIResources {
			served[resource.Name] = true
		}
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("asking what the cluster serves of %s: %w", version, err)
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
		if missing, err := firstMissing(ctx, client, version, policies); err != nil || missing == "" {
			return err
		}
	}
	klog.FromContext(ctx).Info("The API server writes no defaults into objects, because Kubernetes before 1.36 lacks the policies for it. "+
		"The controller assumes the same defaults, but no queue that the annotation of a namespace names", "missing", policies)
	return nil
}
