package podgroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// reclaimStage is a cluster of 12 CPUs. The queues a and b share the 12 CPUs of org and deserve 6 each. The queue q has a capability of 6.
type reclaimStage struct{ *stage }

// values are those of the priority classes.
var values = map[string]int32{"low": 1, "high": 100}

func newReclaimStage(t *testing.T) *reclaimStage {
	s := &reclaimStage{newStage(t)}
	s.admission.cluster.Set(mustertesting.MakeNode("n").Allocatable("cpu", "12", "pods", "100").Obj())
	for name, value := range values {
		s.class(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	s.class(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Value: 100, PreemptionPolicy: ptr.To(corev1.PreemptNever)})
	for _, queue := range []*mustertesting.QueueWrapper{
		mustertesting.MakeQueue("org").Capability("cpu", "12"),
		mustertesting.MakeQueue("a").Parent("org").Deserved("cpu", "6"),
		mustertesting.MakeQueue("b").Parent("org").Deserved("cpu", "6"),
		mustertesting.MakeQueue("q").Capability("cpu", "6"),
	} {
		s.cache(queue.State(openState).Obj())
	}
	return s
}

func (s *reclaimStage) class(class *schedulingv1.PriorityClass) {
	require.NoError(s.t, s.kubeInformers.Scheduling().V1().PriorityClasses().Informer().GetStore().Add(class))
}

// run has a PodGroup run with pods of 3 CPUs each, as many as its minimum and some more.
func (s *reclaimStage) run(name, queue, class string, minimum, surplus int, change ...func(*corev1.Pod)) {
	group := mustertesting.MakePodGroup(name).UID(name).Queue(queue).PriorityClass(class).MinMember(int32(minimum)).
		Phase(schedulingv1beta1.PodGroupRunning).Obj()
	s.cache(group)
	for i := range minimum + surplus {
		pod := mustertesting.MakePod(fmt.Sprint(name, i)).UID(fmt.Sprint(name, i)).Group(name).Node("n").Requests("cpu", "3").Priority(values[class]).Obj()
		for _, c := range change {
			c(pod)
		}
		s.cache(pod)
		s.usage.Ledger().Charge(pod.UID, admission.AccountOf(group), resources.PodRequests(pod))
	}
	s.usage.Rest(group)
}

// wait has a PodGroup wait for a number of CPUs, and returns it.
func (s *reclaimStage) wait(name, queue, class, cpu string) *schedulingv1beta1.PodGroup {
	group := mustertesting.MakePodGroup(name).UID(name).Queue(queue).PriorityClass(class).MinMember(1).MinResources("cpu", cpu).Obj()
	s.cache(group)
	s.admission.takeOver(group)
	return group
}

func (s *reclaimStage) round() {
	_, err := s.admission.Sync(s.t.Context(), allCandidates)
	require.NoError(s.t, err)
}

// unimportant is a pod that does not have the class of its PodGroup.
func unimportant(pod *corev1.Pod) { pod.Spec.Priority = new(int32(0)) }

func keep(pod *corev1.Pod) { pod.Annotations[batchv1alpha1.PodPreemptableKey] = "false" }

// TestAPodGroupThatReclaimCouldSeatIsAdmitted: the scheduler makes the room by evictions, but only for what is admitted.
func TestAPodGroupThatReclaimCouldSeatIsAdmitted(t *testing.T) {
	for name, c := range map[string]struct {
		runs              func(s *reclaimStage)
		queue, class, cpu string
		want              bool
	}{
		"siblings borrow of its share":          {func(s *reclaimStage) { s.run("r", "b", "low", 4, 0) }, "a", "low", "6", true},
		"it wants more than its share":          {func(s *reclaimStage) { s.run("r", "b", "low", 4, 0) }, "a", "low", "7", false},
		"siblings are within their share":       {func(s *reclaimStage) { s.run("r", "b", "low", 2, 0); s.run("own", "a", "low", 2, 0) }, "a", "low", "3", false},
		"a sibling's gang asks to stay":         {func(s *reclaimStage) { s.run("r", "b", "low", 4, 0, keep) }, "a", "low", "6", true},
		"a sibling is about to start":           {func(s *reclaimStage) { s.admitGang("r", "b", "high", 12) }, "a", "low", "6", true},
		"and asks to stay":                      {func(s *reclaimStage) { s.admitGang("r", "b", "high", 12, keep) }, "a", "low", "6", true},
		"and the owner never preempts":          {func(s *reclaimStage) { s.admitGang("r", "b", "high", 12, keep) }, "a", "patient", "6", true},
		"siblings' pods take years to end":      {func(s *reclaimStage) { s.run("r", "b", "low", 4, 0, linger) }, "a", "low", "6", true},
		"pods of its queue take years to end":   {func(s *reclaimStage) { s.run("r", "q", "low", 2, 0, linger) }, "q", "high", "6", false},
		"it never preempts what runs":           {func(s *reclaimStage) { s.run("r", "b", "low", 4, 0) }, "a", "patient", "6", false},
		"a lower priority runs in its queue":    {func(s *reclaimStage) { s.run("r", "q", "low", 2, 0) }, "q", "high", "6", true},
		"the same priority runs in its queue":   {func(s *reclaimStage) { s.run("r", "q", "high", 2, 0) }, "q", "high", "6", false},
		"one member of the gang must stay":      {func(s *reclaimStage) { s.run("r", "q", "low", 2, 0, keepFirst) }, "q", "high", "3", false},
		"the surplus of such a gang may go":     {func(s *reclaimStage) { s.run("r", "q", "low", 1, 1, keepFirst) }, "q", "high", "3", true},
		"and no more than the surplus":          {func(s *reclaimStage) { s.run("r", "q", "low", 1, 1, keepFirst) }, "q", "high", "4", false},
		"it never preempts":                     {func(s *reclaimStage) { s.run("r", "q", "low", 2, 0) }, "q", "patient", "6", false},
		"a lower priority is about to start":    {func(s *reclaimStage) { s.admitGang("r", "q", "low", 6) }, "q", "high", "6", true},
		"the same priority is about to start":   {func(s *reclaimStage) { s.admitGang("r", "q", "high", 6) }, "q", "high", "6", false},
		"one that is about to start must stay":  {func(s *reclaimStage) { s.admitGang("r", "q", "low", 6, keep) }, "q", "high", "6", false},
		"the class is higher than of its pods":  {func(s *reclaimStage) { s.run("r", "q", "high", 2, 0, unimportant) }, "q", "high", "6", true},
		"the same, and it is about to start":    {func(s *reclaimStage) { s.admitGang("r", "q", "high", 6, unimportant) }, "q", "high", "6", true},
		"a pod without a PodGroup may go":       {func(s *reclaimStage) { s.single("r", 1) }, "q", "high", "6", true},
		"not one that is critical for a system": {func(s *reclaimStage) { s.single("r", 2_000_000_000) }, "q", "high", "6", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newReclaimStage(t)
			c.runs(s)
			group := s.wait("waits", c.queue, c.class, c.cpu)
			s.round()
			assert.Equal(t, c.want, s.isIn(group), "%+v", s.admission.decision("default/waits", "waits"))
		})
	}
}

