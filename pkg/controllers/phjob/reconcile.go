package phjob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/phjob/phase"
	"github.com/muster-sched/muster/pkg/text"
)

// Sync takes one look at the PhJob with that key. It implements worker.Syncer.
func (c *Controller) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key %q: %w", key, err)
	}
	cached, err := c.jobs.PhJobs(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.written.Forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the PhJob: %w", err)
	}
	job := c.written.Latest(key, cached)
	if job.DeletionTimestamp != nil || !waits(job) {
		c.leaveLine(job)
	}
	if job.DeletionTimestamp != nil {
		return 0, nil // its objects are deleted with it
	}
	if phase.IsFinal(job.Status.Phase) {
		return c.settle(ctx, job)
	}
	after, err := c.advance(ctx, key, job)
	if err != nil && c.line.fail(job, c.clock.Now()) {
		c.moveLine()
	}
	return after, err
}

// advance makes all steps of a PhJob that are possible now. The status is written before anything is done that it announces.
func (c *Controller) advance(ctx context.Context, key string, job *primehubv1alpha1.PhJob) (time.Duration, error) {
	s, err := c.look(ctx, job)
	if err != nil {
		return 0, err
	}
	next, after := phjob.Decide(&s.Facts)
	job, err = c.write(ctx, key, job, next)
	if err != nil || job == nil {
		return 0, err
	}
	if phase.IsFinal(job.Status.Phase) {
		return c.settle(ctx, job)
	}
	refused, err := c.act(ctx, job, s)
	if err != nil || refused == nil {
		return after, err
	}
	// The API server has refused the pod: the status says so.
	refusal := s.Facts
	refusal.Job, refusal.Refused = job, refused
	next, _ = phjob.Decide(&refusal)
	if job, err = c.write(ctx, key, job, next); err != nil || job == nil {
		return 0, err
	}
	return c.settle(ctx, job)
}

// write writes the status if it has changed, and returns the PhJob that has it. It is nil if the PhJob is gone. A report waits until all else is done.
func (c *Controller) write(ctx context.Context, key string, job *primehubv1alpha1.PhJob, next *primehubv1alpha1.PhJobStatus) (*primehubv1alpha1.PhJob, error) {
	next.Message = text.Cut(next.Message, text.MaxMessage)
	if apiequality.Semantic.DeepEqual(&job.Status, next) {
		return job, nil
	}
	if isReport(&job.Status, next) && !c.reports.MayWrite(c.worker, key) {
		return job, nil
	}
	changed := job.DeepCopy()
	changed.Status = *next
	updated, err := c.muster.PrimehubV1alpha1().PhJobs(job.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the informer will say so
	case err != nil:
		c.written.Forget(key)
		return nil, fmt.Errorf("writing the status: %w", err)
	}
	c.written.Put(key, updated)
	if waits(updated) && !waits(job) {
		c.line.join(updated) // its quota comes free now: later PhJobs must wait for the PodGroup of the next try
	}
	if job.Status.Phase != next.Phase {
		klog.FromContext(ctx).V(2).Info("PhJob changed phase", "phJob", klog.KObj(job), "from", job.Status.Phase, "to", next.Phase, "reason", next.Reason)
	}
	if phjob.IsNews(&job.Status, next) {
		kind := corev1.EventTypeNormal
		if next.Phase == primehubv1alpha1.PhJobFailed {
			kind = corev1.EventTypeWarning
		}
		c.recorder.Event(updated, kind, string(next.Phase), next.Message)
	}
	return updated, nil
}

// isReport says whether only the reason, the message and the expected start of a status change. Nothing waits for that.
func isReport(last, next *primehubv1alpha1.PhJobStatus) bool {
	if last.Phase == "" {
		return false
	}
	same := *next
	same.Reason, same.Message, same.ExpectedStart = last.Reason, last.Message, last.ExpectedStart
	return apiequality.Semantic.DeepEqual(last, &same)
}
