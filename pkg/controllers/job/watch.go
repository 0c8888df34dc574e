package job

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	batchlisters "github.com/muster-sched/muster/pkg/client/listers/batch/v1alpha1"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// handlers enqueue Jobs when anything about them changes.
type handlers struct {
	worker     *worker.Worker
	jobs       batchlisters.JobLister
	groups     musterlisters.PodGroupLister
	jobIndex   cache.Indexer // Jobs, by their queue, and by the claims that they name
	podTracker *ended.Tracker
}

// jobHandler enqueues a Job whenever anything about it changes.
func (h *handlers) jobHandler() cache.ResourceEventHandler {
	handler := worker.OnAny(func(job *batchv1alpha1.Job) { h.worker.EnqueueAfter(keyOf(job), h.lookPause(job.UID)) })
	updated, deleted := handler.UpdateFunc, handler.DeleteFunc
	handler.UpdateFunc = func(before, after any) {
		if old := before.(*batchv1alpha1.Job); old.UID != after.(*batchv1alpha1.Job).UID {
			h.podTracker.Forget(old.UID)
		}
		updated(before, after)
	}
	handler.DeleteFunc = func(obj any) {
		if job, ok := worker.LastKnown[*batchv1alpha1.Job](obj); ok {
			h.podTracker.Forget(job.UID)
		}
		deleted(obj)
	}
	return handler
}

// podHandler keeps the podTracker up to date, and enqueues a Job a moment after a change of its pods.
func (h *handlers) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			h.noteCame(obj.(*corev1.Pod))
			h.enqueueOwner(obj.(*corev1.Pod), h.podPause(obj.(*corev1.Pod)))
		},
		UpdateFunc: func(before, after any) {
			h.noteChange(before.(*corev1.Pod), after.(*corev1.Pod))
			h.enqueueOwner(after.(*corev1.Pod), h.podPause(after.(*corev1.Pod)))
		},
		DeleteFunc: func(obj any) {
			if pod, ok := worker.LastKnown[*corev1.Pod](obj); ok {
				h.noteLeft(pod)
				h.enqueueOwner(pod, h.gatherPause)
			}
		},
	}
}

func (h *handlers) noteCame(pod *corev1.Pod) {
	if owner := batchv1alpha1.JobOf(pod); owner != nil {
		h.podTracker.Came(owner.UID, pod)
	}
}

// noteChange notes that a pod is gone although informers report a change. Another pod of its name may have come in its place, or the pod
// has another owner now. Or it has ended and is being removed.
func (h *handlers) noteChange(old, pod *corev1.Pod) {
	before, after := jobUIDOf(old), jobUIDOf(pod)
	switch {
	case old.UID != pod.UID || before != after:
		h.noteLeft(old)
		h.noteCame(pod)
		h.enqueueOwner(old, h.gatherPause)
	case policy.IsFinished(pod):
		h.podTracker.Changed(after, old, pod)
	}
}

// jobUIDOf returns the UID of the Job that controls a pod; "" if none does.
func jobUIDOf(pod *corev1.Pod) types.UID {
	if owner := batchv1alpha1.JobOf(pod); owner != nil {
		return owner.UID
	}
	return ""
}

func (h *handlers) noteLeft(pod *corev1.Pod) {
	owner := batchv1alpha1.JobOf(pod)
	if owner == nil {
		return
	}
	job, err := h.jobs.Jobs(pod.Namespace).Get(owner.Name)
	h.podTracker.Left(owner.UID, pod, err == nil && job.UID == owner.UID)
}

// gatherPause is how long the controller waits after the end of a pod before it syncs the pod's Job.
func (h *handlers) gatherPause(job types.UID) time.Duration {
	return worker.GatherPause(h.podTracker.Count(job))
}

// startsGather is how long the controller gathers changes of pods that do not end. Pods of a gang are created, bound and started together, and no
// policy answers that.
const startsGather = 100 * time.Millisecond

// podPause is the pause after a change of a pod that exists.
func (h *handlers) podPause(pod *corev1.Pod) func(job types.UID) time.Duration {
	if policy.IsFinished(pod) || pod.DeletionTimestamp != nil {
		return h.gatherPause
	}
	return func(job types.UID) time.Duration { return startsGather + h.lookPause(job) }
}

// lookPause is how long it waits after any other change: no time at all for a Job without pods.
func (h *handlers) lookPause(job types.UID) time.Duration {
	return worker.LookPause(h.podTracker.Count(job))
}

// ownedHandler enqueues a Job whenever one of its objects changes, after a pause.
func (h *handlers) ownedHandler() cache.ResourceEventHandler {
	return worker.OnAny(func(object metav1.Object) { h.enqueueOwner(object, h.lookPause) })
}

