package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// Bounds of what is asked of the API server at once: for one Job, and for all. More than a few hundred requests of one
// client are refused, and 100 cost an API server of two cores a twentieth of its throughput: its watches fall behind.
const (
	firstBatch  = 1
	maxBatch    = 100
	maxRequests = 32
)

// Bounds of what Jobs get at the same time. A gang starts when it is whole: of eight that are filled side by side none does for
// long, and the scheduler has nothing to do. So few have a turn at once. Nobody waits for one with the first few pods, and
// a Job that has had its turn is looked at again before it gets another: others come first, and its Commands are heard.
const (
	turnsAtOnce = 2
	podsPerTurn = 1000
	withoutTurn = 15 // the pods of the first batches, which show whether pods can be created at all
)

// errNameTaken says that a pod cannot be created because something else has its name.
var errNameTaken = errors.New("the name is taken by a pod of another owner")

// errEarlierPod says that a pod cannot be created yet: the Job was deleted and created anew, and its pods are still going.
var errEarlierPod = errors.New("of an earlier Job of this name has not gone yet")

// newPod builds the pod of a task's index. The Job has its defaults filled in; its status says which incarnation.
func newPod(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            policy.PodName(job.Name, task.Name, index),
			Namespace:       job.Namespace,
			Labels:          podLabels(job, task, index),
			Annotations:     podAnnotations(job, task, index),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: *task.Template.Spec.DeepCopy(),
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = job.Spec.SchedulerName
	}
	if pod.Spec.PriorityClassName == "" {
		pod.Spec.PriorityClassName = job.Spec.PriorityClassName
	}
	volumes.Mount(&pod.Spec, job)
	return pod
}

// tie says which PodGroup a pod is created for, if the scheduler might know it only as it was before. What a template says of another
// one, copied from a pod perhaps, would keep the pod for ever.
func tie(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) {
	delete(pod.Annotations, schedulingv1beta1.GroupResourceVersionAnnotation)
	if group.Generation > 1 {
		pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = group.ResourceVersion
	}
}

func podLabels(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) map[string]string {
	labels := maps.Clone(task.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[batchv1alpha1.TaskIndexKey] = strconv.Itoa(int(index))
	labels[batchv1alpha1.TaskSpecKey] = task.Name
	labels[batchv1alpha1.JobNameKey] = job.Name
	labels[batchv1alpha1.JobNamespaceKey] = job.Namespace
	labels[batchv1alpha1.QueueNameKey] = job.Spec.Queue
	if task.PartitionPolicy != nil {
		labels[batchv1alpha1.PartitionIDKey] = strconv.Itoa(int(policy.PartitionID(task, index)))
	}
	inherit(labels, job.Labels, batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey)
	return labels
}

func podAnnotations(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) map[string]string {
	annotations := maps.Clone(task.Template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1alpha1.TaskIndexKey] = strconv.Itoa(int(index))
	annotations[batchv1alpha1.TaskSpecKey] = task.Name
	annotations[schedulingv1beta1.GroupNameAnnotation] = batchv1alpha1.PodGroupName(job)
	annotations[batchv1alpha1.JobNameKey] = job.Name
	annotations[batchv1alpha1.QueueNameKey] = job.Spec.Queue
	annotations[batchv1alpha1.JobVersionKey] = strconv.Itoa(int(job.Status.Version))
	annotations[batchv1alpha1.PodTemplateKey] = job.Name + "-" + task.Name
	annotations[batchv1alpha1.JobRetryCountKey] = strconv.Itoa(int(job.Status.RetryCount))
	if task.TopologyPolicy != "" {
		annotations[batchv1alpha1.NumaTopologyPolicyKey] = string(task.TopologyPolicy)
	}
	inherit(annotations, job.Annotations,
		batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, batchv1alpha1.RevocableZoneKey)
	// A budget is a minimum or a maximum; of both, the minimum holds.
	if _, ok := job.Annotations[batchv1alpha1.JDBMinAvailableKey]; ok {
		inherit(annotations, job.Annotations, batchv1alpha1.JDBMinAvailableKey)
	} else {
		inherit(annotations, job.Annotations, batchv1alpha1.JDBMaxUnavailableKey)
	}
	return annotations
}

// inherit copies the values of the keys that are there.
func inherit(to, from map[string]string, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
}

// createPods creates the missing pods in batches that double as long as all goes well, so that a Job whose pods are
// refused costs a few requests and not thousands. It returns the first error of the first batch that had one. A Job gets what one
// turn gives; with the rest it goes on when it is looked at again.
func (c *Controller) createPods(
	ctx context.Context, job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup, set *plugins.Set, wanted []missing,
) error {
	create := func(m missing) error {
		task := &job.Spec.Tasks[m.task]
		pod := newPod(job, task, m.index)
		set.MutatePod(pod, task, m.index)
		tie(pod, group)
		return c.createPod(ctx, job, pod)
	}
	size := firstBatch
	inBatches := func(wanted []missing) error {
		for ; len(wanted) > 0; size = min(2*size, maxBatch) {
			batch := wanted[:min(size, len(wanted))]
			wanted = wanted[len(batch):]
			if err := c.inParallel(len(batch), func(i int) error { return create(batch[i]) }); err != nil {
				return err
			}
		}
		return nil
	}
	few := min(withoutTurn, len(wanted))
	if err := inBatches(wanted[:few]); err != nil {
		return err
	}
	rest := wanted[few:]
	if len(rest) == 0 {
		return nil
	}
	err := c.inTurn(ctx, func() error { return inBatches(rest[:min(podsPerTurn, len(rest))]) })
	if err == nil && len(rest) > podsPerTurn {
		c.worker.Enqueue(keyOf(job))
	}
	return err
}

// inTurn runs f when it is the Job's turn to get pods.
func (c *Controller) inTurn(ctx context.Context, f func() error) error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
		return f()
	case <-ctx.Done():
		return nil // whoever runs next goes on
	}
}

