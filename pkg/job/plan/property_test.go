package plan

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// drawJob makes a Job of up to three tasks. They may depend on each other, and their policies take actions from a list.
func drawJob(t *rapid.T, maxRetry int32, timeouts []time.Duration, actions ...busv1alpha1.Action) *batchv1alpha1.Job {
	job := mustertesting.MakeJob("j").MaxRetry(maxRetry)
	for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		task := mustertesting.MakeTask(fmt.Sprintf("t%d", i), rapid.Int32Range(1, 4).Draw(t, "replicas"))
		if rapid.Bool().Draw(t, "has partitions") {
			size, total := rapid.Int32Range(1, 3).Draw(t, "size"), rapid.Int32Range(1, 3).Draw(t, "partitions")
			task = mustertesting.MakeTask(fmt.Sprintf("t%d", i), size*total).Partitions(total, size)
		}
		if i > 0 && rapid.Bool().Draw(t, "depends") {
			task.DependsOn(fmt.Sprintf("t%d", rapid.IntRange(0, i-1).Draw(t, "on")))
			if i == 2 && rapid.Bool().Draw(t, "any") {
				task.DependsOnAny("t0", "t1")
			}
		}
		if len(actions) > 0 && rapid.Bool().Draw(t, "has policy") {
			task.LifecyclePolicy(drawPolicy(t, timeouts, actions))
		}
		job.Task(task)
	}
	if len(actions) > 0 && rapid.Bool().Draw(t, "job has policy") {
		job.LifecyclePolicy(drawPolicy(t, timeouts, actions))
	}
	return job.Obj()
}

// Timeouts of policies: all at once, or some later.
var (
	atOnce = []time.Duration{0}
	later  = []time.Duration{0, 0, 5 * time.Second, 30 * time.Second}
)

// drawPolicy makes a policy that answers at once or after some time.
func drawPolicy(t *rapid.T, timeouts []time.Duration, actions []busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	policy := batchv1alpha1.LifecyclePolicy{
		Event: rapid.SampledFrom([]busv1alpha1.Event{busv1alpha1.AnyEvent, busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent,
			busv1alpha1.TaskCompletedEvent, busv1alpha1.JobUpdatedEvent}).Draw(t, "event"),
		Action: rapid.SampledFrom(actions).Draw(t, "action"),
	}
	if timeout := rapid.SampledFrom(timeouts).Draw(t, "timeout"); timeout > 0 {
		policy.Timeout = &metav1.Duration{Duration: timeout}
	}
	return policy
}

// watch takes some looks at the Job, or none, each of which may be cut short.
func watch(t *rapid.T, w *world) {
	for range rapid.IntRange(0, 3).Draw(t, "looks") {
		w.lookAndCrash(rapid.SampledFrom([]crash{noCrash, noCrash, noCrash, statusDeferred, statusPaced, beforeWrite, beforeActing, whileActing}).Draw(t, "crash"))
	}
}

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
func isWaiting(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil
}
func isGoing(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// somethingHappens lets one thing happen to one pod.
func somethingHappens(t *rapid.T, w *world) {
	what := rapid.SampledFrom([]string{"run", "run", "run", "succeed", "succeed", "fail", "evict", "obey", "kill", "vanish", "reap", "reap", "wait", "edit"}).Draw(t, "what")
	switch what {
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
		return
	case "edit":
		w.edit(func(spec *batchv1alpha1.JobSpec) {
			spec.PriorityClassName = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class")
		})
		return
	}
	fits := map[string]func(*corev1.Pod) bool{"run": isWaiting, "succeed": isRunning, "fail": isRunning, "reap": isGoing,
		"obey": func(p *corev1.Pod) bool { return isRunning(p) && isGoing(p) }, "evict": isRunning, "kill": isRunning, "vanish": func(*corev1.Pod) bool { return true }}[what]
	names := w.names(fits)
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "pod")
	switch what {
	case "run":
		w.set(name, corev1.PodRunning, 0)
	case "succeed", "obey":
		w.set(name, corev1.PodSucceeded, 0)
	case "fail":
		w.set(name, corev1.PodFailed, 1)
	case "evict":
		w.askToGo(name)
	case "kill":
		w.kill(name)
	case "vanish", "reap":
		w.remove(name)
	}
}

// userAsks has the user suspend the Job or resume it, now and then.
func userAsks(t *rapid.T, w *world) {
	suspend := false
	switch rapid.SampledFrom([]string{"nothing", "nothing", "nothing", "nothing", "suspend", "resume"}).Draw(t, "asks for") {
	case "nothing":
		return
	case "suspend":
		suspend = true
	}
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = &suspend })
	if !suspend && w.phase() == batchv1alpha1.Aborted {
		w.ask(busv1alpha1.ResumeJobAction) // what a policy has aborted
	}
}

