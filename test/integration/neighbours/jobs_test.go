package neighbours_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// sizes are abuses by how large Jobs are, and how many.
var sizes = []abuse{
	{name: "a-hundred-large-tasks", do: func(b *tenant) {
		for i, replicas := range []int32{1000000, 20000, 1500, 1000} {
			job := b.job(i).Plugin("svc").Plugin("ssh").Plugin("env")
			for j := range 100 {
				// A minimum that its queue never admits: nothing of it need be built.
				job.Task(mustertesting.MakeTask(fmt.Sprintf("task-%d-%s", j, strings.Repeat("n", 20)), replicas).Requests("cpu", "1"))
			}
			b.try(job.Obj())
		}
	}},
	{name: "a-large-task-restarts", namespace: namespaceKept, do: func(b *tenant) {
		const replicas = 300
		task := mustertesting.MakeTask("a", replicas).NodeSelector(nowhere, "true").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartTaskAction)
		job := b.job(0).MaxRetry(1000).Task(task).Obj()
		b.must(job)
		name := types.NamespacedName{Namespace: b.namespace, Name: job.Name}
		b.soon("all pods", func() bool { return len(log.PodsOf(name)) >= replicas })
		pods, err := b.kube.CoreV1().Pods(b.namespace).List(b.ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=" + job.Name})
		require.NoError(b, err)
		// One request each: the API server ends a request for all of them after a minute, done or not.
		b.many(len(pods.Items), func(i int) {
			b.tolerate(b.kube.CoreV1().Pods(b.namespace).Delete(b.ctx, pods.Items[i].Name, metav1.DeleteOptions{}))
		})
	}},
	{name: "eight-large-jobs", do: func(b *tenant) {
		b.many(8, func(i int) {
			b.must(b.job(i).Task(mustertesting.MakeTask("a", 150).NodeSelector(nowhere, "true")).Obj())
		})
	}},
	{name: "jobs-that-restart-for-ever", do: func(b *tenant) {
		b.many(100, func(i int) {
			job := b.job(i).MaxRetry(1000000)
			task := mustertesting.MakeTask("a", 1+int32(i%3)).ExitAfter(10*time.Millisecond, 1)
			action := []busv1alpha1.Action{busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction}[i%3]
			b.must(job.Policy(busv1alpha1.PodFailedEvent, action).Task(task).Obj())
		})
	}},
	{name: "jobs-that-are-refused-for-ever", do: func(b *tenant) {
		b.many(39, func(i int) {
			job := b.job(i).Task(mustertesting.MakeTask("a", 3)).Obj()
			spec := &job.Spec.Tasks[0].Template.Spec
			refusals[i%len(refusals)](spec)
			b.try(job)
		})
	}},
	{name: "jobs-of-queues-that-take-none", do: func(b *tenant) {
		b.many(39, func(i int) {
			b.try(b.job(i).Queue([]string{"no-such-queue", queueClosed, "root", strings.Repeat("q", 253)}[i%4]).Task(mustertesting.MakeTask("a", 2)).Obj())
		})
	}},
	{name: "jobs-that-never-fit", do: func(b *tenant) {
		// More than queueShared has, more than any node has, and more than the cluster has.
		for i, cpu := range []string{"9", "33", "1000"} {
			b.must(b.job(i).Queue(queueShared).Task(mustertesting.MakeTask("a", 2).Requests("cpu", cpu)).Obj())
			b.must(b.job(10 + i).Queue(queueBad).MinAvailable(1).Task(mustertesting.MakeTask("a", 50).Requests("cpu", cpu)).Obj())
		}
	}},
	{name: "jobs-that-vanish-when-they-end", do: func(b *tenant) {
		b.many(39, func(i int) {
			b.must(b.job(i).TTL(0).Task(mustertesting.MakeTask("a", 1).ExitAfter(10*time.Millisecond, i%2)).Obj())
		})
	}},
	{name: "longest-names", do: func(b *tenant) {
		b.name = strings.Repeat("l", 27) // and names of pods have 63 characters
		for i := range 3 {
			job := b.job(i).Plugin("svc").Plugin("ssh").Volume(claim("/data"))
			for j := range 3 {
				job.Task(mustertesting.MakeTask(fmt.Sprintf("%s-%d", strings.Repeat("t", 29), j), 2))
			}
			b.try(job.Obj())
		}
	}},
}