func (c *Controller) createPod(ctx context.Context, job *batchv1alpha1.Job, pod *corev1.Pod) error {
	if seen, exists, err := c.podIndex.GetByKey(pod.Namespace + "/" + pod.Name); err == nil && exists && isOfEarlier(job, seen.(*corev1.Pod)) {
		return fmt.Errorf("pod %s %w", pod.Name, errEarlierPod)
	}
	created, err := c.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.instruments.created(job, c.clock.Now())
		c.written.WroteAt(nameOf(job), job.UID, podResource, created.ResourceVersion)
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.checkOwner(ctx, job, pod.Name)
	default:
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
}

// isOfEarlier tells whether a pod belongs to a Job of the same name that was deleted: it goes by itself, and that brings this Job back here.
func isOfEarlier(job *batchv1alpha1.Job, pod *corev1.Pod) bool {
	owner := batchv1alpha1.JobOf(pod)
	return owner != nil && owner.Name == job.Name && owner.UID != job.UID
}

// checkOwner finds out whether the pod that exists is the Job's own, which the informer has not shown yet.
func (c *Controller) checkOwner(ctx context.Context, job *batchv1alpha1.Job, name string) error {
	existing, err := c.kube.CoreV1().Pods(job.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewConflict(podResource, name, errors.New("another pod of its name has just gone"))
	case err != nil:
		return fmt.Errorf("looking up the owner of pod %s: %w", name, err)
	case isOfEarlier(job, existing):
		return fmt.Errorf("pod %s %w", name, errEarlierPod)
	case !metav1.IsControlledBy(existing, job):
		return fmt.Errorf("creating pod %s: %w", name, errNameTaken)
	default:
		c.written.WroteAt(nameOf(job), job.UID, podResource, existing.ResourceVersion)
		return nil
	}
}

// deletePods deletes pods, each only if it is still the one that was seen. It returns the first error, and gives up after a batch of
// which all are refused.
func (c *Controller) deletePods(ctx context.Context, pods []*corev1.Pod) error {
	var failed error
	for len(pods) > 0 {
		batch := pods[:min(maxBatch, len(pods))]
		pods = pods[len(batch):]
		var gone atomic.Int32
		err := c.inParallel(len(batch), func(i int) error {
			pod := batch[i]
			err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
				Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
			})
			if err == nil {
				c.instruments.pods.WithLabelValues("delete").Inc()
			}
			// A pod of that name and another UID is not the one to delete: ours is gone.
			if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				gone.Add(1)
				return nil
			}
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		})
		failed = firstOf(failed, err)
		if gone.Load() == 0 {
			break
		}
	}
	return failed
}

// inParallel runs f for 0 to n-1 at the same time and returns the error of the lowest of those that failed.
func (c *Controller) inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		c.requests <- struct{}{}
		group.Go(func() {
			defer func() { <-c.requests }()
			errs[i] = f(i)
		})
	}
	group.Wait()
	return firstOf(errs...)
}
