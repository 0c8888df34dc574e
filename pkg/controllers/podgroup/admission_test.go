package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/muster-sched/muster/pkg/quota"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestOnlyNewsIsRecorded(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newAdmission(clock, nil)
	c := waits(a, mustertesting.MakePodGroup("g").UID("one").Obj())
	lacks := func(want int64, text string) decision {
		return heldBack(obstacleKind{queue: "q", resource: "cpu", want: want}, words(text))
	}
	message := func() string { return a.decision(c.key, c.group.UID).message }

	assert.True(t, a.record(c, lacks(4, "3 free")))
	assert.False(t, a.record(c, lacks(4, "3 free")))
	clock.Step(messageAge / 2)
	assert.False(t, a.record(c, lacks(4, "2 free")), "only a number has changed: not worth a write yet")
	assert.Equal(t, "3 free (found at 1970-01-01T00:16:40Z)", message(), "as it may be wrong by now, it says when it was right")
	clock.Step(messageAge / 2)
	assert.False(t, a.record(c, lacks(4, "3 free")), "another time alone is not worth a write")
	assert.True(t, a.record(c, lacks(4, "1 free")))
	assert.Equal(t, "1 free (found at 1970-01-01T00:17:40Z)", message())
	assert.True(t, a.record(c, lacks(5, "1 free of 5")), "it wants something else now")

	namesake := waits(a, mustertesting.MakePodGroup("g").UID("two").Obj())
	assert.False(t, a.decision(c.key, namesake.group.UID).blocked(), "what was said about a namesake does not count")
	assert.True(t, a.record(namesake, lacks(5, "1 free of 5")))
	assert.True(t, a.record(namesake, decision{admitted: true}))
	assert.True(t, a.decision(c.key, namesake.group.UID).admitted)
	a.forget(c.key, c.group.UID)
	assert.True(t, a.decision(c.key, namesake.group.UID).admitted)
	a.forget(c.key, namesake.group.UID)
	assert.Equal(t, decision{}, a.decision(c.key, namesake.group.UID))
}

// TestARestartRewordsNothing: an earlier run has said the same, and when it found its numbers.
func TestARestartRewordsNothing(t *testing.T) {
	group := mustertesting.MakePodGroup("g").UID("one").Obj()
	told := "3 free (found at 1970-01-01T00:10:00Z)"
	group.Status.Conditions = withFinding(nil, finding{schedulingv1beta1.PodGroupUnschedulableType, "QuotaExceeded", told}, time.Unix(600, 0), "id")
	for name, test := range map[string]struct{ finds, says string }{
		"the same":       {"3 free", told},
		"another number": {"2 free", "2 free (found at 1970-01-01T00:16:40Z)"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdmission(testingclock.NewFakeClock(time.Unix(1000, 0)), nil)
			c := waits(a, group)
			a.record(c, heldBack(obstacleKind{queue: "q", resource: "cpu"}, words(test.finds)))
			assert.Equal(t, test.says, a.decision(c.key, "one").message)
		})
	}
}

// TestOnlyNumbersThatOthersChangeHaveATime: a message about a limit has no time, as only an administrator changes limits.
func TestOnlyNumbersThatOthersChangeHaveATime(t *testing.T) {
	for name, test := range map[string]struct {
		kind obstacleKind
		has  bool
	}{
		"room of a queue":           {obstacleKind{queue: "q", resource: "cpu"}, true},
		"more than a whole limit":   {obstacleKind{queue: "q", resource: "cpu", forEver: true}, false},
		"the cluster":               {obstacleKind{resource: "cpu"}, true},
		"more than the cluster has": {obstacleKind{resource: "cpu", forEver: true}, true},
		"running jobs":              {obstacleKind{tooMany: true}, true},
		"the line":                  {obstacleKind{inLine: true}, false},
		"a closed queue":            {obstacleKind{text: "closed"}, false},
	} {
		assert.Equal(t, test.has, (&obstacle{kind: test.kind}).hasNumbers(), name)
	}

	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newAdmission(clock, nil)
	c := waits(a, mustertesting.MakePodGroup("g").UID("one").Obj())
	short := quota.Shortage{Queue: "q", Resource: "cpu", Want: 5, Free: 1, Limit: 4}
	assert.True(t, a.record(c, lacksQuota(&short)))
	raised := short
	raised.Limit = 3
	assert.True(t, a.record(c, lacksQuota(&raised)), "another limit, before the message is old")
}

