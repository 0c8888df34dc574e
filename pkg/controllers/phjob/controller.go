// Package phjob is the controller of PhJobs. A PhJob waits for quota with a PodGroup, which the podgroup controller admits to the Queue of
// its group. Then it becomes one pod.
//
// reconcile.go is the heart: gather the facts (facts.go), decide (pkg/phjob, pure), write the status, and act on it (act.go). settle.go is
// about PhJobs that have ended.
package phjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	primehublisters "github.com/muster-sched/muster/pkg/client/listers/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/phjob/phase"
)

// Config is what a Controller needs.
type Config struct {
	// Kube is the client for pods.
	Kube kubernetes.Interface
	// Muster is the client for PhJobs and PodGroups.
	Muster versioned.Interface
	// KubeInformers and MusterInformers are shared; they must not have been started.
	KubeInformers   informers.SharedInformerFactory
	MusterInformers musterinformers.SharedInformerFactory
	// Usage knows what the Queues may use.
	Usage *usage.Tracker
	// Recorder writes the events on PhJobs.
	Recorder record.EventRecorder
	// Reports delays informational statuses while other PhJobs have something to start; nil writes all statuses at once.
	Reports *worker.Reports
	// Settings are the administrator's.
	Settings *phjob.Config
	// SchedulerName is the scheduler of the pods.
	SchedulerName string
	// MayDelete says whether a PhJob may be deleted that ended at a time. Nil for always.
	MayDelete func(uid types.UID, ended time.Time) bool
	// Clock tells the time; the real one if nil.
	Clock clock.PassiveClock
}

// byOwner is the index of pods and PodGroups by the UID of the PhJob that controls them.
const byOwner = "controllers/phjob/owner-uid"

// Controller leads PhJobs through their life.
type Controller struct {
	kube          kubernetes.Interface
	muster        versioned.Interface
	usage         *usage.Tracker
	recorder      record.EventRecorder
	settings      *phjob.Config
	mayDelete     func(uid types.UID, ended time.Time) bool
	schedulerName string
	clock         clock.PassiveClock

	jobs          primehublisters.PhJobLister
	images        primehublisters.ImageLister
	instanceTypes primehublisters.InstanceTypeLister
	queueIndex    cache.Indexer
	asker         queueAsker
	nodes         corelisters.NodeLister
	podIndex      cache.Indexer
	groupIndex    cache.Indexer
	synced        []cache.InformerSynced
	worker        *worker.Worker
	reports       *worker.Reports
	written       worker.Written[*primehubv1alpha1.PhJob]
	line          lineUp
	lineMoved     func() // called when a PhJob leaves its line, so that admission decides about the next ones; nil for no call
}

// New makes a Controller and registers it with the informers.
func New(cfg Config) (*Controller, error) {
	primehub, scheduling := cfg.MusterInformers.Primehub().V1alpha1(), cfg.MusterInformers.Scheduling().V1beta1()
	core := cfg.KubeInformers.Core().V1()
	c := &Controller{
		kube: cfg.Kube, muster: cfg.Muster, usage: cfg.Usage, recorder: cfg.Recorder, settings: cfg.Settings, reports: cfg.Reports,
		schedulerName: cfg.SchedulerName, clock: cfg.Clock, mayDelete: cfg.MayDelete,
		jobs:          primehub.PhJobs().Lister(),
		images:        primehub.Images().Lister(),
		instanceTypes: primehub.InstanceTypes().Lister(),
		queueIndex:    scheduling.Queues().Informer().GetIndexer(),
		asker:         queueAsker{list: cfg.Muster.SchedulingV1beta1().Queues().List},
		nodes:         core.Nodes().Lister(),
		podIndex:      core.Pods().Informer().GetIndexer(),
		groupIndex:    scheduling.PodGroups().Informer().GetIndexer(),
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.worker = worker.New("phjob", c)
	c.reports.Share(c.worker)
	for _, owned := range []cache.SharedIndexInformer{core.Pods().Informer(), scheduling.PodGroups().Informer()} {
		if err := owned.AddIndexers(cache.Indexers{byOwner: owningJob}); err != nil {
			return nil, fmt.Errorf("indexing by PhJob: %w", err)
		}
	}
	if err := scheduling.Queues().Informer().AddIndexers(cache.Indexers{byGroup: groupsOfQueue}); err != nil {
		return nil, fmt.Errorf("indexing by group: %w", err)
	}
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{primehub.PhJobs().Informer(), c.jobHandler()},
		{core.Pods().Informer(), c.ownedHandler()},
		{scheduling.PodGroups().Informer(), c.ownedHandler()},
		{scheduling.Queues().Informer(), c.queueHandler()},
		{core.Nodes().Informer(), c.nodeHandler()},
		{primehub.Images().Informer(), cache.ResourceEventHandlerFuncs{}},
		{primehub.InstanceTypes().Informer(), cache.ResourceEventHandlerFuncs{}},
	} {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("adding an event handler: %w", err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

// WaitForSync returns when the controller knows all PhJobs, or false when the context ends before.
func (c *Controller) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), c.synced...)
}

