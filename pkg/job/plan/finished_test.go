package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// ask executes a Command.
func (w *world) ask(action busv1alpha1.Action) {
	w.command = &busv1alpha1.Command{Action: string(action)}
	w.look()
	w.command = nil
	w.settle()
}

// kill has a pod fail as one that is taken away, and leaves its object.
func (w *world) kill(name string) {
	w.set(name, corev1.PodFailed, 137)
	w.pods[name].Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}}
}

// quorum is what the Job's PodGroup asks for now.
func (w *world) quorum() int32 {
	stage := w.look().Stage
	filled := defaults.Job(w.job, "")
	filled.Spec = *stage.Gang(&filled.Spec)
	return build.GroupSpec(filled, func(string) int32 { return 0 }, build.Additions{}).MinMember
}

// TestAResumeRunsWhatFailedAgain: a gang of three that a failure has aborted is whole again and can succeed. The failed pod may still be
// there or not. The pod that had succeeded does not run again.
func TestAResumeRunsWhatFailedAgain(t *testing.T) {
	for name, isRemoved := range map[string]bool{"its pod is there": false, "its pod was removed": true} {
		t.Run(name, func(t *testing.T) {
			policy := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.AbortJobAction}
			w := newWorld(t, mustertesting.MakeJob("j").LifecyclePolicy(policy).Task(mustertesting.MakeTask("a", 3)).Obj())
			w.start()
			w.set("j-a-0", corev1.PodSucceeded, 0)
			w.settle()
			w.set("j-a-1", corev1.PodFailed, 1)
			w.settle()
			w.reap()
			w.settle()
			require.Equal(t, batchv1alpha1.Aborted, w.phase())
			require.EqualValues(t, 1, w.job.Status.Failed)
			if isRemoved {
				w.remove("j-a-1")
				w.dies()
			}
			w.ask(busv1alpha1.ResumeJobAction)
			w.reap()
			w.settle()
			require.Equal(t, batchv1alpha1.Pending, w.phase())
			assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 2, "j-a-2": 2}, w.ran)
			assert.EqualValues(t, 3, w.quorum(), "the gang is whole")
			assert.Zero(t, w.job.Status.Failed)

			w.runAll()
			w.settle()
			require.Equal(t, batchv1alpha1.Running, w.phase())
			w.succeedAll()
			w.settle()
			assert.Equal(t, batchv1alpha1.Completed, w.phase())
			assert.Zero(t, w.job.Status.RetryCount)
		})
	}
}

func TestWhatSucceedsWhileOthersRestartNeverRunsAgain(t *testing.T) {
	policy := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartTaskAction}
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).
		Task(mustertesting.MakeTask("b", 2).LifecyclePolicy(policy)).Obj())
	w.start()
	w.set("j-b-0", corev1.PodFailed, 1)
	w.settle()
	require.Equal(t, batchv1alpha1.Restarting, w.phase(), "the other takes its time to go")
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	w.remove("j-a-0") // as when its node is removed
	w.dies()
	w.settle()
	w.reap()
	w.settle()
	w.runAll()
	w.settle()
	assert.Equal(t, 1, w.ran["j-a-0"])
	assert.EqualValues(t, 1, w.job.Status.Succeeded)
	assert.EqualValues(t, 1, w.job.Status.RetryCount, "it was not taken for evicted")
}

// TestPodsThatAreToldToGoHaveNotSucceeded: many programs end well when they are asked to, in the middle of their work.
func TestPodsThatAreToldToGoHaveNotSucceeded(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.set("j-a-1", corev1.PodSucceeded, 0)
	w.settle()
	yes := true
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = &yes })
	w.settle()
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	w.reap()
	w.settle()
	require.Equal(t, batchv1alpha1.Aborted, w.phase())
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = nil })
	w.settle()
	assert.Equal(t, 2, w.ran["j-a-0"], "it had not done its work")
	assert.Equal(t, 1, w.ran["j-a-1"])
}

// TestAStoppedPodHasNotSucceeded: a Job that is ended never counts a pod that was stopped as a success.
func TestAStoppedPodHasNotSucceeded(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)).Obj())
	w.start()
	w.set("j-a-1", corev1.PodSucceeded, 0)
	w.ask(busv1alpha1.TerminateJobAction)
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.set("j-a-2", corev1.PodSucceeded, 0)
	w.settle()
	assert.Equal(t, batchv1alpha1.Terminating, w.phase(), "their objects are still there")
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Terminated, w.phase())
	assert.EqualValues(t, 1, w.job.Status.Succeeded)
}

