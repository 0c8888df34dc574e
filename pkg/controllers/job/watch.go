package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// jobHandler enqueues a Job whenever anything about it changes.
func (c *Controller) jobHandler() cache.ResourceEventHandler {
	enqueue := func(obj any) {
		if job, ok := worker.LastKnown[*batchv1alpha1.Job](obj); ok {
			c.worker.EnqueueAfter(keyOf(job), c.lookPause(job.UID))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			if old := before.(*batchv1alpha1.Job); old.UID != after.(*batchv1alpha1.Job).UID {
				c.podTracker.Forget(old.UID)
			}
			enqueue(after)
		},
		DeleteFunc: func(obj any) {
			if job, ok := worker.LastKnown[*batchv1alpha1.Job](obj); ok {
				c.podTracker.Forget(job.UID)
			}
			enqueue(obj)
		},
	}
}

// podHandler keeps the podTracker up to date, and enqueues a Job a moment after a change of its pods.
func (c *Controller) podHandler() cache.ResourceEventHandler {
	others := c.ownedHandler(c.gatherPause)
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			c.noteCame(obj.(*corev1.Pod))
			others.OnAdd(obj, isInInitialList)
		},
		UpdateFunc: func(before, after any) {
			c.noteChange(before.(*corev1.Pod), after.(*corev1.Pod))
			others.OnUpdate(before, after)
		},
		DeleteFunc: func(obj any) {
			if pod, ok := worker.LastKnown[*corev1.Pod](obj); ok {
				c.noteLeft(pod)
			}
			others.OnDelete(obj)
		},
	}
}

func (c *Controller) noteCame(pod *corev1.Pod) {
	if owner := batchv1alpha1.JobOf(pod); owner != nil {
		c.podTracker.Came(owner.UID, pod)
	}
}

// noteChange notes that a pod is gone although informers report a change: another pod of its name has come in its place; the pod has
// another owner now; or it has ended and is being removed.
func (c *Controller) noteChange(old, pod *corev1.Pod) {
	before, after := jobUIDOf(old), jobUIDOf(pod)
	switch {
	case old.UID != pod.UID || before != after:
		c.noteLeft(old)
		c.noteCame(pod)
		c.enqueueOwner(old, c.gatherPause)
	case policy.IsFinished(pod):
		c.podTracker.Changed(after, old, pod)
	}
}

// jobUIDOf returns the UID of the Job that controls a pod; "" if none does.
func jobUIDOf(pod *corev1.Pod) types.UID {
	if owner := batchv1alpha1.JobOf(pod); owner != nil {
		return owner.UID
	}
	return ""
}

func (c *Controller) noteLeft(pod *corev1.Pod) {
	owner := batchv1alpha1.JobOf(pod)
	if owner == nil {
		return
	}
	job, err := c.jobs.Jobs(pod.Namespace).Get(owner.Name)
	c.podTracker.Left(owner.UID, pod, err == nil && job.UID == owner.UID)
}

// gatherPause is how long the controller waits after a change of a pod before it syncs the pod's Job.
func (c *Controller) gatherPause(job types.UID) time.Duration {
	return worker.GatherPause(c.podTracker.Count(job))
}

// lookPause is how long it waits after any other change: no time at all for a Job without pods.
func (c *Controller) lookPause(job types.UID) time.Duration {
	return worker.LookPause(c.podTracker.Count(job))
}

// ownedHandler enqueues a Job whenever one of its objects changes, after a pause.
func (c *Controller) ownedHandler(pause func(job types.UID) time.Duration) cache.ResourceEventHandler {
	enqueue := func(obj any) {
		if object, ok := worker.LastKnown[metav1.Object](obj); ok {
			c.enqueueOwner(object, pause)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
		DeleteFunc: enqueue,
	}
}

func (c *Controller) enqueueOwner(object metav1.Object, pause func(job types.UID) time.Duration) {
	if owner := batchv1alpha1.JobOf(object); owner != nil {
		c.worker.EnqueueAfter(object.GetNamespace()+"/"+owner.Name, pause(owner.UID))
	}
}

// claimHandler enqueues the Jobs that name a claim when that comes or goes.
func (c *Controller) claimHandler() cache.ResourceEventHandler {
	enqueue := func(obj any) {
		if claim, ok := worker.LastKnown[metav1.Object](obj); ok {
			c.enqueueUsers(claim)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			old, isClaim := before.(metav1.Object)
			claim, isStill := after.(metav1.Object)
			if isClaim && isStill && (old.GetDeletionTimestamp() == nil) != (claim.GetDeletionTimestamp() == nil) {
				enqueue(claim)
			}
		},
		DeleteFunc: enqueue,
	}
}

// queueHandler enqueues the Jobs that wait for a queue when that queue changes its state, its children or its existence.
func (c *Controller) queueHandler() cache.ResourceEventHandler {
	enqueue := func(obj any) {
		if queue, ok := worker.LastKnown[*schedulingv1beta1.Queue](obj); ok {
			c.enqueueWaiting(queue.Name)
			c.enqueueWaiting(queue.Spec.Parent)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			old, isQueue := before.(*schedulingv1beta1.Queue)
			queue, isStill := after.(*schedulingv1beta1.Queue)
			if isQueue && isStill && (old.Status.State != queue.Status.State || old.Spec.Parent != queue.Spec.Parent) {
				enqueue(old)
				enqueue(queue)
			}
		},
		DeleteFunc: enqueue,
	}
}

func (c *Controller) enqueueWaiting(queue string) {
	jobs, err := c.jobIndex.ByIndex(byQueue, queue)
	if err != nil {
		return
	}
	for _, obj := range jobs {
		if job := obj.(*batchv1alpha1.Job); c.mayWaitForQueue(job) {
			c.worker.Enqueue(keyOf(job))
		}
	}
}

// mayWaitForQueue says whether a Job may wait for its queue: a Job that is Running waits for it if its PodGroup has been deleted while the
// queue takes no Jobs.
func (c *Controller) mayWaitForQueue(job *batchv1alpha1.Job) bool {
	switch job.Status.State.Phase {
	case "", batchv1alpha1.Pending:
		return true
	case batchv1alpha1.Running:
		_, err := c.groups.PodGroups(job.Namespace).Get(batchv1alpha1.PodGroupName(job))
		return apierrors.IsNotFound(err)
	default:
		return false
	}
}

func owningJob(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	owner := batchv1alpha1.JobOf(object)
	if owner == nil {
		return nil, nil
	}
	return []string{string(owner.UID)}, nil
}

func queueOfJob(obj any) ([]string, error) {
	job, ok := obj.(*batchv1alpha1.Job)
	if !ok {
		return nil, nil
	}
	if job.Spec.Queue == "" {
		return []string{schedulingv1beta1.DefaultQueue}, nil
	}
	return []string{job.Spec.Queue}, nil
}

func parentOfQueue(obj any) ([]string, error) {
	queue, ok := obj.(*schedulingv1beta1.Queue)
	if !ok || queue.Spec.Parent == "" {
		return nil, nil
	}
	return []string{queue.Spec.Parent}, nil
}
