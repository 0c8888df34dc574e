package gangpreemption

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

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
		"another queue above its share":                {map[string]string{"a": "2", "b": "2"}, []*mustertesting.PodWrapper{runs("one", "b", "2", 100), runs("two", "b", "2", 90)}, urgent("a"), []string{"two"}},
		"the own queue above its share":                {map[string]string{"a": "1", "b": "1"}, []*mustertesting.PodWrapper{runs("low", "b", "2", 0)}, urgent("a"), nil},
		"a preemptor without a queue":                  {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0)}, urgent(""), []string{"low"}},
		"a pod that must not be evicted":               {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0).Annotation("volcano.sh/preemptable", "false")}, urgent("a"), nil},
		"a pod whose label says so":                    {map[string]string{"a": "2"}, []*mustertesting.PodWrapper{runs("low", "a", "2", 0).Label("volcano.sh/preemptable", "false")}, urgent("a"), nil},
		"a gang of a queue above its share goes whole": {map[string]string{"a": "2", "b": "0"}, []*mustertesting.PodWrapper{member("g0", 0), member("g1", 1)}, urgent("a"), []string{"g0", "g1"}},
		"whatever one of its members says":             {map[string]string{"a": "2", "b": "0"}, []*mustertesting.PodWrapper{member("g0", 0), member("g1", 1).Annotation("volcano.sh/preemptable", "false")}, urgent("a"), []string{"g0", "g1"}},
		"not so if priority decides":                   {map[string]string{"b": "4"}, []*mustertesting.PodWrapper{member("g0", 0).Priority(0), member("g1", 1).Priority(0).Annotation("volcano.sh/preemptable", "false")}, urgent("b"), nil},
		"a pod without a queue":                        {map[string]string{"a": "2", "b": "2"}, []*mustertesting.PodWrapper{runs("none", "", "2", 0)}, urgent("a"), []string{"none"}},
		"not if a queue has borrowed as much":          {map[string]string{"a": "2", "b": "0"}, []*mustertesting.PodWrapper{runs("none", "", "2", 0), runs("one", "b", "1", 100).Node(nodeName(1)), runs("two", "b", "1", 100).Node(nodeName(1))}, urgent("a"), []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			s.tracker.Quota.EnforceQuota()
			for queue, deserved := range c.queues {
				q := mustertesting.MakeQueue(queue).Obj()
				q.Spec.Deserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(deserved)}
				s.tracker.SetQueue(q)
			}
			s.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Queue("b").Obj())
			for _, pod := range c.pods {
				s.add(pod.Obj())
			}
			assert.ElementsMatch(t, c.want, s.evictedFor(t, c.preemptor.UID("urgent").SchedulerName("muster").Obj(), 2))
		})
	}
}

// TestWordsKeepNoBorrowedRoom: anybody can write on a pod that it stays, or that a DaemonSet owns it. That counts where priority decides.
func TestWordsKeepNoBorrowedRoom(t *testing.T) {
	for name, say := range map[string]func(*corev1.Pod){
		"not preemptable":      func(pod *corev1.Pod) { pod.Annotations["volcano.sh/preemptable"] = "false" },
		"a label says so":      func(pod *corev1.Pod) { pod.Labels = map[string]string{"volcano.sh/preemptable": "false"} },
		"cools down for years": func(pod *corev1.Pod) { pod.Annotations["volcano.sh/cooldown-time"] = "1000000h" },
		"owned by a DaemonSet": func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for queue, want := range map[string][]string{"owner": {"runs"}, "borrower": nil} {
				s := newCluster()
				s.tracker.SetQueue(mustertesting.MakeQueue("owner").Deserved("cpu", "2").Obj())
				s.tracker.SetQueue(mustertesting.MakeQueue("borrower").Deserved("cpu", "0").Obj())
				runs := mustertesting.MakePod("runs").Node(nodeName(0)).Requests("cpu", "2").QueueName("borrower").Obj()
				runs.Status.StartTime = &metav1.Time{Time: time.Now()}
				say(runs)
				s.add(runs)
				mine := mustertesting.MakePod("mine").UID("mine").SchedulerName("muster").Requests("cpu", "2").QueueName(queue).Priority(10).Obj()
				assert.ElementsMatch(t, want, s.evictedFor(t, mine, 1), queue)
			}
		})
	}
}

