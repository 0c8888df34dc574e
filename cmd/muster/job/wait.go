package job

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// awaitEnd watches a Job until it has ended, and says how it gets on. It is an error if the Job has not completed.
func awaitEnd(ctx context.Context, clients *kube.Clients, job *batchv1alpha1.Job, progress *kube.Progress) error {
	jobs := clients.Muster.BatchV1alpha1().Jobs(job.Namespace)
	one := fields.OneTermEqualSelector("metadata.name", job.Name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = one
			return jobs.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = one
			return jobs.Watch(ctx, options)
		},
	}
	defer progress.End()
	last := job
	_, err := watchtools.UntilWithSync(ctx, source, &batchv1alpha1.Job{}, nil, func(event watch.Event) (bool, error) {
		seen, isJob := event.Object.(*batchv1alpha1.Job)
		if !isJob || seen.UID != job.UID {
			return false, nil
		}
		if event.Type == watch.Deleted {
			return false, fmt.Errorf("job %s was deleted", job.Name)
		}
		last = seen
		progress.Say(inALine(seen))
		return hasEnded(seen), nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("stopped waiting; the Job goes on")
	case err != nil:
		return err
	case last.Status.State.Phase != batchv1alpha1.Completed:
		return fmt.Errorf("job %s is %s: %s", last.Name, last.Status.State.Phase, last.Status.State.Message)
	}
	return nil
}

// hasEnded says whether nothing more comes of a Job by itself.
func hasEnded(job *batchv1alpha1.Job) bool {
	switch job.Status.State.Phase {
	case batchv1alpha1.Completed, batchv1alpha1.Failed, batchv1alpha1.Terminated, batchv1alpha1.Aborted:
		return true
	}
	return false
}

// inALine says how a Job is: the phase, the pods that run and have ended, and what it waits for.
func inALine(job *batchv1alpha1.Job) string {
	status := &job.Status
	phase := status.State.Phase
	if phase == "" {
		phase = "not seen by muster-controller yet"
	}
	line := fmt.Sprintf("%s: %s, %d running, %d succeeded, %d failed", job.Name, phase, status.Running, status.Succeeded, status.Failed)
	if status.State.Message != "" {
		line += ": " + status.State.Message
	}
	return line
}
