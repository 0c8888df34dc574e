package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// step is one step of a sync.
type step struct {
	// when says whether the step is taken; always if nil.
	when func(*jobSync) bool
	do   func(context.Context, *jobSync) error
	// problem is how an error is reported. The sync goes on then. Without it, an error ends the sync.
	problem *problemKind
	// creates says that the step is not taken once another one that creates has failed.
	creates bool
}

// steps are the steps of a sync, in order. Nothing is created or deleted before the status that announces it is written.
func (c *Controller) steps() []step {
	return []step{
		{do: c.takeSnapshot},
		{do: c.commands.deleteSettled},
		{do: makePlan},
		{when: (*jobSync).hasCause, do: c.confirm},
		{when: (*jobSync).hasObjects, do: c.applyFirst},
		{do: c.writeStatus},
		{when: (*jobSync).mayNotStart, do: func(context.Context, *jobSync) error { return errEnough }},
		{do: c.deletePods, problem: &deleteError},
		{when: (*jobSync).mayCreate, do: c.objects.ensureClaims, problem: &claimError, creates: true},
		{when: (*jobSync).mayCreate, do: c.objects.ensureGroup, problem: &groupError, creates: true},
		{when: (*jobSync).mayCreate, do: c.objects.apply, problem: &pluginError, creates: true},
		{when: (*jobSync).mayCreatePods, do: c.findMissing, problem: &pluginError, creates: true},
		{when: (*jobSync).mayCreatePods, do: c.createPods, problem: &createError, creates: true},
		{when: (*jobSync).hasGroup, do: c.objects.deleteGroup, problem: &groupDeleteError},
		{when: (*jobSync).hasEnded, do: c.objects.deleteAll, problem: &objectDeleteError},
		{when: (*jobSync).isOver, do: c.objects.deleteExpired, problem: &expiryError},
		{do: c.announce},
	}
}

// reconcile takes the steps of a sync. It returns when to sync the Job again.
func (c *Controller) reconcile(ctx context.Context, job *batchv1alpha1.Job, local *localState) (time.Duration, error) {
	t := &jobSync{decision: decision{job: job}, local: local}
	for _, step := range c.steps() {
		if step.creates && t.halted || step.when != nil && !step.when(t) {
			continue
		}
		err := step.do(ctx, t)
		switch {
		case err == nil:
		case errors.Is(err, errEnough):
			return t.wait, nil
		case step.problem == nil:
			return t.wait, err
		default:
			t.failed = cmp.Or(t.failed, step.problem.of(err))
			t.halted = t.halted || step.creates
		}
	}
	return c.conclude(t)
}

// conclude says when to sync the Job again, by what has failed.
func (c *Controller) conclude(t *jobSync) (time.Duration, error) {
	if t.failed != nil {
		t.local.unfinished = false
		return t.wait, c.report(t.acting, t.failed, t.local)
	}
	if t.local.unfinished && !c.turns.Waits(keyOf(t.acting)) {
		c.worker.Enqueue(keyOf(t.acting)) // its turn goes on
	}
	// The status still records the last error. No event tells when an object of another owner is gone.
	if t.local.lastError != nil || t.s.Lacks(plan.ReasonPodGroupNameTaken) {
		t.wait = plan.Soonest(t.wait, plan.RetrySoon)
	}
	t.local.lastError = nil
	return t.wait, nil
}

// makePlan makes the plan.
func makePlan(_ context.Context, t *jobSync) error {
	t.p = plan.Make(t.s)
	acting := *t.s.Job
	acting.Status = *t.p.Status
	t.acting = &acting
	return nil
}

// hasCause says that a Command or a policy causes the plan.
func (t *jobSync) hasCause() bool { return !t.p.IsFirst && (t.s.Command != nil || t.p.Request != nil) }

// confirm asks the API server whether the causes of the plan still hold. The Command is still there, and the event that a policy answers
// has happened.
func (c *Controller) confirm(ctx context.Context, t *jobSync) error {
	if (t.s.Command == nil || c.commands.isStillAsked(ctx, t.s.Command)) &&
		(t.p.Request == nil || c.pods.hasHappened(ctx, t.s.Job, t.p.Request.Cause)) {
		return nil
	}
	return &staleError{"the API server does not confirm yet what the informers show", plan.RetrySoon}
}

