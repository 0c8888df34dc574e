package job

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// loggedLooks is the number of syncs in a row without effect from which on they are logged.
const loggedLooks = 3

// maxPause is the longest pause between syncs without effect.
const maxPause = 30 * time.Second

// again says when to sync the Job again after a sync without effect: later each time, up to a bound. From the third in a row on it logs
// why.
func (c *Controller) again(ctx context.Context, job *batchv1alpha1.Job, why *staleError, r *retries) time.Duration {
	now := c.cfg.Clock.Now()
	if left := r.next.Sub(now); r.count > 0 && left > 0 {
		return left
	}
	pause := why.pause
	for range r.count {
		pause = min(2*pause, maxPause)
	}
	r.count++
	r.next = now.Add(pause)
	logger := klog.FromContext(ctx)
	if r.count >= loggedLooks {
		logger.Info("Job waits and will be looked at again", "job", klog.KObj(job), "reason", why.why, "looks", r.count, "after", pause)
	} else {
		logger.V(4).Info("Job waits", "job", klog.KObj(job), "reason", why.why)
	}
	return pause
}
