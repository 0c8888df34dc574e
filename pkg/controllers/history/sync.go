package history

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// Sync writes the record of an ended Job. Keys have the UID of a Job in place of its name. It implements worker.Syncer.
func (c *Controller) Sync(ctx context.Context, key string) (time.Duration, error) {
	_, uid, _ := strings.Cut(key, "/")
	c.mu.Lock()
	e := c.entries[types.UID(uid)]
	if e == nil || e == written || e.object == nil {
		c.mu.Unlock()
		return 0, nil
	}
	copied := *e
	copied.gone = e.gone.with(nil, c.clock.Now())
	c.mu.Unlock()

	record := c.recordOf(ctx, types.UID(uid), &copied)
	if err := c.append(ctx, record); err != nil {
		return 0, err
	}
	c.instruments.records.WithLabelValues(record.Kind).Inc()
	c.wasWritten(record.UID)
	return 0, nil
}

// recordOf makes the record of a Job or a PhJob.
func (c *Controller) recordOf(ctx context.Context, uid types.UID, e *entry) *historyv1alpha1.Record {
	used := e.gone.with(c.podsOf(uid), e.ended)
	if job, isPhJob := e.object.(*primehubv1alpha1.PhJob); isPhJob {
		return phJobRecord(job, c.queueOf(job), used, e.ended)
	}
	job := e.object.(*batchv1alpha1.Job)
	if isLean(job) && !e.deleted {
		job = c.whole(ctx, job)
	}
	return jobRecord(job, e.started, used, e.ended)
}

// whole reads a Job with its templates, if it exists.
func (c *Controller) whole(ctx context.Context, job *batchv1alpha1.Job) *batchv1alpha1.Job {
	read, err := c.muster.BatchV1alpha1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil || read.UID != job.UID {
		klog.FromContext(ctx).V(2).Info("A record says nothing of the requests of a Job, which cannot be read", "job", klog.KObj(job), "err", err)
		return job
	}
	return read
}

func (c *Controller) podsOf(uid types.UID) []*corev1.Pod {
	found, _ := c.pods.ByIndex(byOwner, string(uid)) // fails only for an unknown index
	pods := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return pods
}

// queueOf returns the Queue that is the group of a PhJob.
func (c *Controller) queueOf(job *primehubv1alpha1.PhJob) string {
	group := labels.Set{primehubv1alpha1.GroupIDLabel: primehubv1alpha1.LabelOf(job.Spec.GroupID)}
	queues, _ := c.queues.List(group.AsSelector()) // a lister never fails
	if len(queues) == 0 {
		return ""
	}
	return queues[0].Name
}

// append gives a record to all sinks. A failure is logged once, when it begins.
func (c *Controller) append(ctx context.Context, record *historyv1alpha1.Record) error {
	var err error
	for _, sink := range c.sinks {
		if err = sink.Append(record); err != nil {
			c.instruments.failures.WithLabelValues().Inc()
			break
		}
	}
	c.mu.Lock()
	began, ended := err != nil && !c.failing, err == nil && c.failing
	c.failing = err != nil
	c.mu.Unlock()
	switch {
	case began:
		klog.FromContext(ctx).Error(err, "Writing the history failed. It is tried again, and ended Jobs are kept for up to a day until then")
	case ended:
		klog.FromContext(ctx).Info("The history can be written again")
	}
	c.measure()
	return err
}

// measure sets the gauges.
func (c *Controller) measure() {
	c.mu.Lock()
	waiting := 0
	if c.failing {
		for _, e := range c.entries {
			if e.object != nil {
				waiting++
			}
		}
	}
	c.mu.Unlock()
	c.instruments.waiting.WithLabelValues().Set(float64(waiting))
	if c.store == nil {
		return
	}
	if bytes, err := c.store.Bytes(); err == nil {
		c.instruments.bytes.WithLabelValues().Set(float64(bytes))
	}
}

// wasWritten takes over that the record of a Job is written.
func (c *Controller) wasWritten(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	switch {
	case e == nil || e.object == nil:
	case e.deleted:
		delete(c.entries, uid)
	default:
		c.entries[uid] = written
	}
}
