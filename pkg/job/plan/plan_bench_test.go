package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// many is the greatest number of tasks that the schema lets a Job have.
const many = 100

// lives are states of a Job of n pods at which the making of a plan is measured.
var lives = map[string]func(b *testing.B, n int32) *world{
	"no pod has come": func(b *testing.B, n int32) *world {
		return newWorld(b, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", n)).Obj())
	},
	"all pods are new": func(b *testing.B, n int32) *world {
		w := newWorld(b, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", n)).Obj())
		w.look()
		return w
	},
	"all run": func(b *testing.B, n int32) *world {
		return begun(b, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", n)))
	},
	"every other failed, no policy": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodFailed, 0)
		return w
	},
	"every other failed, its pod is restarted": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction).
			Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodFailed, 0)
		return w
	},
	"every other failed, its pod is going": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction).
			Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodFailed, 0)
		w.look()
		return w
	},
	"all of one partition of two failed": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPartitionAction).
			Task(mustertesting.MakeTask("a", n).Partitions(2, n/2)))
		for i := range n / 2 {
			w.set(fmt.Sprintf("j-a-%d", i), corev1.PodFailed, 1)
		}
		return w
	},
	// A timeout for each: each counts from a second of its own.
	"every other failed, answers come later": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).
			LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartPodAction,
				Timeout: &metav1.Duration{Duration: 24 * time.Hour}}).
			Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodFailed, time.Second)
		w.look()
		return w
	},
	"every other failed at once, answers come later": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).
			LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.RestartPodAction,
				Timeout: &metav1.Duration{Duration: time.Hour}}).
			Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodFailed, 0)
		w.look()
		return w
	},
	"every other vanished, the Job is restarted": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", n)))
		for i := int32(0); i < n; i += 2 {
			delete(w.pods, fmt.Sprintf("j-a-%d", i))
		}
		return w
	},
	"every other succeeded, the rest is to go": func(b *testing.B, n int32) *world {
		w := begun(b, mustertesting.MakeJob("j").MinSuccess(n/2).Task(mustertesting.MakeTask("a", n)))
		w.endEveryOther(corev1.PodSucceeded, 0)
		return w
	},
	// Half of a pipeline with the maximum number of tasks have succeeded, and one task runs.
	"100 tasks, each after the one before": func(b *testing.B, n int32) *world {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("t0", n/many))
		for i := 1; i < many; i++ {
			job.Task(mustertesting.MakeTask(fmt.Sprint("t", i), n/many).DependsOn(fmt.Sprint("t", i-1)))
		}
		w := newWorld(b, job.Obj())
		for range many / 2 {
			w.start()
			w.succeedAll()
		}
		w.start()
		return w
	},
	"100 tasks, each after all before": func(b *testing.B, n int32) *world {
		job := mustertesting.MakeJob("j")
		var before []string
		for i := range many {
			name := fmt.Sprint("t", i)
			job.Task(mustertesting.MakeTask(name, n/many).DependsOn(before...))
			before = append(slices.Clone(before), name)
		}
		w := newWorld(b, job.Obj())
		w.start()
		return w
	},
}

// begun is a Job all of whose pods run.
func begun(b *testing.B, job *mustertesting.JobWrapper) *world {
	w := newWorld(b, job.Obj())
	w.start()
	return w
}

// endEveryOther lets every other pod of task a end, each that much later than the one before. A set of such indexes is the longest to
// write.
func (w *world) endEveryOther(p corev1.PodPhase, apart time.Duration) {
	for i := int32(0); i < w.job.Spec.Tasks[0].Replicas; i += 2 {
		w.set(fmt.Sprintf("j-a-%d", i), p, 1)
		w.now = w.now.Add(apart)
	}
}

// BenchmarkPlan measures how long a plan of a Job takes to make, with the pods to delete and to create. A plan is about the whole Job, so
// its cost grows at least with the number of pods. The figure ns/pod shows whether it costs more.
func BenchmarkPlan(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		for _, n := range []int32{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				w := lives[name](b, n)
				pods := slices.Collect(maps.Values(w.pods))
				b.ReportAllocs()
				for b.Loop() {
					filled := defaults.Job(w.job, "")
					v := newPlan(&Snapshot{Job: filled, Pods: pods, Now: w.now})
					v.Members.Victims()
					v.Members.Missing(filled.Name, v.Stage, make([]int32, len(filled.Spec.Tasks)), nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pod")
			})
		}
	}
}