func (h *handlers) enqueueOwner(object metav1.Object, pause func(job types.UID) time.Duration) {
	if owner := batchv1alpha1.JobOf(object); owner != nil {
		h.worker.EnqueueAfter(object.GetNamespace()+"/"+owner.Name, pause(owner.UID))
	}
}

// claimHandler enqueues the Jobs that name a claim when that comes or goes.
func (h *handlers) claimHandler() cache.ResourceEventHandler {
	handler := worker.OnAny(h.enqueueUsers)
	handler.UpdateFunc = func(before, after any) {
		old, claim := before.(metav1.Object), after.(metav1.Object)
		if (old.GetDeletionTimestamp() == nil) != (claim.GetDeletionTimestamp() == nil) {
			h.enqueueUsers(claim)
		}
	}
	return handler
}

// queueHandler enqueues the Jobs that wait for a queue when that queue changes its state, its children or its existence.
func (h *handlers) queueHandler() cache.ResourceEventHandler {
	enqueue := func(queue *schedulingv1beta1.Queue) {
		h.enqueueWaiting(indexed[*batchv1alpha1.Job](h.jobIndex, byQueue, queue.Name))
		h.enqueueWaiting(indexed[*batchv1alpha1.Job](h.jobIndex, byQueue, queue.Spec.Parent))
	}
	handler := worker.OnAny(enqueue)
	handler.UpdateFunc = func(before, after any) {
		old, queue := before.(*schedulingv1beta1.Queue), after.(*schedulingv1beta1.Queue)
		if old.Status.State != queue.Status.State || old.Spec.Parent != queue.Spec.Parent {
			enqueue(old)
			enqueue(queue)
		}
	}
	return handler
}

// enqueueWaiting enqueues the Jobs that may wait for their queue.
func (h *handlers) enqueueWaiting(jobs []*batchv1alpha1.Job) {
	for _, job := range jobs {
		if h.mayWaitForQueue(job) {
			h.worker.Enqueue(keyOf(job))
		}
	}
}

// mayWaitForQueue says whether a Job may wait for its queue. A Running Job does if its PodGroup was deleted while the queue takes no Jobs.
func (h *handlers) mayWaitForQueue(job *batchv1alpha1.Job) bool {
	switch job.Status.State.Phase {
	case "", batchv1alpha1.Pending:
		return true
	case batchv1alpha1.Running:
		_, err := h.groups.PodGroups(job.Namespace).Get(batchv1alpha1.PodGroupName(job))
		return apierrors.IsNotFound(err)
	default:
		return false
	}
}

func owningJob(object metav1.Object) []string {
	if owner := batchv1alpha1.JobOf(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

func queueOfJob(job *batchv1alpha1.Job) []string {
	return []string{cmp.Or(job.Spec.Queue, schedulingv1beta1.DefaultQueue)}
}

func parentOfQueue(queue *schedulingv1beta1.Queue) []string { return []string{queue.Spec.Parent} }

// enqueueUsers enqueues the live Jobs that name a claim.
func (h *handlers) enqueueUsers(claim metav1.Object) {
	for _, job := range indexed[*batchv1alpha1.Job](h.jobIndex, byClaim, claim.GetNamespace()+"/"+claim.GetName()) {
		if !phase.Ended(job.Status.State.Phase) {
			h.worker.Enqueue(keyOf(job))
		}
	}
}

// claimsOfJob returns the keys of the claims that a Job names.
func claimsOfJob(job *batchv1alpha1.Job) (keys []string) {
	for i := range job.Spec.Volumes {
		if name := job.Spec.Volumes[i].VolumeClaimName; name != "" {
			keys = append(keys, job.Namespace+"/"+name)
		}
	}
	return keys
}

// additionsHandler enqueues the Jobs that wait for their queue when the additions to their pods change. They request another amount now.
func (h *handlers) additionsHandler() cache.ResourceEventHandler {
	return worker.OnAny(func(object metav1.Object) {
		jobs, _ := h.jobs.Jobs(object.GetNamespace()).List(labels.Everything()) // an informer's lister lists all without an error
		h.enqueueWaiting(jobs)
	})
}

// commandHandler enqueues the Job that a Command names when the Command comes, and when it is gone. The next Command waits for that.
func (h *handlers) commandHandler() cache.ResourceEventHandler {
	handler := worker.OnAny(func(command *busv1alpha1.Command) {
		for _, key := range jobOfCommand(command) {
			h.worker.Enqueue(key)
		}
	})
	handler.UpdateFunc = nil
	return handler
}
