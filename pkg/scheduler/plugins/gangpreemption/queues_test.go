package gangpreemption

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestVictimsOfAPodWithAQueue: priority decides inside a queue, shares decide between queues. The nodes have as much as is used.
func TestVictimsOfAPodWithAQueue(t *testing.T) {
	runs := func(name, queue, cpu string, priority int32) *mustertesting.PodWrapper {
		pod := mustertesting.MakePod(name).Node(nodeName(0)).Requests("cpu", cpu).Priority(priority)
		if queue != "" {
			pod = pod.QueueName(queue)
		}
		return pod
	}
	member := func(name string, node int) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).Group("g").Node(nodeName(node)).Requests("cpu", "2").Priority(100)
	}
	urgent := func(queue string) *mustertesting.PodWrapper {
		return mustertesting.MakePod("urgent").Requests("cpu", "2").Priority(10).QueueName(queue)
	}
	for name, c := range map[string]struct {
		queues    map[string]string // deserved cpus
		pods      []*mustertesting.PodWrapper
		preemptor *mustertesting.PodWrapper
		want      []string
	}{
		"a lower priority in the same queue":           {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0)}, urgent("a"), []string{"low"}},
		"an equal priority in the same queue":          {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("same", "a", "2", 10)}, urgent("a"), nil},
		"another queue within its share":               {map[string]string{"a": "2", "b": "2"}, []*mustertesting.PodWrapper{runs("low", "b", "2", 0)}, urgent("a"), nil},
		"another queue above its share":                {map[string]string{"a": "2", "b": "2"}, []*mustertesting.PodWrapper{runs("one", "b", "2", 100), runs("two", "b", "2", 100)}, urgent("a"), []string{"two"}},
		"the own queue above its share":                {map[string]string{"a": "1", "b": "1"}, []*mustertesting.PodWrapper{runs("low", "b", "2", 0)}, urgent("a"), nil},
		"a preemptor without a queue":                  {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0)}, urgent(""), []string{"low"}},
		"a pod that must not be evicted":               {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0).Annotation("volcano.sh/preemptable", "false")}, urgent("a"), nil},
		"a pod whose label says so":                    {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0).Label("volcano.sh/preemptable", "false")}, urgent("a"), nil},
		"a gang of a queue above its share goes whole": {map[string]string{"a": "2", "b": "0"}, []*mustertesting.PodWrapper{member("g0", 0), member("g1", 1)}, urgent("a"), []string{"g0", "g1"}},
		"a gang of which one member must stay":         {map[string]string{"a": "2", "b": "0"}, []*mustertesting.PodWrapper{member("g0", 0), member("g1", 1).Annotation("volcano.sh/preemptable", "false")}, urgent("a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			s.tracker.Quota.EnforceQuota()
			for queue, deserved := range c.queues {
				q := mustertesting.MakeQueue(queue).Obj()
				q.Spec.Deserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(deserved)}
				s.tracker.Quota.SetQueue(q)
			}
			s.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Queue("b").Obj())
			for _, pod := range c.pods {
				s.add(pod.Obj())
			}
			victims, _ := s.victims(t, s.attempt(c.preemptor.Obj(), 2, 0), nodeName(0))
			assert.ElementsMatch(t, c.want, namesOf(victims))
		})
	}
}

func TestPodsOfAQueueRunForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		began    time.Duration // before now
		cooldown string
		want     []string
	}{
		"since less than the queue's time":   {time.Minute, "", nil},
		"since longer":                       {time.Hour, "", []string{"low"}},
		"since less than its own time":       {time.Hour, "2h", nil},
		"a time of its own that is no time":  {time.Hour, "soon", []string{"low"}},
		"a shorter time of its own does not": {time.Minute, "1s", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			q := mustertesting.MakeQueue("a").Obj()
			q.Spec.Muster = &schedulingv1beta1.QueueExtension{MinRuntime: &metav1.Duration{Duration: 10 * time.Minute}}
			s.tracker.Quota.SetQueue(q)
			pod := mustertesting.MakePod("low").Node(nodeName(0)).Requests("cpu", "2").QueueName("a")
			if c.cooldown != "" {
				pod = pod.Annotation("volcano.sh/cooldown-time", c.cooldown)
			}
			low := pod.Obj()
			low.Status.StartTime = &metav1.Time{Time: time.Now().Add(-c.began)}
			s.add(low)
			urgent := mustertesting.MakePod("urgent").Requests("cpu", "2").Priority(10).Obj()
			victims, _ := s.victims(t, s.attempt(urgent, 1, 0), nodeName(0))
			assert.ElementsMatch(t, c.want, namesOf(victims))
		})
	}
}
