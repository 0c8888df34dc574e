package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/util/consistency"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// Bounds of concurrent requests to the API server: for one Job, and for all. More than a few hundred requests of one client are refused.
// 100 cost an API server of two cores a twentieth of its throughput: its watches fall behind.
const (
	firstBatch  = 1
	maxBatch    = 100
	maxRequests = 32
)

// Bounds of the requests for the pods of a Job in one sync. A gang starts when it is whole. If eight are filled side by side, each waits
// long, and the scheduler has nothing to do. So few Jobs have a turn at once to create or delete many pods. No Job needs one for the first
// few pods. A Job with a turn is synced again after a while: so its Commands are seen.
const (
	turnsAtOnce = 2
	podsPerSync = 1000
	withoutTurn = 15 // the pods of the first batches, which show whether pods can be created at all
)

// turnBounds bound the pods that are created and deleted in a Job's turn while other Jobs wait for one.
var turnBounds = worker.TurnBounds{OtherNamespace: 250, SameNamespace: podsPerSync}

// pods creates and deletes the pods of Jobs.
type pods struct {
	kube        kubernetes.Interface
	index       cache.Indexer // pods, by the UID of the Job that controls them
	removals    Removals
	turns       *worker.Turns
	instruments *instruments
	clock       clock.PassiveClock
	written     consistency.ConsistencyStore
	requests    chan struct{} // one for each pod that is being created or deleted
}

// errNameTaken says that a pod cannot be created because another object has its name.
var errNameTaken = errors.New("the name is taken by a pod of another owner")

// errEarlierPod says that a pod cannot be created yet. The Job was deleted and created anew, and its earlier pods still exist.
var errEarlierPod = errors.New("of an earlier Job of this name has not gone yet")

// create creates the missing pods in batches, whose size doubles after each success. So a Job whose pods are refused costs a few
// requests and not thousands. It returns the first error. all says whether all pods were created: the rest is for another sync.
//
// An error stops it, so that no pod starts in place of one of a higher priority. Once pods have been refused for long, those of lower
// priorities are created, if the minimum can start with them.
func (p *pods) create(ctx context.Context, t *jobSync) (all bool, failed error) {
	job := t.acting
	create := func(m plan.Missing) error {
		task := &job.Spec.Tasks[m.Task]
		pod := build.Pod(job, task, m.Index)
		t.local.plugins.set.MutatePod(pod, task, m.Index)
		build.Tie(pod, t.group)
		return p.createPod(ctx, job, pod)
	}
	tasks := make([]int, len(t.missing))
	for i, m := range t.missing {
		tasks[i] = m.Task
	}
	ends := order.Classes(tasks, t.priorities) // the class of the highest priority comes first
	isInTime := t.local.noPodsFrom.IsZero() || p.clock.Now().Sub(t.local.noPodsFrom) < order.Timeout
	refusedTo, lacking := 0, []int{} // up to where pods are left out, and the tasks of all that are
	all, err := p.inBatches(keyOf(job), firstBatch, ends, func(from, to int) error {
		if from < refusedTo {
			return nil
		}
		err := p.inParallel(to-from, func(i int) error { return create(t.missing[from+i]) })
		if err == nil || isInTime || errors.Is(err, errEarlierPod) {
			return err
		}
		refusedTo, failed = endOf(ends, from), cmp.Or(failed, err)
		lacking = append(lacking, tasks[from:refusedTo]...)
		if !order.CanStartWithout(t.p.Stage.Gang(&job.Spec), lacking) {
			return err
		}
		return nil
	})
	return all, cmp.Or(failed, err)
}

// endOf returns the first of the ends that lies behind a position.
func endOf(ends []int, position int) int {
	return ends[slices.IndexFunc(ends, func(end int) bool { return end > position })]
}

// inBatches runs do for the pods of a Job, in batches whose size doubles up to a bound. ends are ascending numbers of pods: no batch goes
// beyond one, and the last is the number of all. It stops at an error, at the bound of one sync, and where the Job must wait for its turn. It
// returns whether it has come to all of them.
func (p *pods) inBatches(key string, first int, ends []int, do func(from, to int) error) (all bool, err error) {
	if len(ends) == 0 {
		return true, nil
	}
	n := ends[len(ends)-1]
	few := min(n, withoutTurn)
	if n > withoutTurn && p.turns.Waits(key) {
		few = 0 // it has created them already
	}
	done, most := 0, min(n, few+podsPerSync)
	for size := first; done < most; size = min(2*size, maxBatch) {
		next := min(done+size, most, endOf(ends, done))
		if done < few {
			next = min(next, few)
		} else if !p.turns.Take(key, next-done) {
			break
		}
		if err := do(done, next); err != nil {
			return false, err
		}
		done = next
	}
	return done == n, nil
}