// runGang lets the waiting pods run if the gang is whole. It is whole if as many pods as its PodGroup asks for exist or have succeeded.
func (w *world) runGang() {
	there := w.job.Status.Succeeded
	for _, pod := range w.pods {
		if !isGoing(pod) && !policy.IsFinished(pod) && pod.Annotations[batchv1alpha1.JobVersionKey] == fmt.Sprint(w.job.Status.Version) {
			there++
		}
	}
	if there >= w.quorum() {
		w.runAll()
	}
}

// calmDown lets whatever runs succeed and whatever goes be gone, until nothing changes.
func calmDown(w *world) {
	for range 60 {
		w.now = w.now.Add(10 * time.Second)
		w.reap()
		w.settle()
		w.runGang()
		w.settle()
		for _, name := range w.names(isRunning) {
			w.set(name, corev1.PodSucceeded, 0)
		}
		w.settle()
	}
}

// TestWhateverHappensTheJobEnds runs any history, with looks lost, repeated and cut short. Every status that is written is consistent (see
// requireConsistent). Once all is calm the Job ends and leaves nothing running.
func TestWhateverHappensTheJobEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxRetry := rapid.Int32Range(1, 4).Draw(t, "maxRetry")
		w := newWorld(t, drawJob(t, maxRetry, later, busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction,
			busv1alpha1.RestartPartitionAction, busv1alpha1.AbortJobAction, busv1alpha1.TerminateJobAction, busv1alpha1.CompleteJobAction))
		w.restartBackoff = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "back-off")
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			userAsks(t, w)
			somethingHappens(t, w)
			if rapid.IntRange(0, 9).Draw(t, "the controller dies at 0") == 0 {
				w.dies()
			}
			watch(t, w)
			require.LessOrEqual(t, w.job.Status.RetryCount, maxRetry)
		}
		calmDown(w)
		require.True(t, phase.KeepsOnlyFinished(w.phase()), "ends as %s: %+v", w.phase(), w.job.Status)
		require.Empty(t, w.names(func(p *corev1.Pod) bool { return !policy.IsFinished(p) }))
		require.Zero(t, w.job.Status.Terminating)
	})
}

// TestTheEndDoesNotDependOnTheLooks: each pod fails so often, is evicted so often, and then succeeds or not. Whenever the Job is synced in
// between, it comes to the same end.
func TestTheEndDoesNotDependOnTheLooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var actions []busv1alpha1.Action
		if rapid.Bool().Draw(t, "restarts pods") {
			actions = []busv1alpha1.Action{busv1alpha1.RestartPodAction}
		}
		job := drawJob(t, 1000, atOnce, actions...)
		fates := map[string]*fate{}
		for i := range job.Spec.Tasks {
			for index := range job.Spec.Tasks[i].Replicas {
				fates[policy.PodName("j", job.Spec.Tasks[i].Name, index)] = &fate{
					evictions: rapid.IntRange(0, 2).Draw(t, "evictions"),
					obeys:     rapid.Bool().Draw(t, "obeys"),
					swept:     rapid.Bool().Draw(t, "swept"),
					failures:  rapid.IntRange(0, 2).Draw(t, "failures"),
				}
			}
		}
		attentive := fulfil(newWorld(t, job.DeepCopy()), fates, func(w *world) { w.settle() })
		other := fulfil(newWorld(t, job.DeepCopy()), fates, func(w *world) { watch(t, w) })
		require.Equal(t, attentive, other)
	})
}

// fate is what happens to the pods of one name, one after the other.
type fate struct {
	evictions, failures int
	obeys               bool // its program ends well when it is told to go
	swept               bool // pods are removed as soon as they have ended
}

// end is how a Job ended.
type end struct {
	phase             batchv1alpha1.JobPhase
	succeeded, failed int32
	tasks             map[string]batchv1alpha1.TaskState
}

// fulfil lets all pods have their fate, with looks at the Job between, until nothing changes.
func fulfil(w *world, fates map[string]*fate, looks func(*world)) end {
	left := map[string]fate{}
	for name, f := range fates {
		left[name] = *f
	}
	for range 200 {
		w.now = w.now.Add(10 * time.Second)
		looks(w)
		for _, name := range w.names(isWaiting) {
			w.set(name, corev1.PodRunning, 0)
		}
		for _, name := range w.names(func(p *corev1.Pod) bool { return isRunning(p) && !isGoing(p) }) {
			looks(w)
			if w.pods[name] == nil || isGoing(w.pods[name]) {
				continue
			}
			f := left[name]
			switch {
			case f.evictions > 0:
				f.evictions--
				w.askToGo(name)
				if f.obeys {
					looks(w)
					w.set(name, corev1.PodSucceeded, 0)
				}
			case f.failures > 0:
				f.failures--
				w.set(name, corev1.PodFailed, 1)
			default:
				w.set(name, corev1.PodSucceeded, 0)
			}
			if f.swept && policy.IsFinished(w.pods[name]) {
				w.remove(name)
			}
			left[name] = f
		}
		looks(w)
		w.reap()
	}
	w.settle()
	s := w.job.Status
	return end{s.State.Phase, s.Succeeded, s.Failed, s.TaskStatusCount}
}

