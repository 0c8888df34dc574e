package queueing_test

import (
	"fmt"
	"testing"

	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAUserHasItsQuotaOfTheQueue: the use of the user's running pods counts. Another user's request is admitted meanwhile, though the queue
// is first in, first out.
func TestAUserHasItsQuotaOfTheQueue(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	queue := mustertesting.MakeQueue(s.name("team")).Capability("cpu", "6").Dequeue(schedulingv1beta1.DequeueStrategyFIFO)
	queue.Extend(&schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources("cpu", "2")}})
	team := s.createQueue(queue).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	group := func(name, user, cores string) {
		s.createGroup(mustertesting.MakePodGroup(name).User(user).Queue(team).MinMember(1).MinResources("cpu", cores))
	}
	group("ann-1", "ann", "2")
	s.phase("ann-1", schedulingv1beta1.PodGroupInqueue)
	s.createPods("ann-1", "a", "b")
	s.bind("a", "b")
	s.phase("ann-1", schedulingv1beta1.PodGroupRunning)
	group("ann-2", "ann", "1")
	s.why("ann-2", fmt.Sprintf("user \"ann\" of queue %q has 0 cpu free of its quota, 1 needed", team))
	group("bob-1", "bob", "2")
	s.phase("bob-1", schedulingv1beta1.PodGroupInqueue)
	group("bob-2", "bob", "3")
	s.why("bob-2", fmt.Sprintf("can never fit user \"bob\" of queue %q: 3 cpu asked, its quota is 2", team))

	s.eventually("the status says what each user has", func() bool {
		status := s.queue(team).Status.Muster
		return status != nil && status.Figures != nil && len(status.Users) == 1 && status.Users[0].Name == "ann" && status.Users[0].Allocated.Cpu().Value() == 2 &&
			status.OtherUsers == 0 && status.Figures.Used == "cpu 2/6" && status.Figures.Reserved == "2"
	})

	s.deletePods("a")
	s.phase("ann-2", schedulingv1beta1.PodGroupInqueue)
}

// TestSoManyJobsOfAQueueRun: the next is let in when one has gone.
func TestSoManyJobsOfAQueueRun(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	queue := mustertesting.MakeQueue(s.name("team"))
	queue.Extend(&schedulingv1beta1.QueueExtension{MaxRunningJobs: ptr.To[int32](1)})
	team := s.createQueue(queue).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("first").Queue(team).MinMember(1))
	s.phase("first", schedulingv1beta1.PodGroupInqueue)
	s.createGroup(mustertesting.MakePodGroup("second").Queue(team).MinMember(1))
	s.why("second", fmt.Sprintf("running jobs of queue %q: 1, its maxRunningJobs is 1", team))
	s.deleteGroup("first")
	s.phase("second", schedulingv1beta1.PodGroupInqueue)
}
