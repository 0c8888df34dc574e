package history

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	phjobphase "github.com/muster-sched/muster/pkg/phjob/phase"
)

// entry is what is known of a Job or a PhJob.
type entry struct {
	object  metav1.Object // its last state; nil as long as it has not ended
	ended   time.Time
	deleted bool
	started *metav1.Time // when it first ran
	gone    use          // of its pods that are gone
}

// written is the entry of all whose record is written.
var written = &entry{}

// mostDeleted is how many records of deleted Jobs wait in memory at most.
const mostDeleted = 10_000

// byOwner finds the pods of a Job or a PhJob by its UID.
const byOwner = "controllers/history/owner-uid"

// ownerOf returns the UID of the Job or the PhJob that controls a pod; "" if none does.
func ownerOf(pod metav1.Object) types.UID {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	isOurs := version.Group == batchv1alpha1.SchemeGroupVersion.Group && owner.Kind == historyv1alpha1.KindJob ||
		version.Group == primehubv1alpha1.SchemeGroupVersion.Group && owner.Kind == historyv1alpha1.KindPhJob
	if err != nil || !isOurs {
		return ""
	}
	return owner.UID
}

func ownerOfPod(obj any) ([]string, error) {
	if uid := ownerOf(obj.(*corev1.Pod)); uid != "" {
		return []string{string(uid)}, nil
	}
	return nil, nil
}

func (c *Controller) jobHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.jobChanged(nil, obj.(*batchv1alpha1.Job)) },
		UpdateFunc: func(before, after any) {
			c.jobChanged(before.(*batchv1alpha1.Job), after.(*batchv1alpha1.Job))
		},
		DeleteFunc: c.deleted,
	}
}

// jobChanged takes a Job over. The informer keeps no templates of one that has ended: those of its state before do.
func (c *Controller) jobChanged(before, job *batchv1alpha1.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(job.UID)
	if e == written || e.object != nil {
		return
	}
	if e.started == nil {
		e.started = job.Status.StartTime
	}
	if !phase.Ended(job.Status.State.Phase) {
		return
	}
	if before != nil && before.UID == job.UID && !isLean(before) {
		whole := *job
		whole.Spec = before.Spec
		job = &whole
	}
	c.end(e, job, endOfJob(job, c.clock.Now()).Time)
}

// isLean says that the templates of a Job are missing.
func isLean(job *batchv1alpha1.Job) bool {
	for i := range job.Spec.Tasks {
		if len(job.Spec.Tasks[i].Template.Spec.Containers) > 0 {
			return false
		}
	}
	return len(job.Spec.Tasks) > 0
}

func (c *Controller) phJobHandler() cache.ResourceEventHandler {
	changed := func(job *primehubv1alpha1.PhJob) {
		c.mu.Lock()
		defer c.mu.Unlock()
		e := c.entryOf(job.UID)
		if e == written || e.object != nil || !phjobphase.IsFinal(job.Status.Phase) {
			return
		}
		ended := c.clock.Now()
		if job.Status.FinishTime != nil {
			ended = job.Status.FinishTime.Time
		}
		c.end(e, job, ended)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(obj.(*primehubv1alpha1.PhJob)) },
		UpdateFunc: func(_, after any) { changed(after.(*primehubv1alpha1.PhJob)) },
		DeleteFunc: c.deleted,
	}
}

// entryOf returns the entry of a Job. The caller holds the lock.
func (c *Controller) entryOf(uid types.UID) *entry {
	if c.entries[uid] == nil {
		c.entries[uid] = &entry{}
	}
	return c.entries[uid]
}

// end has the record of a Job written. The caller holds the lock.
func (c *Controller) end(e *entry, job metav1.Object, at time.Time) {
	e.object, e.ended = job, at
	c.worker.Enqueue(keyOf(job))
}

func keyOf(job metav1.Object) string { return job.GetNamespace() + "/" + string(job.GetUID()) }

// lastPods is how long after the deletion of a Job its record is made. Its pods are deleted in that time.
const lastPods = 2 * time.Second

// deleted takes over that a Job or a PhJob is gone. A standby leaves that to the leader.
func (c *Controller) deleted(obj any) {
	job, known := worker.LastKnown[metav1.Object](obj)
	if !known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[job.GetUID()]
	switch {
	case e == nil:
	case e == written || !c.leads:
		delete(c.entries, job.GetUID())
	case c.countDeleted() >= mostDeleted:
		delete(c.entries, job.GetUID())
		c.instruments.lost.WithLabelValues(kindOf(job)).Inc()
	default:
		e.deleted = true
		if e.object == nil {
			e.object, e.ended = job, c.clock.Now()
			c.worker.EnqueueAfter(keyOf(job), lastPods)
		}
	}
}

// countDeleted counts the records of deleted Jobs that wait. It is called only while there are any: else the record is written by now.
func (c *Controller) countDeleted() int {
	if !c.failing {
		return 0
	}
	n := 0
	for _, e := range c.entries {
		if e.deleted {
			n++
		}
	}
	return n
}

func kindOf(job metav1.Object) string {
	if _, isPhJob := job.(*primehubv1alpha1.PhJob); isPhJob {
		return historyv1alpha1.KindPhJob
	}
	return historyv1alpha1.KindJob
}

// podHandler counts what pods have had that go before their Job ends.
func (c *Controller) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		pod, isPod := worker.LastKnown[*corev1.Pod](obj)
		if !isPod {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if e := c.entries[ownerOf(pod)]; e != nil && e != written {
			e.gone.add(pod, c.clock.Now())
		}
	}}
}
