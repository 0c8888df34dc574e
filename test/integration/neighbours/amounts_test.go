package neighbours_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// amounts are abuses by what pods, Jobs and PodGroups ask for.
var amounts = []abuse{
	{name: "8Ei-of-memory-in-a-foreign-queue", do: func(b *tenant) { bindAndForce(b, "memory", "8Ei") }},
	{name: "7Ei-of-memory-in-a-foreign-queue", do: func(b *tenant) { bindAndForce(b, "memory", "7Ei") }},
	{name: "cpu-beyond-64-bits-in-a-foreign-queue", do: func(b *tenant) { bindAndForce(b, "cpu", "10000000000000000") }},
	{name: "10E-of-storage-in-a-foreign-queue", do: func(b *tenant) { bindAndForce(b, "ephemeral-storage", "10E") }},
	{name: "absurd-requests-of-jobs", do: func(b *tenant) {
		for i, request := range absurd {
			b.try(b.job(i).Queue(queueShared).Task(mustertesting.MakeTask("a", 1000).Requests(request...)).Obj())
			b.try(b.job(100 + i).Queue(queueShared).MinAvailable(1).Task(mustertesting.MakeTask("a", 2).Requests(request...)).Obj())
		}
	}},
	{name: "absurd-requests-of-pods", do: func(b *tenant) {
		for i, request := range absurd {
			b.try(b.group(i).Queue(queueShared).MinMember(2).Obj())
			b.try(b.pod(i).Group(b.numbered(i)).Requests(request...).Obj())
			b.try(b.pod(100 + i).Group(b.numbered(i)).Requests(request...).Node("node-1").Obj())
			b.try(b.pod(200 + i).QueueName(queueShared).Requests(request...).Obj())
		}
		for i := range absurd {
			b.force(b.numbered(100 + i)) // bound by hand they are in the queue, and leave no room
		}
	}},
	{name: "absurd-minimum-resources", do: func(b *tenant) {
		for i, request := range append([][]string{{"memory", "-8Ei"}, {"cpu", "-10000000000000000"}, {"cpu", "-1", "memory", "-64Gi"}}, absurd...) {
			for j, queue := range []string{queueShared, queueBad, queueSmall} {
				b.try(b.group(10*i + j).Queue(queue).MinMember(1).MinResources(request...).Obj())
			}
		}
	}},
	{name: "sums-beyond-64-bits", do: func(b *tenant) {
		// Each amount can be told, and their sum cannot.
		b.many(20, func(i int) {
			b.try(b.group(i).Queue(queueShared).MinMember(1).MinResources("memory", "6Ei", "cpu", "9000000000000000").Obj())
			b.try(b.pod(i).QueueName(queueShared).Node("node-2").Requests("memory", "6Ei").Obj())
			b.force(b.numbered(i))
		})
	}},
	{name: "hundreds-of-resources", do: func(b *tenant) {
		var many []string
		for i := range 250 {
			many = append(many, fmt.Sprintf("example.com/resource-%d", i), "1")
		}
		b.many(20, func(i int) { b.try(b.group(i).Queue(queueShared).MinMember(1).MinResources(many...).Obj()) })
	}},
	{name: "a-limit-range-with-absurd-defaults", namespace: namespaceLimits, do: func(b *tenant) {
		limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "absurd"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			DefaultRequest: mustertesting.Resources("cpu", "1000000000", "memory", "7Ei"),
			Default:        mustertesting.Resources("cpu", "1000000000", "memory", "7Ei"),
		}}}}
		_, err := env.Kube.CoreV1().LimitRanges(b.namespace).Create(b.ctx, limits, metav1.CreateOptions{})
		b.tolerate(err)
		b.many(20, func(i int) {
			b.must(b.job(i).Queue([]string{queueShared, queueSmall}[i%2]).Task(mustertesting.MakeTask("a", 3)).Obj())
			b.try(b.pod(i).QueueName(queueShared).Obj())
			b.try(b.pod(100 + i).QueueName(queueShared).Node("node-1").Obj())
			b.force(b.numbered(100 + i))
		})
	}},
	{name: "a-quota-that-refuses-pods", namespace: namespaceQuota, do: func(b *tenant) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{
			Hard: mustertesting.Resources("pods", "3", "count/configmaps", "3", "secrets", "2", "services", "1", "persistentvolumeclaims", "0"),
		}}
		_, err := env.Kube.CoreV1().ResourceQuotas(b.namespace).Create(b.ctx, quota, metav1.CreateOptions{})
		b.tolerate(err)
		b.many(20, func(i int) {
			job := b.job(i).Queue([]string{queueShared, queueBad}[i%2]).Task(mustertesting.MakeTask("a", 5).Requests("cpu", "10m"))
			if i%4 == 0 {
				job.Plugin("svc").Plugin("ssh").Volume(claim("/data"))
			}
			b.must(job.Obj())
		})
	}},
}

// absurd are requests that no node can hold, and some that no node notices.
var absurd = [][]string{
	{"memory", "8Ei"},
	{"memory", "7Ei", "cpu", "9000000000000000"},
	{"cpu", "10000000000000000"},
	{"cpu", "9223372036854775807"},
	{"ephemeral-storage", "10E"},
	{"memory", "9223372036854775807", "cpu", "9223372036854775"},
	{"memory", "999999999999999999999"},
	{"cpu", "1n", "memory", "1n"},
	{"cpu", "0", "memory", "0"},
}

// bindAndForce puts pods of an amount into queueGood, bound by hand, and takes them away again.
func bindAndForce(b *tenant, request ...string) {
	b.again(4, 200*time.Millisecond, func(int) {
		for i := range 3 {
			b.must(b.pod(i).Node("node-0").QueueName(queueGood).Requests(request...).Obj())
		}
		for i := range 3 {
			b.force(b.numbered(i))
		}
	})
}