// Run leads PhJobs, that many at once, until the context ends.
func (c *Controller) Run(ctx context.Context, workers int) {
	if !c.WaitForSync(ctx) || !cache.WaitForCacheSync(ctx.Done(), c.usage.HasSynced) {
		return
	}
	if c.settings.JobSubmission.JobLimit > 0 {
		go c.limitRecords(ctx)
	}
	c.worker.Run(ctx, workers)
}

// JobOf returns the PhJob that a PodGroup is for. It is nil if it is for none, or for one that has ended.
func (c *Controller) JobOf(group *schedulingv1beta1.PodGroup) *primehubv1alpha1.PhJob {
	owner := ownerOf(group)
	if owner == nil {
		return nil
	}
	job, err := c.jobs.PhJobs(group.Namespace).Get(owner.Name)
	if err != nil || job.UID != owner.UID || phase.IsFinal(job.Status.Phase) || phjob.PodGroupName(job) != group.Name {
		return nil
	}
	return job
}

// IsBehind says whether an earlier PhJob of the same group waits whose PodGroup is not known.
func (c *Controller) IsBehind(job *primehubv1alpha1.PhJob, known func(namespace, podGroup string) bool) bool {
	return c.line.isBehind(job, known)
}

// Watch has f called when a PhJob does not wait for its PodGroup any more. It must be called before the informers start.
func (c *Controller) Watch(f func()) { c.lineMoved = f }

// ownerOf is the PhJob that controls an object; nil if none does.
func ownerOf(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != "PhJob" || owner.APIVersion != primehubv1alpha1.SchemeGroupVersion.String() {
		return nil
	}
	return owner
}