// TestFinishedPodsOfAnIncarnationRunOnce: no index runs again in the incarnation in which it has finished. This holds even if its pod is
// removed at once.
func TestFinishedPodsOfAnIncarnationRunOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawJob(t, 4, atOnce, busv1alpha1.RestartJobAction))
		finished := map[string]corev1.PodPhase{} // version and pod name -> how it was seen to end
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			userAsks(t, w)
			for range rapid.IntRange(1, 3).Draw(t, "things at once") {
				somethingHappens(t, w)
				noteFinished(t, w, finished)
			}
			for range rapid.IntRange(0, 2).Draw(t, "looks") {
				w.lookAndCrash(rapid.SampledFrom([]crash{noCrash, noCrash, statusDeferred, statusPaced, beforeWrite, beforeActing, whileActing}).Draw(t, "crash"))
				noteFinished(t, w, finished)
			}
		}
	})
}

// noteFinished notes how pods of the current incarnation have ended while the Job runs. It requires that they were the last of their name.
// Failed pods may run again once the Job is aborted, for it may be resumed.
func noteFinished(t *rapid.T, w *world, finished map[string]corev1.PodPhase) {
	if phase.IsAborted(w.phase()) {
		maps.DeleteFunc(finished, func(_ string, end corev1.PodPhase) bool { return end == corev1.PodFailed })
	}
	version := fmt.Sprint(w.job.Status.Version)
	for name, pod := range w.pods {
		if pod.Annotations[batchv1alpha1.JobVersionKey] != version || !phase.Runs(OrPending(w.phase())) {
			continue
		}
		key := version + " " + name
		end, ended := finished[key]
		require.False(t, ended && !policy.IsFinished(pod), "%s runs again, which has %s", key, end)
		if !ended && policy.EndedByItself(pod) {
			finished[key] = pod.Status.Phase
		}
	}
}

// TestScalingIsNoEviction: while nothing happens but that the user scales tasks and the kubelet does its work, no
// policy answers anything.
func TestScalingIsNoEviction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction)
		for i := range 2 {
			job.Task(mustertesting.MakeTask(fmt.Sprintf("t%d", i), 2).MinAvailable(0))
		}
		w := newWorld(t, job.Obj())
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"scale", "run", "reap"}).Draw(t, "what") {
			case "scale":
				w.job.Spec.Tasks[rapid.IntRange(0, 1).Draw(t, "task")].Replicas = rapid.Int32Range(1, 4).Draw(t, "replicas")
			case "run":
				w.runAll()
			case "reap":
				w.reap()
			}
			watch(t, w)
			require.Contains(t, []batchv1alpha1.JobPhase{"", batchv1alpha1.Pending, batchv1alpha1.Running}, w.phase())
		}
	})
}

// TestARefusedSpecTouchesNoPod: a Job has started, and its spec is changed to one that cannot run, of any size. It deletes no pod
// meanwhile, and goes on to an end once the spec is mended.
func TestARefusedSpecTouchesNoPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawJob(t, 5, later, busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction,
			busv1alpha1.RestartPartitionAction))
		for range rapid.IntRange(0, 20).Draw(t, "steps before") {
			somethingHappens(t, w)
			watch(t, w)
		}
		w.settle()
		good := w.job.Spec.DeepCopy()
		w.refused = !phase.KeepsOnlyFinished(w.phase()) // a Job that restarts has started, too
		for range rapid.IntRange(0, 20).Draw(t, "steps meanwhile") {
			w.edit(func(spec *batchv1alpha1.JobSpec) {
				for i := range spec.Tasks {
					spec.Tasks[i].Replicas = rapid.Int32Range(0, 5).Draw(t, "replicas")
				}
			})
			somethingHappens(t, w)
			v := w.look()
			if !phase.Runs(w.phase()) {
				break // all has finished
			}
			require.Empty(t, v.Members.Victims())
		}
		w.edit(func(spec *batchv1alpha1.JobSpec) { *spec = *good })
		w.refused = false
		calmDown(w)
		require.True(t, phase.KeepsOnlyFinished(w.phase()), "ends as %s: %+v", w.phase(), w.job.Status)
	})
}
