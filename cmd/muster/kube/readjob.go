package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// ReadJob reads the one Job of a file. It is an error if the file has another object, or a field that Jobs do not have.
func ReadJob(connection *Connection, file string) (*batchv1alpha1.Job, error) {
	infos, err := connection.NewBuilder().Unstructured().Local().
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}}).Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf("%s has %d objects: give a file with one Job, or use kubectl apply", file, len(infos))
	}
	object, isObject := infos[0].Object.(*unstructured.Unstructured)
	if !isObject || object.GroupVersionKind() != batchv1alpha1.SchemeGroupVersion.WithKind("Job") {
		return nil, fmt.Errorf("%s has a %s: give a file with a Job of %s", file, infos[0].Object.GetObjectKind().GroupVersionKind(), batchv1alpha1.SchemeGroupVersion)
	}
	job := &batchv1alpha1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, job, true); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return job, nil
}