// refusals make the API server refuse the pods of a template.
var refusals = []func(*corev1.PodSpec){
	func(s *corev1.PodSpec) { s.Containers = nil },
	func(s *corev1.PodSpec) { s.Containers[0].Name = "Not A Name" },
	func(s *corev1.PodSpec) { s.Containers[0].Image = "" },
	func(s *corev1.PodSpec) { s.Containers = append(s.Containers, s.Containers[0]) },
	func(s *corev1.PodSpec) { s.ServiceAccountName = "no-such-account" },
	func(s *corev1.PodSpec) { s.PriorityClassName = "no-such-class" },
	func(s *corev1.PodSpec) { s.RestartPolicy = "Perhaps" },
	func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = mustertesting.Resources("cpu", "-1") },
	func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = mustertesting.Resources("no domain/x", "1")
	},
	func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 70000}} },
	func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a b": "c d"} },
	func(s *corev1.PodSpec) {
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "no-such-volume", MountPath: "/x"}}
	},
	func(s *corev1.PodSpec) {
		s.Containers[0].Env = []corev1.EnvVar{{Name: "huge", Value: strings.Repeat("x", 300<<10)}}
		s.HostNetwork, s.Containers[0].Ports = true, []corev1.ContainerPort{{ContainerPort: 1, HostPort: 2}}
	},
}