// TestWhoEvictsNothingOutsideItsQueue: surplus, and all pods where the setting says so.
func TestWhoEvictsNothingOutsideItsQueue(t *testing.T) {
	for name, c := range map[string]struct {
		spares bool
		member bool
		want   []string
	}{
		"a single pod does":     {false, false, []string{"outside"}},
		"not with the setting":  {true, false, nil},
		"surplus does not":      {false, true, nil},
		"nor, with the setting": {true, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			if c.spares {
				s.tracker.Victims.SpareOutsiders()
			}
			s.tracker.SetQueue(mustertesting.MakeQueue("a").Deserved("cpu", "4").Obj())
			s.group(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Queue("a").Phase(schedulingv1beta1.PodGroupRunning).Obj())
			s.add(mustertesting.MakePod("first").Group("g").Node(nodeName(1)).Requests("cpu", "2").Priority(10).Obj())
			s.add(mustertesting.MakePod("outside").Node(nodeName(0)).Requests("cpu", "2").Obj())
			mine := mustertesting.MakePod("mine").QueueName("a")
			if c.member {
				mine = mustertesting.MakePod("mine").Group("g")
			}
			made := mine.UID("mine").SchedulerName("muster").Requests("cpu", "2").Priority(10).Obj()
			if c.member {
				s.tracker.SetPod(made)
			}
			assert.ElementsMatch(t, c.want, s.evictedFor(t, made, 2))
		})
	}
}

// evictedFor are the pods that are evicted for a pod that fits on none of the nodes, which are full.
func (c *cluster) evictedFor(t *testing.T, preemptor *corev1.Pod, nodes int) []string {
	t.Helper()
	c.tracker.Quota.EnforceQuota()
	c.tracker.Victims.EvictPods()
	w := newWorld(t, c, preemptor, c.fullNodes(nodes, 0)...)
	result, status := w.postFilter(t, preemptor)
	leaving := []string{}
	for uid := range c.tracker.Victims.Leaving() {
		leaving = append(leaving, string(uid))
	}
	if c.tracker.Victims.SearchesFor(preemptor) {
		assert.Equal(t, len(leaving) > 0, status.IsSuccess(), status)
		assert.Equal(t, len(leaving) > 0, result.NominatedNodeName != "", "it is nominated where it has victims")
		assert.Empty(t, w.deleted(), "others evict them")
		return leaving
	}
	require.Eventually(t, func() bool { return status.IsSuccess() == (len(w.deleted()) > 0) }, mustertesting.Timeout, time.Millisecond)
	return w.deleted().UnsortedList()
}

// TestTheNominationOfAPodStaysWhileItsVictimsLeave, and ends if nothing is evicted for it.
func TestTheNominationOfAPodStaysWhileItsVictimsLeave(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32
		stays    bool
		message  string
	}{
		"victims leave": {0, true, "pods that were evicted for it are still ending"},
		"none may go":   {10, false, "no eviction that the queues and priorities allow makes room for it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			s.tracker.Quota.EnforceQuota()
			s.tracker.Victims.EvictPods()
			s.add(mustertesting.MakePod("low").Node(nodeName(0)).Requests("cpu", "2").Priority(c.priority).QueueName("a").Obj())
			urgent := mustertesting.MakePod("urgent").UID("urgent").SchedulerName("muster").Requests("cpu", "2").Priority(10).QueueName("a").Obj()
			w := newWorld(t, s, urgent, s.fullNodes(1, 0)...)
			w.postFilter(t, urgent)
			result, status := w.postFilter(t, urgent)
			assert.Equal(t, fwk.Unschedulable, status.Code())
			assert.Equal(t, "preemption: "+c.message, status.Message())
			assert.Equal(t, c.stays, result == nil)
			assert.True(t, c.stays || result.Mode() == fwk.ModeOverride && result.NominatedNodeName == "")
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
			s.tracker.SetQueue(q)
			pod := mustertesting.MakePod("low").Node(nodeName(0)).Requests("cpu", "2").QueueName("a")
			if c.cooldown != "" {
				pod = pod.Annotation("volcano.sh/cooldown-time", c.cooldown)
			}
			low := pod.Obj()
			low.Status.StartTime = &metav1.Time{Time: time.Now().Add(-c.began)}
			s.add(low)
			urgent := mustertesting.MakePod("urgent").Requests("cpu", "2").Priority(10).Obj()
			victims, _ := s.victims(t, urgent, 1, 0, nodeName(0))
			assert.ElementsMatch(t, c.want, namesOf(victims))
			assert.ElementsMatch(t, c.want, s.evictedFor(t, mustertesting.MakePod("mine").UID("mine").SchedulerName("muster").Requests("cpu", "2").Priority(10).QueueName("a").Obj(), 1))
		})
	}
}

