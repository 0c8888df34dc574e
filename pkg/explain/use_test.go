package explain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestTheLargestGang(t *testing.T) {
	pod := mustertesting.MakePod("like-this").Requests("cpu", "1").Obj()
	f := waitingJob()
	assert.Equal(t, Gang{Nodes: 2, Queue: -1}, LargestGang(f, pod, ""), "6 of 8 cpu of the node are taken")
	f.Bound = nil
	assert.Equal(t, Gang{Nodes: 8, Queue: 2, LimitedBy: "team"}, LargestGang(f, pod, "team"), "6 of 8 cpu of the queue are taken")
	assert.Equal(t, 2, LargestGang(f, pod, "team").Size())
	f.Queues[1].Status.Reservation.Resource = mustertesting.Resources("cpu", "1")
	assert.Equal(t, 1, LargestGang(f, pod, "team").Size(), "and 1 is reserved")
	f.Nodes = nil
	assert.Zero(t, LargestGang(f, pod, "team").Size())
}

func TestWhatUsersUse(t *testing.T) {
	f := waitingJob()
	f.Groups = []schedulingv1beta1.PodGroup{*mustertesting.MakePodGroup("gang").Namespace("ml").Queue("team").User("ann").Obj()}
	f.Bound = []corev1.Pod{
		*mustertesting.MakePod("a").Namespace("ml").Group("gang").Requests("cpu", "1").Node("n1").Obj(),
		*mustertesting.MakePod("b").Namespace("ml").Group("gang").Requests("cpu", "1").Node("n1").Obj(),
		*mustertesting.MakePod("c").Namespace("ml").QueueName("team").Label(schedulingv1beta1.UserLabel, "bob").Requests("cpu", "3").Node("n1").Obj(),
		*mustertesting.MakePod("d").Namespace("ml").Requests("cpu", "9").Node("n1").Obj(),
	}
	assert.Equal(t, []Use{
		{User: "bob", Queue: "team", Pods: 1, Requests: resources.List{"cpu": 3000}},
		{User: "ann", Queue: "team", Pods: 2, Requests: resources.List{"cpu": 2000}},
	}, Uses(f))
}