// linger has a pod be deleted with a grace period of years.
func linger(pod *corev1.Pod) {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().AddDate(30, 0, 0)}, ptr.To[int64](1<<30)
}

func keepFirst(pod *corev1.Pod) {
	if pod.Name == "r0" {
		keep(pod)
	}
}

// admitGang sets CPUs aside for a PodGroup that is admitted and has one pod, which waits.
func (s *reclaimStage) admitGang(name, queue, class string, cpu int64, change ...func(*corev1.Pod)) {
	group := mustertesting.MakePodGroup(name).UID(name).Queue(queue).PriorityClass(class).MinMember(1).Phase(inqueue).Obj()
	s.cache(group)
	s.usage.Grant(group, resources.List{corev1.ResourceCPU: 1000 * cpu})
	pod := mustertesting.MakePod(name).UID(name).Group(name).Priority(values[class]).Obj()
	for _, c := range change {
		c(pod)
	}
	s.cache(pod)
}

func (s *reclaimStage) single(name string, priority int32) {
	pod := mustertesting.MakePod(name).UID(name).QueueName("q").Node("n").Priority(priority).Requests("cpu", "6").Obj()
	s.cache(pod)
	s.usage.Ledger().Charge(pod.UID, "q", resources.PodRequests(pod))
}

// TestTheSameVictimsAreCountedForOnePodGroup: in one round and in the next.
func TestTheSameVictimsAreCountedForOnePodGroup(t *testing.T) {
	s := newReclaimStage(t)
	s.run("r", "q", "low", 2, 0)
	first, second := s.wait("0", "q", "high", "6"), s.wait("1", "q", "high", "6")
	s.round()
	assert.True(t, s.isIn(first))
	assert.False(t, s.isIn(second))
	s.round()
	assert.False(t, s.isIn(second))
}

