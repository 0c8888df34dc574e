package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/manifests"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// DeletePolicies deletes all admission policies of a cluster, and waits until none is in force. So tests can see that the controllers
// find by themselves what is wrong.
func DeletePolicies(ctx context.Context, env *Env) error {
	policies := env.Kube.AdmissionregistrationV1()
	deleteAll := []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		policies.ValidatingAdmissionPolicyBindings().DeleteCollection, policies.ValidatingAdmissionPolicies().DeleteCollection,
		policies.MutatingAdmissionPolicyBindings().DeleteCollection, policies.MutatingAdmissionPolicies().DeleteCollection,
	}
	for _, delete := range deleteAll {
		if err := delete(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting admission policies: %w", err)
		}
	}
	// A Job and a Queue that policies refuse: none is left that does.
	jobs := env.Muster.BatchV1alpha1().Jobs(metav1.NamespaceDefault)
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		task := mustertesting.MakeTask("a", 1).DependsOn("a").RestartPolicy("Never ever")
		job := mustertesting.MakeJob("probe-" + longName).Namespace(metav1.NamespaceDefault).Plugin("none").Task(task).Obj()
		_, jobErr := jobs.Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		queue := mustertesting.MakeQueue("probe").Capability("cpu", "1").Deserved("cpu", "2").Obj()
		_, queueErr := env.Muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return jobErr == nil && queueErr == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until no admission policy is in force: %w", err)
	}
	return nil
}

// longName is too long for pods of a Job, and not for the Job.
const longName = "0123456789-0123456789-0123456789-0123456789-0123456789"

// SeparateTenants creates the objects of manifests/tenancy, which are off by default. Its policies are in force a moment later.
func SeparateTenants(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	files, err := fs.Glob(manifests.FS, "tenancy/*.yaml")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("finding manifests/tenancy: %d files: %w", len(files), err)
	}
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			objects := client.Resource(resource).Namespace(object.GetNamespace())
			if _, err := objects.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}