// TestAnAbortTakesNoAnswerAway: events before an abort are answered before the abort or after a resume. This holds even if both are seen at
// once.
func TestAnAbortTakesNoAnswerAway(t *testing.T) {
	onCompletion := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.TaskCompletedEvent, Action: busv1alpha1.CompleteJobAction}
	abort := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.AbortJobAction}
	restart := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartPodAction}
	yes := true
	suspend := func(w *world) { w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = &yes }) }
	command := func(w *world) {
		w.command = &busv1alpha1.Command{Action: string(busv1alpha1.AbortJobAction)}
		w.command.UID = "c"
	}
	complete := func(w *world) { w.set("j-worker-0", corev1.PodSucceeded, 0) }
	for name, c := range map[string]struct {
		ps, worker batchv1alpha1.LifecyclePolicy
		happens    []func(w *world)
		want       batchv1alpha1.JobPhase
		retries    int32
	}{
		"completed and suspended": {worker: onCompletion, happens: []func(*world){complete, suspend}, want: batchv1alpha1.Completed},
		"completed and commanded": {worker: onCompletion, happens: []func(*world){complete, command}, want: batchv1alpha1.Completed},
		"completed and aborted by a policy": {ps: abort, worker: onCompletion, happens: []func(*world){complete,
			func(w *world) { w.set("j-ps-0", corev1.PodFailed, 1) }}, want: batchv1alpha1.Completed},
		"restarted and suspended": {ps: restart, worker: onCompletion, happens: []func(*world){
			func(w *world) { w.set("j-ps-0", corev1.PodFailed, 1) }, suspend}, want: batchv1alpha1.Running, retries: 1},
		"restarted and aborted by a policy": {ps: restart, worker: abort, happens: []func(*world){
			func(w *world) { w.set("j-ps-0", corev1.PodFailed, 1) }, func(w *world) { w.set("j-worker-1", corev1.PodFailed, 1) }}, want: batchv1alpha1.Running},
	} {
		t.Run(name, func(t *testing.T) {
			worker := mustertesting.MakeTask("worker", 1)
			if c.worker.Action == busv1alpha1.AbortJobAction {
				worker = mustertesting.MakeTask("worker", 2).MinAvailable(1)
			}
			w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(5).MinAvailable(2).
				Task(mustertesting.MakeTask("ps", 1).LifecyclePolicy(c.ps)).Task(worker.LifecyclePolicy(c.worker)).Obj())
			w.start()
			for _, happens := range c.happens {
				happens(w)
			}
			w.look()
			for range 3 { // the Command stays until it is handled
				if w.command != nil && w.job.Status.HandledCommand == string(w.command.UID) {
					w.command = nil
				}
				w.settle()
				w.reap()
			}
			w.settle()
			if w.phase() == batchv1alpha1.Aborted {
				w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = nil })
				w.ask(busv1alpha1.ResumeJobAction)
			}
			for range 3 {
				w.runAll()
				w.settle()
				w.reap()
			}
			w.settle()
			assert.Equal(t, c.want, w.phase())
			assert.Equal(t, c.retries, w.job.Status.RetryCount)
			if c.want == batchv1alpha1.Running {
				assert.Equal(t, 2, w.ran["j-ps-0"], "what was to run anew does")
			}
		})
	}
}

// TestWhoFailsWhenOthersAreStoppedRunsAgain: ranks that lose their peers fail. They may do so before they are told to go themselves, as when
// the controller dies halfway.
func TestWhoFailsWhenOthersAreStoppedRunsAgain(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("rank", 4)).Obj())
	w.start()
	w.command = &busv1alpha1.Command{Action: string(busv1alpha1.AbortJobAction)}
	w.lookAndCrash(whileActing)
	w.command = nil
	require.Equal(t, batchv1alpha1.Aborting, w.phase())
	for _, name := range w.names(isRunning) {
		w.set(name, corev1.PodFailed, 1)
	}
	w.settle()
	w.reap()
	w.settle()
	require.Equal(t, batchv1alpha1.Aborted, w.phase())
	w.ask(busv1alpha1.ResumeJobAction)
	w.reap()
	w.start()
	assert.Zero(t, w.job.Status.RetryCount)
	for name, times := range w.ran {
		assert.Equal(t, 2, times, name)
	}
}

// TestWhatAPolicyWillRestartIsNotLost: the gang waits for it.
func TestWhatAPolicyWillRestartIsNotLost(t *testing.T) {
	later := func(event busv1alpha1.Event) *mustertesting.JobWrapper {
		return mustertesting.MakeJob("j").LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: event, Action: busv1alpha1.RestartPodAction,
			Timeout: &metav1.Duration{Duration: 10 * time.Minute}})
	}
	for name, c := range map[string]struct {
		job  *mustertesting.JobWrapper
		want int32
	}{
		"restarted later":                   {later(busv1alpha1.PodFailedEvent), 4},
		"never":                             {mustertesting.MakeJob("j"), 3},
		"never, unlike the one that waits":  {later(busv1alpha1.PodEvictedEvent), 3},
		"never, and the other waits for it": {later(busv1alpha1.PodPendingEvent), 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.job.Task(mustertesting.MakeTask("a", 4)).Obj())
			w.start()
			w.set("j-a-0", corev1.PodFailed, 1)
			w.settle()
			w.askToGo("j-a-1")
			w.settle()
			w.reap()
			w.settle()
			require.Equal(t, 2, w.ran["j-a-1"])
			assert.Equal(t, c.want, w.quorum())
		})
	}
}