// TestSinceWhenRoomIsLacking: only the time counts in which room was missing. The status keeps the time before a restart.
func TestSinceWhenRoomIsLacking(t *testing.T) {
	start := time.Unix(1000, 0)
	clock := testingclock.NewFakeClock(start)
	a := newAdmission(clock, nil)
	c := waits(a, mustertesting.MakePodGroup("g").UID("one").Obj())
	closed := heldBack(obstacleKind{text: "closed"}, words("closed"))
	lacks := func(queue string) decision {
		return heldBack(obstacleKind{queue: queue, resource: "cpu", want: 4}, words("no room"))
	}
	since := func() time.Time { return lackingSince(c.group, a.decision(c.key, c.group.UID)) }

	a.record(c, closed)
	assert.Zero(t, since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	assert.Equal(t, start.Add(time.Hour), since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	clock.Step(time.Hour)
	a.record(c, lacks("parent"))
	assert.Equal(t, start.Add(time.Hour), since(), "it does not matter which queue lacks it")
	a.record(c, closed)
	assert.Zero(t, since())
	clock.Step(time.Hour)
	a.record(c, lacks("q"))
	assert.Equal(t, start.Add(4*time.Hour), since(), "it begins anew")

	a.decisions = map[string]decision{}
	c.group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{
		{Type: schedulingv1beta1.PodGroupUnschedulableType, LastTransitionTime: metav1.NewTime(start)},
	}
	assert.Equal(t, start, since())
	a.record(c, lacks("q"))
	assert.Equal(t, start, since(), "as the status said after the restart")
}

// TestARoundIsDueWhenATurnEnds: no event tells the PodGroups that waited for the turn that it is over.
func TestARoundIsDueWhenATurnEnds(t *testing.T) {
	start := time.Unix(100_000, 0)
	clock := testingclock.NewFakeClock(start)
	kube := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)
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
		c.admission.notice(group)
	}
	round := func() time.Duration {
		after, err := c.admission.Sync(t.Context(), allCandidates)
		require.NoError(t, err)
		return after
	}
	isIn := func(name string) bool { return c.admission.decision("default/"+name, types.UID(name)).admitted }

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
	a := newAdmission(clock, store)
	known := func(group *schedulingv1beta1.PodGroup) {
		require.NoError(t, store.Add(group))
		a.notice(group)
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
	a.record(newCandidate(group("one").Obj()), decision{admitted: true})
	assert.Empty(t, waiting())
	known(group("one").MinMember(2).Obj())
	assert.Empty(t, waiting(), "it changes before its status says that it is in")
	known(group("one").Phase(inqueue).Obj())
	a.forget("default/g", "one")
	a.notice(group("one").Obj())
	assert.Empty(t, waiting(), "an event that is older than the known state")

	known(group("two").Obj())
	a.record(newCandidate(group("one").Obj()), decision{admitted: true})
	assert.Equal(t, []types.UID{"two"}, waiting(), "a round that began before it came does not admit it")
	a.record(newCandidate(group("two").Obj()), decision{admitted: true})
	assert.True(t, a.decision("default/g", "two").admitted, "a PodGroup that replaces another of its name is admitted")
	known(group("three").Obj())
	a.lose("default/g")
	assert.Empty(t, waiting())
	assert.False(t, a.record(newCandidate(group("three").Obj()), decision{admitted: true}), "it is gone")
	assert.Empty(t, a.decisions)

	known(group("four").Obj())
	require.NoError(t, store.Add(group("five").Obj()))
	assert.Empty(t, waiting(), "that it is another has not been noticed yet")
}

// newAdmission has no queues: a test decides.
func newAdmission(clock clock.Clock, groups cache.Store) *admission {
	a := &admission{clock: clock, groups: groups, phJobs: noPhJobs{}, waiting: map[string]types.UID{}, decisions: map[string]decision{}}
	a.loop = worker.New("test", a)
	return a
}

// waits makes a PodGroup wait for admission.
func waits(a *admission, group *schedulingv1beta1.PodGroup) *candidate {
	a.notice(group)
	return newCandidate(group)
}
