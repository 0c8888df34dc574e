package neighbours_test

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// commands are abuses by Commands.
var commands = []abuse{
	{name: "commands-for-jobs-that-do-not-exist", do: func(b *tenant) {
		b.many(500, func(i int) { b.must(b.command(i, busv1alpha1.AbortJobAction, b.absent(i))) })
	}},
	{name: "commands-for-one-job", do: func(b *tenant) {
		job := b.job(0).Task(mustertesting.MakeTask("a", 3)).Obj()
		b.must(job)
		actions := []busv1alpha1.Action{busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction, busv1alpha1.RestartJobAction}
		b.many(300, func(i int) { b.must(b.command(i, actions[i%len(actions)], job)) })
	}},
	{name: "commands-with-long-messages", do: func(b *tenant) {
		job := b.job(0).Task(mustertesting.MakeTask("a", 3)).Obj()
		b.must(job)
		for i, length := range []int{1 << 20, 400 << 10, 1024, 1023} {
			for j, character := range []string{"m", "☃", "𝄞", "\u0000", "<"} {
				command := b.command(10*i+j, []busv1alpha1.Action{busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction}[j%2], job)
				command.Message, command.Reason = strings.Repeat(character, length/len(character)), strings.Repeat(character, min(length, 128)/len(character))
				b.try(command)
			}
		}
	}},
	{name: "commands-that-mean-nothing", do: func(b *tenant) {
		job := b.job(0).Task(mustertesting.MakeTask("a", 1)).Obj()
		b.must(job)
		for i, action := range []busv1alpha1.Action{"", "abortjob", "EnqueueJob", "SyncJob", "OpenQueue", "RestartTask", "RestartPod", "☃"} {
			b.try(b.command(2*i, action, job))
			command := b.command(2*i+1, action, job)
			command.TargetObject = nil
			b.try(command)
		}
		for i, target := range []metav1.OwnerReference{
			{}, {Kind: "Job"}, {Kind: "Job", Name: job.Name}, {Kind: "Job", Name: job.Name, UID: "other"}, {APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID},
			{APIVersion: batchv1alpha1.SchemeGroupVersion.String(), Kind: "Job", Name: "../" + namespaceGood + "/" + goodName(0), UID: job.UID},
			{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "Queue", Name: "no-such-queue", UID: job.UID},
			{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup", Name: groupOf(job), UID: job.UID},
		} {
			command := b.command(100+i, busv1alpha1.AbortJobAction, job)
			command.TargetObject = &target
			b.try(command)
		}
	}},
	{name: "commands-for-the-neighbour's-jobs", do: func(b *tenant) {
		b.name = "foreign-commands"
		for i := range 10 {
			name := types.NamespacedName{Namespace: namespaceGood, Name: goodName(i)}
			b.soon("the next Job of the other namespace", func() bool { return log.Job(name).Phase != "" })
			foreign, err := env.Muster.BatchV1alpha1().Jobs(namespaceGood).Get(b.ctx, name.Name, metav1.GetOptions{})
			b.tolerate(err)
			b.try(b.command(i, busv1alpha1.TerminateJobAction, foreign))
		}
	}},
	{name: "commands-that-a-finalizer-keeps", do: func(b *tenant) {
		job := b.job(0).Task(mustertesting.MakeTask("a", 2)).Obj()
		b.must(job)
		for i, action := range []busv1alpha1.Action{busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction, busv1alpha1.RestartJobAction} {
			for j, target := range []*batchv1alpha1.Job{job, b.absent(0)} {
				command := b.command(10*i+j, action, target)
				command.Finalizers = []string{finalizer}
				b.must(command)
			}
		}
	}},
	{name: "a-job-restarted-in-a-loop", namespace: namespaceKept, do: func(b *tenant) {
		job := b.job(0).Queue(queueAmple).MaxRetry(1000000).Task(mustertesting.MakeTask("a", 2).Requests("cpu", "100m")).Obj()
		b.start(job)
		b.again(40, 100*time.Millisecond, func(turn int) { b.must(b.command(turn, busv1alpha1.RestartJobAction, job)) })
	}},
}