func (p *pods) createPod(ctx context.Context, job *batchv1alpha1.Job, pod *corev1.Pod) error {
	if seen, exists, err := p.index.GetByKey(pod.Namespace + "/" + pod.Name); err == nil && exists && isOfEarlier(job, seen.(*corev1.Pod)) {
		return fmt.Errorf("pod %s %w", pod.Name, errEarlierPod)
	}
	created, err := p.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case err == nil:
		p.instruments.created(job, p.clock.Now())
		p.written.WroteAt(nameOf(job), job.UID, podResource, created.ResourceVersion)
		return nil
	case apierrors.IsAlreadyExists(err):
		return p.checkOwner(ctx, job, pod.Name)
	default:
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
}

// isOfEarlier tells whether a pod belongs to a deleted Job of the same name. The garbage collector deletes it, and this Job is then synced
// again.
func isOfEarlier(job *batchv1alpha1.Job, pod *corev1.Pod) bool {
	owner := batchv1alpha1.JobOf(pod)
	return owner != nil && owner.Name == job.Name && owner.UID != job.UID
}

// checkOwner finds out whether the pod that exists is the Job's own, which the informer has not shown yet.
func (p *pods) checkOwner(ctx context.Context, job *batchv1alpha1.Job, name string) error {
	existing, err := p.kube.CoreV1().Pods(job.Namespace).Get(ctx, name, metav1.GetOptions{})
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
		p.written.WroteAt(nameOf(job), job.UID, podResource, existing.ResourceVersion)
		return nil
	}
}

// delete deletes pods, each only if it still has the UID that was seen, unless it has requested that lately. It returns the first error, and
// gives up after a batch in which all requests are refused. all says whether all pods were deleted: the rest is for another sync.
func (p *pods) delete(ctx context.Context, job *batchv1alpha1.Job, pods []*corev1.Pod, local *localState) (all bool, failed error) {
	pods = local.notYetDeleted(pods, p.clock.Now())
	all, err := p.inBatches(keyOf(job), maxBatch, []int{len(pods)}, func(from, to int) error {
		local.noteDeletions(pods[from:to], p.clock.Now())
		gone, err := p.deleteBatch(ctx, pods[from:to])
		failed = cmp.Or(failed, err)
		if gone == 0 {
			return err
		}
		return nil
	})
	return all, cmp.Or(failed, err)
}

// deleteBatch deletes pods at the same time. It returns how many are gone or going, and the first error.
func (p *pods) deleteBatch(ctx context.Context, pods []*corev1.Pod) (int, error) {
	var gone atomic.Int32
	err := p.inParallel(len(pods), func(i int) error {
		pod := pods[i]
		if p.removals != nil {
			p.removals.Removing(pod.UID)
		}
		err := p.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		switch {
		case err == nil:
			p.instruments.pods.WithLabelValues("delete").Inc()
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // a pod of that name and another UID is not the one to delete: ours is gone
			if p.removals != nil {
				p.removals.NotRemoved(pod.UID)
			}
		default:
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
		gone.Add(1)
		return nil
	})
	return int(gone.Load()), err
}

// inParallel runs f for 0 to n-1 at the same time. It returns the error of the lowest index that failed.
func (p *pods) inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		p.requests <- struct{}{}
		group.Go(func() {
			defer func() { <-p.requests }()
			errs[i] = f(i)
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// of returns the pods that the Job controls, of whatever incarnation.
func (p *pods) of(job *batchv1alpha1.Job) []*corev1.Pod {
	return indexed[*corev1.Pod](p.index, byOwningJob, string(job.UID))
}

// hasHappened asks the API server whether the cause of a policy's action is true. It costs one request for each action of a policy. It
// makes sure that no action rests on an informer that is behind, as after a change of leader.
func (p *pods) hasHappened(ctx context.Context, job *batchv1alpha1.Job, e *policy.Event) bool {
	if e == nil || e.Index < 0 || e.Remembered && e.Type == busv1alpha1.PodFailedEvent {
		return true
	}
	name := policy.PodName(job.Name, job.Spec.Tasks[e.Task].Name, e.Index)
	pod, err := p.kube.CoreV1().Pods(job.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !plan.IsMember(job, pod):
		return e.Remembered || e.Pod == nil || e.Pod.DeletionTimestamp != nil || e.Type == busv1alpha1.PodFailedEvent
	case err != nil, e.Pod == nil && !e.Remembered:
		return false
	case e.Remembered:
		return pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded
	default:
		return pod.UID == e.Pod.UID && (e.Type != busv1alpha1.PodPendingEvent || pod.Status.Phase == corev1.PodPending)
	}
}

// Removals learns which pods the controller removes, to tell them from removals by other clients.
type Removals interface {
	// Removing is called before the deletion of a pod.
	Removing(pod types.UID)
	// NotRemoved is called if the pod was gone already.
	NotRemoved(pod types.UID)
}