func TestATaskThatCompletesWhileTheJobRestartsIsAnswered(t *testing.T) {
	restart := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartTaskAction}
	complete := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.TaskCompletedEvent, Action: busv1alpha1.CompleteJobAction}
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).LifecyclePolicy(complete)).
		Task(mustertesting.MakeTask("b", 2).LifecyclePolicy(restart)).Obj())
	w.start()
	w.set("j-b-0", corev1.PodFailed, 1)
	w.settle()
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	require.Equal(t, batchv1alpha1.Restarting, w.phase())
	w.reap()
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
}

func TestATaskIsCompletedByScalingItDown(t *testing.T) {
	complete := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.TaskCompletedEvent, Action: busv1alpha1.CompleteJobAction}
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("ps", 1)).
		Task(mustertesting.MakeTask("worker", 5).MinAvailable(1).LifecyclePolicy(complete)).Obj())
	w.start()
	for _, name := range []string{"j-worker-0", "j-worker-1", "j-worker-2"} {
		w.set(name, corev1.PodSucceeded, 0)
	}
	w.settle()
	require.Equal(t, batchv1alpha1.Running, w.phase())
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[1].Replicas = 3 })
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
}

// TestAKilledPodIsReplacedInAnyOrder: an evicting client marks a pod as disrupted and failed first, and then deletes it or leaves it. A
// look in between must not matter.
func TestAKilledPodIsReplacedInAnyOrder(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"seen and deleted":   func(w *world) { w.kill("j-a-1"); w.look(); w.remove("j-a-1") },
		"seen and left":      func(w *world) { w.kill("j-a-1"); w.look(); w.look() },
		"gone before a look": func(w *world) { w.kill("j-a-1"); w.remove("j-a-1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)).Obj())
			w.start()
			happens(w)
			w.reap()
			w.settle()
			w.runAll()
			w.settle()
			assert.Equal(t, batchv1alpha1.Running, w.phase())
			assert.EqualValues(t, 3, w.job.Status.Running)
			assert.Zero(t, w.job.Status.Failed)
			assert.Equal(t, 2, w.ran["j-a-1"])
		})
	}
}

// TestARefusedJobDoesNotEndWithAPodThatIsToBeReplaced: a killed pod is replaced once the spec is mended.
func TestARefusedJobDoesNotEndWithAPodThatIsToBeReplaced(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.refused = true
	w.kill("j-a-0")
	w.set("j-a-1", corev1.PodSucceeded, 0)
	w.settle()
	require.Equal(t, batchv1alpha1.Running, w.phase())
	require.Equal(t, 1, w.ran["j-a-0"])
	w.refused = false
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, 2, w.ran["j-a-0"])
}

func TestNoTimePassesWhileAJobIsSuspended(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	limit, yes := int64(60), true
	job.Spec.ActiveDeadlineSeconds = &limit
	w := newWorld(t, job)
	w.start()
	w.now = w.now.Add(59 * time.Second)
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = &yes })
	w.settle()
	w.reap()
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	require.Equal(t, batchv1alpha1.Aborted, w.phase())
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = nil })
	w.settle()
	w.runAll()
	w.settle()
	w.now = w.now.Add(time.Minute)
	w.settle()
	require.Equal(t, batchv1alpha1.Running, w.phase(), "its time began anew")
	w.now = w.now.Add(time.Second)
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Terminated, w.phase())
	assert.Equal(t, 2*time.Minute, w.job.Status.RunningDuration.Duration)
}

func TestAnotherRestartOnTopOfTheLastKeepsTheFailedPods(t *testing.T) {
	policy := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartJobAction}
	job := mustertesting.MakeJob("j").LifecyclePolicy(policy).Task(mustertesting.MakeTask("a", 2)).Obj()
	job.Spec.MaxRetry = 1
	w := newWorld(t, job)
	w.start()
	w.set("j-a-0", corev1.PodFailed, 1)
	w.look()
	require.Equal(t, batchv1alpha1.Restarting, w.phase())
	w.ask(busv1alpha1.RestartJobAction)
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Failed, w.phase())
	assert.Contains(t, w.pods, "j-a-0", "its log tells why")
}
