package neighbours_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// notAdmitted is the abuse whose Jobs are never admitted, and the beginning of their names.
const notAdmitted = "pods-that-vouch-for-jobs"

// pods are abuses by pods that the tenant makes, and by what it does to pods of its Jobs.
var pods = []abuse{
	{name: "forged-annotations", do: func(b *tenant) {
		job := b.job(0).Task(mustertesting.MakeTask("a", 2)).Obj()
		b.must(job)
		for i, forged := range []string{"2147483648", "-1", "99999999999999999999", "a", "", "0x10", "1e9", " 1", "２"} {
			for j, key := range []string{batchv1alpha1.JobVersionKey, batchv1alpha1.TaskIndexKey, batchv1alpha1.JobRetryCountKey, batchv1alpha1.TaskSpecKey, "muster.sh/pod-generation"} {
				pod := b.pod(10*i + j).Owner(job).Group(groupOf(job))
				pod.Annotation(batchv1alpha1.JobNameKey, job.Name).Annotation(batchv1alpha1.TaskSpecKey, "a").Annotation(batchv1alpha1.TaskIndexKey, "0").
					Label(batchv1alpha1.JobNameKey, job.Name).Label(batchv1alpha1.TaskSpecKey, "a")
				b.try(pod.Annotation(key, forged).Obj())
			}
		}
	}},
	{name: "forged-members", do: func(b *tenant) {
		// Pods beyond the replicas of a Job, of tasks that it does not have, and of a later incarnation.
		job := b.job(0).Task(mustertesting.MakeTask("a", 2)).Obj()
		b.must(job)
		for i, task := range []string{"a", "b", strings.Repeat("c", 63)} {
			for j, version := range []int{0, 1, highest} {
				pod := b.pod(10 * i).Owner(job).Group(groupOf(job)).Task(task).Version(version)
				forged := pod.Label(batchv1alpha1.JobNameKey, job.Name).Annotation(batchv1alpha1.JobNameKey, job.Name).Obj()
				forged.Name = fmt.Sprintf("%s-%s-%d", job.Name, task, []int64{0, highest, highest + 1}[j])
				forged.Annotations[batchv1alpha1.TaskIndexKey] = fmt.Sprint([]int64{0, highest, highest + 1}[j])
				b.try(forged)
			}
		}
	}},
	{name: "forged-owners", do: func(b *tenant) {
		b.soon("a Job of the other namespace", func() bool { return len(goodJobs()) > 0 })
		foreign, err := env.Muster.BatchV1alpha1().Jobs(namespaceGood).Get(b.ctx, goodJobs()[0], metav1.GetOptions{})
		b.tolerate(err)
		own := b.absent(0)
		for i, owner := range []*batchv1alpha1.Job{foreign, own} {
			b.try(b.pod(i).Owner(owner).Group(groupOf(owner)).Annotation(batchv1alpha1.JobNameKey, owner.Name).Label(batchv1alpha1.JobNamespaceKey, namespaceGood).Obj())
			b.try(b.group(i).Owner(owner).MinMember(1).Obj())
			group := b.group(10 + i).Owner(owner).Obj()
			group.Name = groupOf(owner)
			b.try(group)
		}
	}},
	{name: notAdmitted, namespace: namespaceKept, do: func(b *tenant) {
		// Pods that say that a Job has been admitted whose queue is full, or has less than the Job needs.
		b.many(10, func(i int) {
			job := b.job(i).Queue([]string{queueFull, queueNarrow}[i%2]).Task(mustertesting.MakeTask("a", 4).Requests("cpu", "1")).Obj()
			b.must(job)
			b.soon("the PodGroup of "+job.Name, func() bool {
				return log.Group(types.NamespacedName{Namespace: b.namespace, Name: groupOf(job)}).Queue != ""
			})
			for j, node := range []string{"", "node-3"} {
				forged := b.pod(10*i+j).Owner(job).Group(groupOf(job)).Version(0).Task("a").Node(node).Requests("cpu", "1").Obj()
				forged.Name = fmt.Sprintf("forged-%d-%d", i, j)
				forged.Annotations[batchv1alpha1.JobNameKey], forged.Labels[batchv1alpha1.JobNameKey] = job.Name, job.Name
				forged.Annotations[batchv1alpha1.TaskIndexKey] = "0"
				b.try(forged)
			}
		})
	}},
	{name: "huge-annotations", do: func(b *tenant) {
		b.must(b.group(0).MinMember(1000).Obj())
		b.many(20, func(i int) {
			b.try(b.pod(i).Group(b.numbered(0)).Annotation("example.com/huge", strings.Repeat("x", 200<<10)).Obj())
		})
		b.try(b.pod(100).Annotation(schedulingv1beta1.GroupNameAnnotation, strings.Repeat("g", 200<<10)).Obj())
		b.try(b.pod(101).Annotation(schedulingv1beta1.QueueNameAnnotation, strings.Repeat("q", 200<<10)).Obj())
		b.try(b.job(0).Annotation("example.com/huge", strings.Repeat("x", 250<<10)).Task(mustertesting.MakeTask("a", 10).Annotation("example.com/huge", strings.Repeat("x", 200<<10))).Obj())
	}},
	{name: "names-of-queues-and-groups-that-are-none", do: func(b *tenant) {
		for i, name := range []string{"no-such", "../good", "good/good", "A B", "", "root", "default", "☃", strings.Repeat("x", 1000), namespaceGood + "/" + queueGood} {
			b.try(b.pod(2 * i).Group(name).Obj())
			b.try(b.pod(2*i + 1).QueueName(name).Obj())
		}
	}},
	{name: "the-names-of-the-neighbour's-objects", do: func(b *tenant) {
		b.name = "same-names"
		for i := range 10 {
			name := goodName(i)
			job := b.job(0).Plugin("svc").Plugin("ssh").Task(mustertesting.MakeTask("worker", 2)).Obj()
			job.Name = name
			b.occupy(name, "worker", 4)
			b.must(job)
		}
		b.soon("a Job of the other namespace", func() bool { return len(goodJobs()) > 1 })
		for _, name := range goodJobs() {
			foreign, err := env.Muster.BatchV1alpha1().Jobs(namespaceGood).Get(b.ctx, name, metav1.GetOptions{})
			b.tolerate(err)
			group := b.group(0).MinMember(highest).Obj()
			group.Name = groupOf(foreign)
			b.try(group)
		}
	}},
	{name: "the-names-of-objects-to-come", do: func(b *tenant) {
		b.many(10, func(i int) {
			b.occupy(b.numbered(i), "a", 3)
			b.must(b.job(i).Plugin("svc").Plugin("ssh").Plugin("env").Volume(claim("/data")).Task(mustertesting.MakeTask("a", 3).ExitAfter(time.Second, 0)).Obj())
		})
	}},
	{name: "gates-selectors-and-schedulers-that-never-match", do: func(b *tenant) {
		for i := range 10 {
			b.must(b.group(i).MinMember(3).Obj())
			gated := b.pod(10 * i).Group(b.numbered(i)).Obj()
			gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
			b.must(gated)
			b.must(b.pod(10*i + 1).Group(b.numbered(i)).SchedulerName("no-such-scheduler").Obj())
			selected := b.pod(10*i + 2).Group(b.numbered(i)).Obj()
			selected.Spec.NodeSelector = map[string]string{nowhere: "true"}
			b.must(selected)
		}
	}},
	{name: "searches-without-an-end", do: func(b *tenant) {
		// Gangs whose members must not be together, and for which there are not enough nodes, or just enough.
		for i, replicas := range []int32{nodes, nodes + 1, 60} {
			name := b.numbered(i)
			job := b.job(i).Task(mustertesting.MakeTask("a", replicas).Label("apart", name).Requests("cpu", "10m")).Obj()
			selector := &metav1.LabelSelector{MatchLabels: map[string]string{"apart": name}}
			job.Spec.Tasks[0].Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelHostname}},
			}}
			job.Spec.Tasks[0].Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
			}}
			b.must(job)
		}
	}},
	{name: "pods-force-deleted-in-a-loop", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Task(mustertesting.MakeTask("a", 4).Requests("cpu", "500m")).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(int) {
			for _, pod := range b.pods(job.Name) {
				b.force(pod)
			}
		})
	}},
	{name: "pods-evicted-in-a-loop", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).MaxRetry(1000).Task(mustertesting.MakeTask("a", 4)).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(int) {
			for _, pod := range b.pods(job.Name) {
				b.tolerate(b.kube.PolicyV1().Evictions(b.namespace).Evict(b.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: pod}}))
			}
		})
	}},
	{name: "pods-that-a-finalizer-keeps", namespace: namespaceKept, do: func(b *tenant) {
		b.many(5, func(i int) {
			job := b.job(i).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)).Obj()
			job.Spec.Tasks[0].Template.Finalizers = []string{finalizer}
			b.must(job)
			b.soon("pods of "+job.Name, func() bool { return len(log.PodsOf(types.NamespacedName{Namespace: b.namespace, Name: job.Name})) == 2 })
			for _, pod := range b.pods(job.Name) {
				b.tolerate(b.kube.CoreV1().Pods(b.namespace).Delete(b.ctx, pod, metav1.DeleteOptions{}))
			}
		})
	}},
	{name: "pods-whose-annotations-change-in-a-loop", do: func(b *tenant) {
		// From one gang, task and incarnation to another, from one queue to another.
		b.must(b.group(0).Queue(queueOne).MinMember(2).Obj())
		b.must(b.group(1).Queue(queueOther).MinMember(2).Obj())
		for i := range 4 {
			b.must(b.pod(i).Group(b.numbered(i%2)).Requests("cpu", "1").Obj())
		}
		b.again(40, 100*time.Millisecond, func(turn int) {
			for i := range 4 {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:"%d",%q:"t%d",%q:%q}}}`, schedulingv1beta1.GroupNameAnnotation, b.numbered((i+turn)%3),
					batchv1alpha1.JobVersionKey, turn%5, batchv1alpha1.TaskSpecKey, turn%3, schedulingv1beta1.QueueNameAnnotation, []string{queueOne, queueOther}[turn%2])
				_, err := b.kube.CoreV1().Pods(b.namespace).Patch(b.ctx, b.numbered(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				b.tolerate(err)
			}
		})
	}},
}

// occupy creates objects that have the names of what will be made for a Job.
func (b *tenant) occupy(job, task string, replicas int) {
	b.Helper()
	for i := range replicas {
		pod := b.pod(0).Obj()
		pod.Name = fmt.Sprintf("%s-%s-%d", job, task, i)
		b.try(pod)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	b.try(&corev1.ConfigMap{ObjectMeta: meta(job + "-svc")})
	b.try(&corev1.Secret{ObjectMeta: meta(job + "-ssh")})
	b.try(&corev1.Service{ObjectMeta: meta(job), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	other := claim("/data").VolumeClaim
	b.try(&corev1.PersistentVolumeClaim{ObjectMeta: meta(job), Spec: *other})
}

// claim is a volume whose claim is never bound.
func claim(path string) batchv1alpha1.VolumeSpec {
	class := "no-such-class"
	return batchv1alpha1.VolumeSpec{MountPath: path, VolumeClaim: &corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: &class,
		Resources:        corev1.VolumeResourceRequirements{Requests: mustertesting.Resources("storage", "1Gi")},
	}}
}