// emptied is a store from which an object is deleted once it was read.
type emptied struct{ cache.Store }

func (e emptied) GetByKey(key string) (any, bool, error) {
	obj, exists, err := e.Store.GetByKey(key)
	if exists {
		err = e.Delete(obj)
	}
	return obj, exists, err
}

func (e emptied) List() []any {
	all := e.Store.List()
	for _, obj := range all {
		_ = e.Delete(obj) // a store in memory never fails
	}
	return all
}

// TestAPodGroupIsDeletedDuringARound: muster-controller panicked.
func TestAPodGroupIsDeletedDuringARound(t *testing.T) {
	s := newReclaimStage(t)
	s.run("runs", "q", "low", 2, 1)
	s.admission.groups = emptied{s.admission.groups}
	units := s.admission.load(s.admission.classes()).Evictables()
	require.Len(t, units, 2, "the surplus, and the rest as a whole")
	assert.Empty(t, s.admission.groups.List(), "the PodGroup is gone")
}

// vanishing is a store from which each object is deleted once a round has read it. The handlers hear of that at once.
type vanishing struct {
	cache.Store
	gone func(key string)
}

func (v vanishing) GetByKey(key string) (any, bool, error) {
	obj, exists, err := v.Store.GetByKey(key)
	if exists {
		_ = v.Delete(obj) // a store in memory never fails
		v.gone(key)
	}
	return obj, exists, err
}

// TestNothingIsKeptForAPodGroupThatIsDeletedDuringARound: its end was handled before it was admitted, so its quota was kept for ever.
func TestNothingIsKeptForAPodGroupThatIsDeletedDuringARound(t *testing.T) {
	s := newReclaimStage(t)
	group := s.wait("deleted", "q", "low", "6")
	s.admission.groups = vanishing{s.admission.groups, func(key string) {
		s.admission.lose(key)
		_, err := s.Sync(t.Context(), key)
		require.NoError(t, err)
	}}
	s.round()
	assert.False(t, s.isIn(group))
	assert.Nil(t, s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 6000}), "all of it is free")
}

// TestRoomThatIsGoneWhenARoundEndsIsNotGranted: a round is made on what was there at its start. Pods without a gang may take room meanwhile.
func TestRoomThatIsGoneWhenARoundEndsIsNotGranted(t *testing.T) {
	s := newReclaimStage(t)
	first, second := s.wait("first", "q", "low", "3"), s.wait("second", "q", "low", "3")
	candidates, round := s.admission.round()
	s.single("meanwhile", 0) // 6 CPUs
	for _, d := range round.Decide(candidates) {
		require.True(t, d.Admitted)
		s.admission.commit(d)
	}
	assert.False(t, s.isIn(first))
	assert.False(t, s.isIn(second))
	s.usage.Ledger().Release("meanwhile")
	s.round()
	assert.True(t, s.isIn(first))
	assert.True(t, s.isIn(second))
}

// TestAPodGroupWithPodsCountsAtMostAsThey: it names a class that its pods do not have. So it passes no other, and nothing is evicted for it.
func TestAPodGroupWithPodsCountsAtMostAsThey(t *testing.T) {
	s := newReclaimStage(t)
	s.run("r", "q", "low", 2, 0)
	forged := s.wait("forged", "q", "high", "6")
	s.cache(mustertesting.MakePod("member").UID("member").Group("forged").Obj())
	s.round()
	assert.False(t, s.isIn(forged))
	honest := s.wait("honest", "q", "high", "6")
	s.cache(mustertesting.MakePod("other").UID("other").Group("honest").Priority(100).Obj())
	s.round()
	assert.True(t, s.isIn(honest))
}