func owningJob(obj any) ([]string, error) {
	if owner := ownerOf(obj.(metav1.Object)); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// keyHandler asks a worker for a look at an object whenever anything about it changes.
func keyHandler(w *worker.Worker) cache.ResourceEventHandlerFuncs {
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			w.Enqueue(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue}
}

// jobHandler is keyHandler for PhJobs, and has new ones line up.
func (c *Controller) jobHandler() cache.ResourceEventHandler {
	enqueue := keyHandler(c.worker)
	add := func(obj any) {
		if job := obj.(*primehubv1alpha1.PhJob); waits(job) {
			c.line.join(job)
		}
		enqueue.AddFunc(obj)
	}
	remove := func(obj any) {
		if job, ok := worker.LastKnown[*primehubv1alpha1.PhJob](obj); ok {
			c.leaveLine(job)
		}
		enqueue.DeleteFunc(obj)
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: remove, UpdateFunc: func(before, after any) {
		if before.(*primehubv1alpha1.PhJob).UID != after.(*primehubv1alpha1.PhJob).UID {
			remove(before)
			add(after)
		}
		enqueue.AddFunc(after)
	}}
}

// waits says whether a PhJob waits for quota.
func waits(job *primehubv1alpha1.PhJob) bool {
	return job.Status.Phase == "" || job.Status.Phase == primehubv1alpha1.PhJobPending
}

// leaveLine removes a PhJob from the line of its group: later PhJobs no longer wait for its PodGroup.
func (c *Controller) leaveLine(job *primehubv1alpha1.PhJob) {
	if c.line.leave(job) {
		c.moveLine()
	}
}

func (c *Controller) moveLine() {
	if c.lineMoved != nil {
		c.lineMoved()
	}
}

// ownedHandler enqueues a PhJob when one of its pods or PodGroups changes. A PhJob that may start, or whose pod has changed its phase, is synced
// before other PhJobs.
func (c *Controller) ownedHandler() cache.ResourceEventHandler {
	enqueue := func(obj any) {
		if key := keyOfOwner(obj); key != "" {
			c.worker.Enqueue(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: enqueue, DeleteFunc: enqueue, UpdateFunc: func(before, after any) {
		if key := keyOfOwner(after); key != "" && isUrgent(before, after) {
			c.worker.EnqueueFirst(key)
			return
		}
		enqueue(after)
	}}
}

// keyOfOwner is the key of the PhJob that controls an object; "" if none does.
func keyOfOwner(obj any) string {
	object, ok := worker.LastKnown[metav1.Object](obj)
	if !ok {
		return ""
	}
	owner := ownerOf(object)
	if owner == nil {
		return ""
	}
	return object.GetNamespace() + "/" + owner.Name
}

// isUrgent says whether a PodGroup has been admitted, or a pod is in another phase.
func isUrgent(before, after any) bool {
	switch last := before.(type) {
	case *schedulingv1beta1.PodGroup:
		return !last.Status.Phase.Admitted() && after.(*schedulingv1beta1.PodGroup).Status.Phase.Admitted()
	case *corev1.Pod:
		return last.Status.Phase != after.(*corev1.Pod).Status.Phase
	}
	return false
}

// queueHandler asks for a look at all PhJobs that wait when a Queue says something else. They may be above a whole quota now, or belong to
// another Queue.
func (c *Controller) queueHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if groups, _ := groupsOfQueue(obj); len(groups) > 0 && !isInInitialList {
				c.lookAtWaiting()
			}
		},
		UpdateFunc: func(before, after any) {
			last, next := before.(*schedulingv1beta1.Queue), after.(*schedulingv1beta1.Queue)
			if last.Generation != next.Generation || !maps.Equal(last.Labels, next.Labels) {
				c.lookAtWaiting()
			}
		},
	}
}

// lookAtWaiting asks for a look at all PhJobs that wait, in the order of their creation.
func (c *Controller) lookAtWaiting() {
	jobs, _ := c.jobs.List(labels.Everything()) // a lister never fails
	jobs = slices.DeleteFunc(jobs, func(job *primehubv1alpha1.PhJob) bool { return !waits(job) })
	slices.SortFunc(jobs, func(a, b *primehubv1alpha1.PhJob) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, job := range jobs {
		c.worker.Enqueue(job.Namespace + "/" + job.Name)
	}
}

// nodeHandler asks for a look at the PhJobs whose pods are on a node that stops or begins to answer.
func (c *Controller) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		node := after.(*corev1.Node)
		if isLost(before.(*corev1.Node)) == isLost(node) {
			return
		}
		for _, pod := range c.usage.Pods() {
			if owner := ownerOf(pod); owner != nil && pod.Spec.NodeName == node.Name {
				c.worker.Enqueue(pod.Namespace + "/" + owner.Name)
			}
		}
	}}
}

// isLost tells whether a node does not answer.
func isLost(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status != corev1.ConditionTrue
		}
	}
	return false
}

// isOnLostNode tells whether a pod is bound to a node that does not answer, or that is gone.
func (c *Controller) isOnLostNode(pod *corev1.Pod) bool {
	if pod == nil || pod.Spec.NodeName == "" {
		return false
	}
	node, err := c.nodes.Get(pod.Spec.NodeName)
	return apierrors.IsNotFound(err) || err == nil && isLost(node)
}
