package neighbours_test

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// highest is the largest 32-bit integer.
const highest = 2147483647

// groups are abuses by PodGroups.
var groups = []abuse{
	{name: "a-minimum-that-is-never-reached", do: func(b *tenant) {
		for i := range 10 {
			b.must(b.group(i).Queue(queueShared).MinMember(highest).Obj())
			for j := range 3 {
				b.must(b.pod(10*i + j).Group(b.numbered(i)).Obj())
			}
		}
	}},
	{name: "minimums-of-tasks-that-do-not-exist", do: func(b *tenant) {
		large := b.group(0).Queue(queueShared).MinMember(highest)
		for i := range 900 {
			large.MinTaskMember(fmt.Sprintf("task-%d", i), highest)
		}
		b.try(large.Obj())
		b.try(b.group(1).Queue(queueShared).MinMember(1).MinTaskMember("unknown", 1).Obj())
		b.try(b.group(2).Queue(queueShared).MinMember(1).MinTaskMember("a", -highest).MinTaskMember("", highest).MinTaskMember("☃", 1).Obj())
		for i := range 6 {
			b.must(b.pod(i).Group(b.numbered(i / 2)).Task("a").Obj())
		}
	}},
	{name: "groups-that-change-their-queue", do: func(b *tenant) {
		for i := range 5 {
			b.must(b.group(i).Queue(queueOne).MinMember(2).MinResources("cpu", "2").Obj())
			for j := range 2 {
				b.must(b.pod(10*i+j).Group(b.numbered(i)).Requests("cpu", "1").Obj())
			}
		}
		b.again(40, 100*time.Millisecond, func(turn int) {
			for i := range 5 {
				b.patchGroup(b.numbered(i), fmt.Sprintf(`{"spec":{"queue":%q}}`, []string{queueOne, queueOther, queueClosed, "no-such-queue"}[(turn+i)%4]))
			}
		})
	}},
	{name: "groups-that-change-their-minimum", do: func(b *tenant) {
		b.must(b.group(0).MinMember(2).Obj())
		for i := range 4 {
			b.must(b.pod(i).Group(b.numbered(0)).Requests("cpu", "100m").Obj())
		}
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchGroup(b.numbered(0), fmt.Sprintf(`{"spec":{"minMember":%d,"minTaskMember":{"a":%d},"minResources":{"cpu":"%d"}}}`,
				[]int{2, highest, 0, 5}[turn%4], turn%3, turn%7))
		})
	}},
	{name: "groups-without-pods", do: func(b *tenant) {
		// Their queue never has room for some. It has room for the other groups, which then wait for their pods.
		b.many(100, func(i int) {
			b.must(b.group(i).Queue([]string{queueShared, queueFull}[i%2]).MinMember(4).MinResources("cpu", []string{"9", "1"}[i%2]).Obj())
		})
	}},
	{name: "groups-of-queues-that-take-none", do: func(b *tenant) {
		b.many(40, func(i int) {
			queue := []string{"no-such-queue", queueClosed, schedulingv1beta1.RootQueue, strings.Repeat("q", 253)}[i%4]
			b.try(b.group(i).Queue(queue).MinMember(1).Obj())
			b.must(b.pod(i).Group(b.numbered(i)).Obj())
		})
	}},
	{name: "priority-classes-that-do-not-exist", do: func(b *tenant) {
		b.many(10, func(i int) {
			b.try(b.group(i).PriorityClass("no-such-class").Queue(queueShared).MinMember(1).Obj())
			b.must(b.pod(i).Group(b.numbered(i)).Obj())
			b.try(b.pod(100 + i).PriorityClass("no-such-class").Group(b.numbered(i)).Obj())
			b.must(b.job(i).PriorityClass("no-such-class").Queue(queueShared).Task(mustertesting.MakeTask("a", 2)).Obj())
			b.must(b.job(100 + i).PriorityClass("system-node-critical").Queue(queueShared).Task(mustertesting.MakeTask("a", 2)).Obj())
		})
	}},
	{name: "sub-groups-and-topologies-that-are-none", do: func(b *tenant) {
		size, tier := int32(highest), highest
		for i := range 5 {
			group := b.group(i).MinMember(2).Obj()
			group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
			for j := range 50 {
				group.Spec.SubGroupPolicy = append(group.Spec.SubGroupPolicy, schedulingv1beta1.SubGroupPolicySpec{
					Name: fmt.Sprintf("policy-%d", j), SubGroupSize: &size, MinSubGroups: &size,
					LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"a", "b", strings.Repeat("k", 300)},
				})
			}
			b.try(group)
			b.must(b.pod(2 * i).Group(b.numbered(i)).Obj())
			b.must(b.pod(2*i + 1).Group(b.numbered(i)).Obj())
		}
	}},
	{name: "groups-whose-status-is-forged", do: func(b *tenant) {
		b.must(b.group(0).Queue(queueNarrow).MinMember(3).MinResources("cpu", "3").Obj())
		for i := range 3 {
			b.must(b.pod(i).Group(b.numbered(0)).Requests("cpu", "1").Obj())
		}
		long := strings.Repeat("m", 1000)
		b.again(40, 100*time.Millisecond, func(turn int) {
			phase := []schedulingv1beta1.PodGroupPhase{"Running", "Inqueue", "Completed", "Unknown", "Pending", ""}[turn%6]
			b.patchGroup(b.numbered(0), fmt.Sprintf(`{"status":{"phase":%q,"running":%d,"succeeded":%d,"failed":-1,"jobVersion":%d,
				"conditions":[{"type":"Scheduled","status":"True","lastTransitionTime":"9999-01-01T00:00:00Z","reason":%q,"message":%q}]}}`,
				phase, highest, highest, highest, long, long), "status")
		})
	}},
	{name: "groups-of-jobs-that-are-changed", namespace: namespaceKept, do: func(b *tenant) {
		// The job controller owns these.
		job := b.job(0).Queue(queueAmple).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "500m")).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.patchGroup(groupOf(job), fmt.Sprintf(`{"metadata":{"ownerReferences":[],"labels":{"turn":"%d"}},"spec":{"minMember":%d,"queue":%q,"minResources":{"cpu":"%d"}}}`,
				turn, turn%4, []string{queueOne, queueBad}[turn%2], turn))
		})
	}},
	{name: "groups-of-jobs-that-are-deleted", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).Task(mustertesting.MakeTask("a", 2)).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(int) {
			b.tolerate(b.muster.SchedulingV1beta1().PodGroups(b.namespace).Delete(b.ctx, groupOf(job), metav1.DeleteOptions{}))
		})
	}},
	{name: "groups-that-come-and-go-under-one-name", do: func(b *tenant) {
		for i := range 3 {
			b.must(b.pod(i).Group(b.numbered(0)).Requests("cpu", "100m").Obj())
		}
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.try(b.group(0).Queue([]string{queueOne, queueOther}[turn%2]).MinMember(int32(1 + turn%4)).Obj())
			b.tolerate(b.muster.SchedulingV1beta1().PodGroups(b.namespace).Delete(b.ctx, b.numbered(0), metav1.DeleteOptions{}))
		})
	}},
	{name: "groups-that-a-finalizer-keeps", do: func(b *tenant) {
		b.many(10, func(i int) {
			group := b.group(i).MinMember(1).MinResources("cpu", "1").Obj()
			group.Finalizers = []string{finalizer}
			b.must(group)
			b.must(b.pod(i).Group(group.Name).Obj())
			b.tolerate(b.muster.SchedulingV1beta1().PodGroups(b.namespace).Delete(b.ctx, group.Name, metav1.DeleteOptions{}))
		})
	}},
	{name: "gangs-that-lose-members-in-a-loop", do: func(b *tenant) {
		b.must(b.group(0).Queue(queueBad).MinMember(3).Obj())
		b.again(40, 100*time.Millisecond, func(turn int) {
			b.try(b.pod(turn%4).Group(b.numbered(0)).Requests("cpu", "100m").Obj())
			b.force(b.numbered((turn + 1) % 4))
		})
	}},
	{name: "a-condition-that-never-ends", do: func(b *tenant) {
		// The apply of another field manager, with ever more conditions and keys.
		b.must(b.group(0).MinMember(1).Obj())
		b.again(10, 10*time.Millisecond, func(turn int) {
			var conditions []string
			for i := range 200 * (turn + 1) {
				conditions = append(conditions, fmt.Sprintf(`{"type":"T%d","status":"True","message":"%d"}`, i, turn))
			}
			patch := fmt.Sprintf(`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","status":{"conditions":[%s]}}`, strings.Join(conditions, ","))
			force := true
			_, err := b.muster.SchedulingV1beta1().PodGroups(b.namespace).Patch(b.ctx, b.numbered(0), types.ApplyPatchType, []byte(patch),
				metav1.PatchOptions{FieldManager: b.numbered(turn), Force: &force}, "status")
			b.tolerate(err)
		})
	}},
}