// lives are abuses by what Jobs say, and by what is done to them.
var lives = []abuse{
	{name: "jobs-that-a-finalizer-keeps", namespace: namespaceKept, do: func(b *tenant) {
		b.many(12, func(i int) {
			job := b.job(i).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).MaxRetry(1000).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "10m")).Obj()
			job.Finalizers = []string{finalizer}
			if i%3 == 0 {
				job.Spec.Queue = queueFull
			}
			b.must(job)
			if i%3 == 1 {
				b.soon(job.Name+" runs", func() bool { return b.phase(job.Name) == batchv1alpha1.Running })
			}
			b.tolerate(b.muster.BatchV1alpha1().Jobs(b.namespace).Delete(b.ctx, job.Name, metav1.DeleteOptions{}))
			b.try(b.command(i, busv1alpha1.RestartJobAction, job))
		})
	}},
	{name: "jobs-of-a-namespace-that-goes", namespace: namespaceGoing, do: func(b *tenant) {
		b.many(10, func(i int) {
			job := b.job(i).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).MaxRetry(1000).Plugin("svc").Task(mustertesting.MakeTask("a", 2).ExitAfter(time.Second, 1)).Obj()
			job.Finalizers = []string{finalizer}
			b.must(job)
		})
		b.tolerate(env.Kube.CoreV1().Namespaces().Delete(b.ctx, b.namespace, metav1.DeleteOptions{}))
	}},
	{name: "plugins-with-wrong-arguments", do: func(b *tenant) {
		for i, arguments := range [][]string{
			{"--no-such-flag"}, {"--ssh-private-key=" + strings.Repeat("k", 60<<10)}, {"--port=-1"}, {"--port=99999999999"}, {""}, {"\u0000"}, {"--", "☃"},
			{"--ssh-key-file-path=../../../etc"}, {strings.Repeat("x", 65536)}, slices.Repeat([]string{strings.Repeat("y", 10000)}, 64), {"--disable-network-policy=perhaps"},
			{"--master=no-such-task"}, {"--mpi-master=" + strings.Repeat("m", 1000)},
		} {
			plugins := []string{"svc", "ssh", "env", "pytorch", "mpi", "tensorflow", "ray", "hcclrank", "no-such-plugin"}
			for j, plugin := range []string{plugins[i%9], plugins[(i+1)%9], plugins[(i+4)%9]} {
				b.try(b.job(100*i+j).Plugin(plugin, arguments...).Task(mustertesting.MakeTask("a", 1).ExitAfter(time.Second, 0)).Obj())
			}
		}
	}},
	{name: "circles-of-tasks", do: func(b *tenant) {
		b.try(b.job(0).Task(mustertesting.MakeTask("a", 1).DependsOn("a")).Obj())
		b.try(b.job(1).Task(mustertesting.MakeTask("a", 1).DependsOn("b")).Task(mustertesting.MakeTask("b", 1).DependsOn("a")).Obj())
		b.try(b.job(2).Task(mustertesting.MakeTask("a", 1).DependsOn("no-such-task")).Obj())
		long, every := b.job(3), b.job(4)
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("t%d", i))
		}
		for i, name := range names {
			long.Task(mustertesting.MakeTask(name, 1).DependsOn(names[(i+1)%100]))
			every.Task(mustertesting.MakeTask(name, 1).DependsOnAny(names...))
		}
		b.try(long.Obj())
		b.try(every.Obj())
	}},
	{name: "volumes-that-are-never-bound", do: func(b *tenant) {
		b.many(5, func(i int) {
			job := b.job(i).Task(mustertesting.MakeTask("a", 3))
			for j := range 12 {
				job.Volume(claim(fmt.Sprintf("/data-%d", j)))
			}
			b.try(job.Obj())
			b.try(b.job(100 + i).Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "no-such-claim"}).Task(mustertesting.MakeTask("a", 2)).Obj())
			b.try(b.job(200 + i).Volume(batchv1alpha1.VolumeSpec{MountPath: "/proc/../..//x", VolumeClaimName: "☃"}).Task(mustertesting.MakeTask("a", 2)).Obj())
		})
	}},
	{name: "a-job-that-changes-its-size", do: func(b *tenant) {
		job := b.job(0).Queue(queueSmall).MinAvailable(1).Task(mustertesting.MakeTask("a", 1).Requests("cpu", "500m")).Obj()
		b.must(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchJob(job.Name, fmt.Sprintf(`[{"op":"replace","path":"/spec/tasks/0/replicas","value":%d}]`, []int{1, 40, 4, 0, 7, 100}[turn%6]))
		})
	}},
	{name: "a-job-that-changes-its-minimum", do: func(b *tenant) {
		job := b.job(0).Queue(queueSmall).MinAvailable(1).Task(mustertesting.MakeTask("a", 6).Requests("cpu", "500m")).Obj()
		b.must(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchJob(job.Name, fmt.Sprintf(`[{"op":"replace","path":"/spec/minAvailable","value":%d}]`, []int{6, 1, 3, 0, 7}[turn%5]))
		})
	}},
	{name: "a-job-that-is-suspended-and-resumed", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Suspend(false).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "100m")).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchJob(job.Name, fmt.Sprintf(`[{"op":"replace","path":"/spec/suspend","value":%v}]`, turn%2 == 0))
		})
	}},
	{name: "a-job-whose-labels-change", do: func(b *tenant) {
		job := b.job(0).Label("turn", "0").Annotation("turn", "0").Task(mustertesting.MakeTask("a", 2)).Obj()
		b.must(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchJob(job.Name, fmt.Sprintf(`[{"op":"replace","path":"/metadata/labels/turn","value":"%d"},{"op":"replace","path":"/metadata/annotations/turn","value":"%d"}]`, turn, turn))
		})
	}},
	{name: "jobs-that-come-and-go-under-one-name", do: func(b *tenant) {
		b.again(40, 100*time.Millisecond, func(turn int) {
			job := b.job(0).Queue(queueSmall).Plugin("svc").Task(mustertesting.MakeTask("a", 1+int32(turn%4)).Requests("cpu", "500m"))
			b.try(job.Obj())
			policy := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[turn%3]
			b.tolerate(b.muster.BatchV1alpha1().Jobs(b.namespace).Delete(b.ctx, b.numbered(0), metav1.DeleteOptions{PropagationPolicy: &policy}))
		})
	}},
	{name: "jobs-whose-status-is-forged", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "100m")).Obj()
		b.start(job)
		ranges := "0-2147483647"
		statuses := []string{
			fmt.Sprintf(`{"version":%d,"retryCount":%d,"running":%d,"pending":-1}`, highest, highest, highest),
			fmt.Sprintf(`{"taskRecords":[{"name":"a","created":%q,"succeeded":%q,"failed":%q},{"name":"☃","created":"5-1,,"}]}`, ranges, ranges, ranges),
			fmt.Sprintf(`{"delayed":[{"event":"PodFailed","task":"a","indexes":%q,"since":"1970-01-01T00:00:00Z"}]}`, ranges),
			`{"state":{"phase":"Completed"},"completionTime":"9999-01-01T00:00:00Z"}`, `{"state":{"phase":"Restarting"}}`, `{"state":{"phase":"Aborted"}}`,
			`{"version":-5,"retryCount":-5}`, `{"taskStatusCount":{"☃":{"phase":{"Running":1}}}}`,
			fmt.Sprintf(`{"handledCommand":%q,"handledSpec":%q}`, strings.Repeat("h", 1000), strings.Repeat("s", 1000)),
			fmt.Sprintf(`{"restartBackoff":{"count":%d,"generation":%d,"until":"9999-01-01T00:00:00Z"},"podGeneration":%d}`, highest, highest, highest),
		}
		b.again(40, 100*time.Millisecond, func(turn int) {
			_, err := b.muster.BatchV1alpha1().Jobs(b.namespace).Patch(b.ctx, job.Name, types.MergePatchType,
				[]byte(`{"status":`+statuses[turn%len(statuses)]+`}`), metav1.PatchOptions{}, "status")
			b.tolerate(err)
		})
	}},
	{name: "what-plugins-made-is-changed", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Plugin("svc").Plugin("ssh").Task(mustertesting.MakeTask("a", 3)).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[]},"data":{"turn":"%s"}}`, strings.Repeat("dHVy", turn%3))
			_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.ctx, job.Name+"-svc", types.MergePatchType, patch, metav1.PatchOptions{})
			b.tolerate(err)
			_, err = b.kube.CoreV1().Secrets(b.namespace).Patch(b.ctx, job.Name+"-ssh", types.MergePatchType, patch, metav1.PatchOptions{})
			b.tolerate(err)
			if turn%5 == 0 {
				b.tolerate(b.kube.CoreV1().Services(b.namespace).Delete(b.ctx, job.Name, metav1.DeleteOptions{}))
				b.tolerate(b.kube.CoreV1().ConfigMaps(b.namespace).Delete(b.ctx, job.Name+"-svc", metav1.DeleteOptions{}))
			}
		})
	}},
	{name: "texts-that-are-no-text", do: func(b *tenant) {
		texts := []string{"\xff\xfe", "☃", "𝄞𝄞", "\u202e", "a\u0000b", "\r\n\x1b[31m", strings.Repeat("\u0301", 60)}
		for i, text := range texts {
			b.try(b.job(i).Annotation("example.com/"+b.numbered(i), text).Plugin("env", text).Task(mustertesting.MakeTask("a", 1).Annotation(batchv1alpha1.PodPreemptableKey, text).Command("sh", "-c", text)).Obj())
			named := b.job(100 + i).Task(mustertesting.MakeTask(text, 1)).Obj()
			b.try(named)
			named = b.job(200 + i).Task(mustertesting.MakeTask("a", 1)).Obj()
			named.Name = b.name + text
			b.try(named)
			// No Go client would send this.
			body := fmt.Sprintf("{\"apiVersion\":\"batch.volcano.sh/v1alpha1\",\"kind\":\"Job\",\"metadata\":{\"name\":%q,\"annotations\":{\"a\":\"%s\"}},\"spec\":{\"queue\":%q,\"tasks\":[{\"replicas\":1,\"name\":\"a\",\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"%s\"}]}}}]}}",
				b.numbered(300+i), text, queueBad, text)
			b.tolerate(b.muster.BatchV1alpha1().RESTClient().Post().Namespace(b.namespace).Resource("jobs").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(b.ctx).Error())
		}
	}},
	{name: "timeouts-and-deadlines", do: func(b *tenant) {
		for i, timeout := range []time.Duration{1, time.Millisecond, 2562047 * time.Hour} {
			for j, event := range []busv1alpha1.Event{busv1alpha1.PodPendingEvent, busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent} {
				policy := batchv1alpha1.LifecyclePolicy{Event: event, Action: busv1alpha1.RestartJobAction, Timeout: &metav1.Duration{Duration: timeout}}
				job := b.job(10*i + j).MaxRetry(1000).LifecyclePolicy(policy).Task(mustertesting.MakeTask("a", 3).ExitAfter(time.Second, 1)).Obj()
				seconds := []int64{1, 2147483647}[j%2]
				job.Spec.ActiveDeadlineSeconds = &seconds
				b.try(job)
			}
		}
	}},
	{name: "policies-that-undo-each-other", do: func(b *tenant) {
		actions := []busv1alpha1.Action{ // of the whole job, of a task, of a partition: not each goes with each event
			busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction, busv1alpha1.TerminateJobAction, busv1alpha1.CompleteJobAction,
			busv1alpha1.RestartTaskAction, busv1alpha1.RestartPartitionAction,
		}
		b.many(12, func(i int) {
			task := mustertesting.MakeTask("a", 4).ExitAfter(10*time.Millisecond, i%2).
				Policy(busv1alpha1.PodFailedEvent, actions[i%6]).Policy(busv1alpha1.TaskCompletedEvent, actions[(i+1)%5])
			if i%6 == 5 {
				task.Partitions(2, 2)
			}
			job := b.job(i).MaxRetry(1000000).Policy(busv1alpha1.JobUnknownEvent, actions[(i+2)%4]).Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.RestartJobAction)
			b.must(job.Task(task).Obj())
		})
	}},
	{name: "jobs-that-own-each-other", do: func(b *tenant) {
		first := b.job(0).Task(mustertesting.MakeTask("a", 1)).Obj()
		b.must(first)
		second := b.job(1).Task(mustertesting.MakeTask("a", 1)).Obj()
		second.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(first, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
		b.must(second)
		b.patchJob(first.Name, fmt.Sprintf(`[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}]`,
			second.Name, second.UID))
	}},
}