// hasObjects says that the Job has begun, and its plugins may want other objects now.
func (t *jobSync) hasObjects() bool {
	return t.local.plugins.set != nil && !t.p.IsFirst && !t.s.IsFresh() && !t.s.Blocks(plan.BlocksObjects) &&
		!phase.Ended(t.p.Status.State.Phase) && !plan.IsDeleted(t.s.Job)
}

// applyFirst brings the objects of a Job that has begun to the wanted form. A status that shows the Job's new size comes after that. An error
// holds back a status that only reports. The next one tells of the error, if it stays.
func (c *Controller) applyFirst(ctx context.Context, t *jobSync) error {
	err := c.objects.apply(ctx, t)
	isSlow := errors.As(err, new(*plugin.SlowSecret)) // of a new Job
	isNewPhase := plan.OrPending(t.s.Job.Status.State.Phase) != t.p.Status.State.Phase
	if err == nil || isSlow || t.p.Request != nil || isNewPhase || t.local.lastError != nil {
		return nil // it is tried again when the plan is carried out
	}
	return cmp.Or(c.report(t.s.Job, pluginError.of(err), t.local), errEnough)
}

// writeStatus writes the status that announces the plan.
func (c *Controller) writeStatus(ctx context.Context, t *jobSync) error {
	if err := c.status.write(ctx, t); err != nil {
		return err
	}
	t.local.planned = t.job.Generation
	return nil
}

// Sync syncs the Job with that key once. It implements worker.Syncer.
func (c *Controller) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key %q: %w", key, err)
	}
	cached, err := c.jobs.Jobs(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.turns.Leave(key)
		c.objects.slowSecrets.forget(key)
		c.localStates.forget(key)
		c.writtenJobs.Forget(key)
		c.written.Clear(types.NamespacedName{Namespace: namespace, Name: name}, "")
		return 0, c.commands.drop(ctx, namespace, name)
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the Job: %w", err)
	}
	job := c.writtenJobs.Latest(key, cached)
	if plan.IsOrphaning(job) {
		c.turns.Leave(key) // it has nothing to do any more, and may be like this for long
		return 0, nil
	}
	local := c.localStates.of(key, job.UID)
	after, err := c.reconcile(ctx, job, local)
	if !local.unfinished {
		c.turns.Leave(key)
	}
	if early := (*staleError)(nil); errors.As(err, &early) {
		return plan.Soonest(after, c.again(ctx, job, early, &local.retries)), nil
	}
	local.retries = retries{}
	if err != nil || !phase.Ended(job.Status.State.Phase) {
		return after, err
	}
	c.podTracker.Forget(job.UID)
	c.objects.slowSecrets.forget(key)
	if left := worker.CountsInterval - c.cfg.Clock.Now().Sub(local.lastWrite); left > 0 {
		return plan.Soonest(after, left), nil // the local state keeps the status from being written too often
	}
	c.localStates.forget(key)
	return after, nil
}

// report turns an API error into a reason, a message and an event. It returns the error if the sync is to be repeated after a pause.
func (c *Controller) report(job *batchv1alpha1.Job, err error, local *localState) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the Job is about to be deleted with its namespace
		return nil
	case apierrors.IsConflict(err):
		return &staleError{err.Error(), conflictPause}
	case errors.As(err, new(*plugin.SlowSecret)): // the Job is looked at again when it is made
		return nil
	}
	if early := (*staleError)(nil); errors.As(err, &early) {
		return early
	}
	problem := problemIn(err)
	if problem == nil {
		return err
	}
	isNew := local.lastError == nil || *local.lastError != *problem
	local.lastError = problem
	if !errors.Is(err, errEarlierPod) { // nothing is wrong then
		c.instruments.problems.WithLabelValues(problem.Reason).Inc()
		// Refusals by plugins have the same reason. Their event comes with the status, if the status has room for a reason.
		withStatus := problem.Reason == eventPluginError && phase.Runs(job.Status.State.Phase)
		if isNew && !withStatus {
			c.cfg.Recorder.Event(job, corev1.EventTypeWarning, problem.Reason, problem.Message)
		}
	}
	for _, taken := range []error{errNameTaken, errEarlierPod, errObjectTaken, errClaimTaken} {
		if errors.Is(err, taken) {
			// The name of an earlier Job's object is free as soon as that is gone; another owner may keep it.
			return &staleError{err.Error(), plan.RetrySoon}
		}
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return &worker.UsersError{Err: err} // such as a PriorityClass that does not exist, or a ResourceQuota
	}
	return err
}
