package podgroup

import (
	"testing"
	"time"

	"github.com/muster-sched/muster/pkg/admission"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestADecisionOnANamesakeDoesNotCount: the PodGroup was deleted and made again under its name.
func TestADecisionOnANamesakeDoesNotCount(t *testing.T) {
	a := newAdmission(t, testingclock.NewFakeClock(time.Unix(1000, 0)), nil)
	group := waits(a, mustertesting.MakePodGroup("g").UID("one").Obj())
	namesake := waits(a, mustertesting.MakePodGroup("g").UID("two").Obj())
	assert.True(t, a.record(admitted(namesake)))
	assert.True(t, a.decision("default/g", namesake.UID).Admitted)
	assert.False(t, a.decision("default/g", group.UID).Admitted)
	a.forget("default/g", group.UID)
	assert.True(t, a.decision("default/g", namesake.UID).Admitted)
	a.forget("default/g", namesake.UID)
	assert.Equal(t, admission.Decision{}, a.decision("default/g", namesake.UID))
}

// TestARoundIsDueWhenATurnEnds: no event tells the PodGroups that waited for the turn that it is over.
func TestARoundIsDueWhenATurnEnds(t *testing.T) {
	start := time.Unix(100_000, 0)
	clock := testingclock.NewFakeClock(start)
	kube := informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0)
	muster := musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0)
	used, err := usage.New(kube, muster)
	require.NoError(t, err)
	c, err := New(Config{
		KubeInformers: kube, MusterInformers: muster, Usage: used, Recorder: record.NewFakeRecorder(10), Clock: clock, OvertakeTime: time.Minute,
	})
	require.NoError(t, err)
	queue := mustertesting.MakeQueue("q").Capability("cpu", "4").State(schedulingv1beta1.QueueStateOpen).Obj()
	require.NoError(t, muster.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
	used.Ledger().SetQueue(queue)
	add := func(name, cpu string, created time.Time) {
		group := mustertesting.MakePodGroup(name).UID(name).Queue("q").MinMember(1).MinResources("cpu", cpu).Created(created).Obj()
		require.NoError(t, c.admission.groups.Add(group))
		c.admission.observe(group)
	}
	round := func() time.Duration {
		after, err := c.admission.Sync(t.Context(), allCandidates)
		require.NoError(t, err)
		return after
	}
	isIn := func(name string) bool { return c.admission.decision("default/"+name, types.UID(name)).Admitted }

	add("runs", "2", start)
	add("large", "3", start.Add(time.Second))
	assert.Zero(t, round())
	require.True(t, isIn("runs"))
	clock.Step(time.Minute)
	add("small", "1", start.Add(time.Minute))
	assert.Equal(t, 4*time.Minute, round(), "until its turn ends")
	require.False(t, isIn("small"))
	clock.Step(4 * time.Minute)
	assert.Zero(t, round())
	assert.True(t, isIn("small"))
	assert.False(t, isIn("large"))
}

// TestWhichPodGroupsWaitForAdmission: an admitted PodGroup is skipped until its status says so. A decision about a PodGroup does not keep its
// successor out.
func TestWhichPodGroupsWaitForAdmission(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(t, clock, store)
	known := func(group *schedulingv1beta1.PodGroup) {
		require.NoError(t, store.Add(group))
		a.observe(group)
	}
	waiting := func() (uids []types.UID) {
		for _, group := range a.waitingGroups() {
			uids = append(uids, group.UID)
		}
		return uids
	}
	group := func(uid string) *mustertesting.PodGroupWrapper { return mustertesting.MakePodGroup("g").UID(uid) }

	known(group("one").Obj())
	assert.Equal(t, []types.UID{"one"}, waiting())
	a.record(admitted(group("one").Obj()))
	assert.Empty(t, waiting())
	known(group("one").MinMember(2).Obj())
	assert.Empty(t, waiting(), "it changes before its status says that it is in")
	known(group("one").Phase(inqueue).Obj())
	a.forget("default/g", "one")
	a.observe(group("one").Obj())
	assert.Empty(t, waiting(), "an event that is older than the known state")

	known(group("two").Obj())
	a.record(admitted(group("one").Obj()))
	assert.Equal(t, []types.UID{"two"}, waiting(), "a round that began before it came does not admit it")
	a.record(admitted(group("two").Obj()))
	assert.True(t, a.decision("default/g", "two").Admitted, "a PodGroup that replaces another of its name is admitted")
	known(group("three").Obj())
	a.lose("default/g")
	assert.Empty(t, waiting())
	assert.False(t, a.record(admitted(group("three").Obj())), "it is gone")
	assert.Empty(t, a.decisions)

	known(group("four").Obj())
	require.NoError(t, store.Add(group("five").Obj()))
	assert.Empty(t, waiting(), "its event has not been handled yet")
}

// newAdmission has no queues: a test decides.
func newAdmission(t *testing.T, clock clock.Clock, groups cache.Store) *admissions {
	used, err := usage.New(informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0), musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0))
	require.NoError(t, err)
	a := &admissions{
		tracker: used, clock: clock, groups: groups, waiting: map[string]types.UID{}, decisions: map[string]admission.Decision{},
	}
	a.loop = worker.New("test", a)
	return a
}

// waits makes a PodGroup wait for admission.
func waits(a *admissions, group *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroup {
	a.observe(group)
	return group
}