// TestQuotaIsMadeForAPodThatLacksIt, though the node has room. All queues are below "org", which has 6 CPUs.
func TestQuotaIsMadeForAPodThatLacksIt(t *testing.T) {
	runs := func(name, queue string, priority int32) *corev1.Pod {
		pod := mustertesting.MakePod(name).Node(nodeName(0)).Requests("cpu", "2").Priority(priority).QueueName(queue).Obj()
		pod.Status.StartTime = &metav1.Time{Time: time.Now()}
		return pod
	}
	borrowed := []*corev1.Pod{runs("b0", "b", 100), runs("b1", "b", 100), runs("b2", "b", 99)}
	for name, c := range map[string]struct {
		change func(b *schedulingv1beta1.Queue)
		runs   []*corev1.Pod
		cpu    string
		want   []string
	}{
		"one of the borrowing pods":       {nil, borrowed, "2", []string{"b2"}},
		"as many as are needed":           {nil, borrowed, "4", []string{"b2", "b"}},
		"not more than the own share":     {nil, borrowed, "5", nil},
		"a lower priority of the own":     {nil, []*corev1.Pod{runs("low", "own", 1), runs("high", "own", 20), runs("b0", "b", 100)}, "2", []string{"low"}},
		"not from a queue that keeps all": {func(b *schedulingv1beta1.Queue) { b.Spec.Reclaimable = new(bool) }, borrowed, "2", nil},
		"not what has not run for a time": {func(b *schedulingv1beta1.Queue) {
			b.Spec.Muster = &schedulingv1beta1.QueueExtension{MinRuntime: &metav1.Duration{Duration: time.Hour}}
		}, borrowed, "2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			s.tracker.Quota.EnforceQuota()
			s.tracker.Victims.EvictPods()
			queue := func(name, deserved string) *schedulingv1beta1.Queue {
				return mustertesting.MakeQueue(name).Parent("org").Deserved("cpu", deserved).Obj()
			}
			b := queue("b", "2")
			if c.change != nil {
				c.change(b)
			}
			for _, q := range []*schedulingv1beta1.Queue{mustertesting.MakeQueue("org").Capability("cpu", "6").Obj(), queue("own", "4"), b} {
				s.tracker.SetQueue(q)
			}
			s.add(c.runs...)
			mine := mustertesting.MakePod("mine").UID("mine").SchedulerName("muster").Requests("cpu", c.cpu).Priority(10).QueueName("own").Obj()
			require.NotNil(t, s.tracker.Quota.QuotaShortage(mine))
			w := newWorld(t, s, mine, s.fullNodes(1, 10_000)...)
			_, status := w.plugin.victims.MakeRoomFor(t.Context(), mine)
			assert.Equal(t, c.want != nil, status.IsSuccess(), status)
			leaving := s.tracker.Victims.Leaving()
			require.Len(t, leaving, len(c.want))
			for _, name := range c.want {
				assert.True(t, leaving.HasAny("b0", "b1") && name == "b" || leaving.Has(types.UID(name)), leaving)
			}
			assert.NotNil(t, s.tracker.Quota.QuotaShortage(mine), "until they have gone")
			for uid := range leaving {
				s.tracker.DeletePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
			}
			assert.Equal(t, c.want == nil, s.tracker.Quota.QuotaShortage(mine) != nil)
		})
	}
}
