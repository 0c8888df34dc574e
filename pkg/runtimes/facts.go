package runtimes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// FactsOf are what the estimate of a PodGroup is made of. Its Job and its queue are nil if there are none.
func FactsOf(group *schedulingv1beta1.PodGroup, job *batchv1alpha1.Job, queue *schedulingv1beta1.Queue, pods []*corev1.Pod) Facts {
	f := Facts{Run: RunOf(group), Limit: limitOf(pods)}
	f.Stated, f.Problem = Stated(group)
	if job != nil {
		f.Run, f.Limit = RunOfJob(job), shorter(f.Limit, seconds(ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0)))
	}
	f.QueueDefault = DefaultOf(queue)
	return f
}

// DefaultOf is how long PodGroups of a queue are expected to run if nothing better is known. It is 0 if the queue
// does not say, or is nil.
func DefaultOf(queue *schedulingv1beta1.Queue) time.Duration {
	if queue == nil || queue.Spec.Muster == nil {
		return 0
	}
	return ptr.Deref(queue.Spec.Muster.DefaultRuntime, metav1.Duration{}).Duration
}

// RunOf says what a PodGroup that no Job of ours controls has in common with earlier ones.
func RunOf(group *schedulingv1beta1.PodGroup) Run {
	name := group.Name
	if owner := metav1.GetControllerOfNoCopy(group); owner != nil {
		name = owner.Name
	}
	size := fmt.Sprint(group.Spec.MinMember, resources.FromResourceList(ptr.Deref(group.Spec.MinResources, nil)))
	return Run{Owner: ownerOf(group), Queue: cmp.Or(group.Spec.Queue, schedulingv1beta1.DefaultQueue), Name: name, Size: size}
}

// RunOfJob says what a Job has in common with earlier ones.
func RunOfJob(job *batchv1alpha1.Job) Run {
	tasks := make([]string, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		tasks[i] = fmt.Sprintf("%s=%d", job.Spec.Tasks[i].Name, job.Spec.Tasks[i].Replicas)
	}
	queue := cmp.Or(job.Spec.Queue, schedulingv1beta1.DefaultQueue)
	return Run{Owner: ownerOf(job), Queue: queue, Name: job.Name, Size: strings.Join(tasks, " ")}
}

// ownerOf is the user of a Job or a PodGroup, or else its namespace.
func ownerOf(object metav1.Object) string {
	if user := object.GetLabels()[schedulingv1beta1.UserLabel]; user != "" {
		return "user " + user
	}
	return "namespace " + object.GetNamespace()
}

// limitOf is after how long the last pod is ended, 0 if one of them never is.
func limitOf(pods []*corev1.Pod) (limit time.Duration) {
	for _, pod := range pods {
		if pod.Spec.ActiveDeadlineSeconds == nil {
			return 0
		}
		limit = max(limit, seconds(*pod.Spec.ActiveDeadlineSeconds))
	}
	return limit
}

// shorter is the shorter one of two limits; 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// seconds is a number of seconds, at most as long as anything is expected to run.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(Longest.Seconds()))) * time.Second
}
