package podgroup

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// phJob is a candidate for a PhJob of a user, which asks for so much.
func phJob(user string, namesAndQuantities ...string) *candidate {
	c := newCandidate(mustertesting.MakePodGroup(user).Queue("t").User(user).MinResources(namesAndQuantities...).Obj())
	c.phJob = &primehubv1alpha1.PhJob{}
	return c
}

// fakePhJobs has PhJobs by the names of their PodGroups.
type fakePhJobs struct {
	noPhJobs
	jobs map[string]*primehubv1alpha1.PhJob
	// behind are the PodGroups of earlier PhJobs, by the names of later ones.
	behind map[string]string
}

// JobOf implements PhJobs.
func (f fakePhJobs) JobOf(group *schedulingv1beta1.PodGroup) *primehubv1alpha1.PhJob {
	return f.jobs[group.Name]
}

// IsBehind implements PhJobs.
func (f fakePhJobs) IsBehind(job *primehubv1alpha1.PhJob, known func(namespace, podGroup string) bool) bool {
	earlier := f.behind[job.Name]
	return earlier != "" && !known("default", earlier)
}

// createdAt is a PhJob that was created in a second.
func createdAt(name string, second int64) *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
}

// TestPhJobsAreScheduledAsPrimeHubDoes has the examples of PrimeHub's documentation and the cases of its scheduler's tests. They have the
// quotas of the group and each user, the jobs by their creation, and the admitted ones.
func TestPhJobsAreScheduledAsPrimeHubDoes(t *testing.T) {
	gpus := func(user, n string) *candidate { return phJob(user, "nvidia.com/gpu", n) }
	for name, c := range map[string]struct {
		group, user []string
		jobs        []*candidate
		want        []bool
	}{
		"example 1": {[]string{"nvidia.com/gpu", "4"}, []string{"nvidia.com/gpu", "4"},
			[]*candidate{gpus("bob", "2"), gpus("pan", "4"), gpus("lin", "2")}, []bool{true, false, false}},
		"example 2": {[]string{"nvidia.com/gpu", "4"}, []string{"nvidia.com/gpu", "4"},
			[]*candidate{gpus("bob", "2"), gpus("bob", "4"), gpus("lin", "2")}, []bool{true, false, true}},
		"StrictOrder1": {[]string{"cpu", "8"}, []string{"cpu", "8"},
			[]*candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "4"), phJob("c", "cpu", "4")}, []bool{true, true, false}},
		"StrictOrder2": {[]string{"cpu", "8"}, []string{"cpu", "8"},
			[]*candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "6"), phJob("c", "cpu", "2")}, []bool{true, false, false}},
		"StrictOrder3": {[]string{"cpu", "8"}, []string{"cpu", "4"},
			[]*candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "6"), phJob("c", "cpu", "2")}, []bool{true, false, true}},
		"Validate: above the group's": {[]string{"cpu", "3"}, nil, []*candidate{phJob("a", "cpu", "4")}, []bool{false}},
		"Validate: all the group's":   {[]string{"cpu", "3"}, nil, []*candidate{phJob("a", "cpu", "3")}, []bool{true}},
		"Validate: above the user's":  {nil, []string{"cpu", "3"}, []*candidate{phJob("a", "cpu", "4")}, []bool{false}},
		"Validate: all the user's":    {nil, []string{"cpu", "3"}, []*candidate{phJob("a", "cpu", "3")}, []bool{true}},
		"Validate: above the memory":  {[]string{"memory", "512Mi"}, nil, []*candidate{phJob("a", "memory", "1Gi")}, []bool{false}},
		"Validate: all the memory":    {[]string{"memory", "1Gi"}, nil, []*candidate{phJob("a", "memory", "1Gi")}, []bool{true}},
		"no quota at all":             {nil, nil, []*candidate{phJob("a", "cpu", "1000")}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []schedulingv1beta1.DequeueStrategy{schedulingv1beta1.DequeueStrategyFIFO, schedulingv1beta1.DequeueStrategyTraverse} {
				queue := mustertesting.MakeQueue("t").Parent("root").Capability(c.group...).Dequeue(strategy).Obj()
				queue.Spec.Muster = &schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources(c.user...)}}
				var got []bool
				for i, job := range c.jobs {
					job.key += string(rune('0' + i))
				}
				for _, v := range decideInOrder(c.jobs, newFixture(queue).rules()) {
					got = append(got, v.admitted)
				}
				assert.Equal(t, c.want, got, strategy)
			}
		})
	}
}

// TestOnlyQuotaDecidesAboutPhJobs: a job that no node has room for is admitted, as PrimeHub's documentation says.
func TestOnlyQuotaDecidesAboutPhJobs(t *testing.T) {
	s := newFixture(mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "1000").Obj())
	s.total, s.factor = resources.List{"cpu": 1000}, 1.2
	job := phJob("ann", "cpu", "100")
	assert.True(t, decideInOrder([]*candidate{job}, s.rules())[0].admitted)
	other := phJob("ann", "cpu", "100")
	other.phJob = nil
	assert.False(t, decideInOrder([]*candidate{other}, s.rules())[0].admitted, "any other PodGroup is not")
}

// TestPhJobsWaitForQuota that is free: nothing is evicted to make it.
func TestPhJobsWaitForQuota(t *testing.T) {
	r := newFixture(mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "4").Obj()).rules()
	r.couldReclaim = func(*candidate, quota.Reserved) bool { return true }
	first, second := phJob("ann", "cpu", "4"), phJob("bob", "cpu", "4")
	decisions := decideInOrder([]*candidate{first, second}, r)
	assert.True(t, decisions[0].admitted)
	assert.False(t, decisions[1].admitted)
	second.phJob = nil
	assert.True(t, decideInOrder([]*candidate{second}, r)[0].admitted, "any other PodGroup is admitted")
}

// TestAPhJobKeepsItsPlace: a PhJob that went back to its queue waits with a new PodGroup, before later PhJobs. It reserves nothing, however
// long it waits.
func TestAPhJobKeepsItsPlace(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(10000, 0))
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(clock, store)
	a.overtakeTime = time.Minute
	first := mustertesting.MakePodGroup("new").UID("new").Created(time.Unix(300, 0)).Obj()
	second := mustertesting.MakePodGroup("old").UID("old").Created(time.Unix(200, 0)).Obj()
	a.phJobs = fakePhJobs{jobs: map[string]*primehubv1alpha1.PhJob{"new": createdAt("job", 100)}}
	for _, group := range []*schedulingv1beta1.PodGroup{first, second} {
		group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
			Type: schedulingv1beta1.PodGroupUnschedulableType, LastTransitionTime: metav1.NewTime(time.Unix(8000, 0)),
		}}
		require.NoError(t, store.Add(group))
		a.notice(group)
	}
	candidates := a.candidates(nil)
	require.Len(t, candidates, 2)
	slices.SortFunc(candidates, byTurn)
	assert.Equal(t, []string{"new", "old"}, named(candidates))
	assert.True(t, candidates[0].byQuotaAlone())
	assert.Zero(t, candidates[0].turn)
	assert.False(t, candidates[1].byQuotaAlone())
	assert.Positive(t, candidates[1].turn)

	a.phJobs = noPhJobs{}
	for _, c := range a.candidates(nil) {
		assert.False(t, c.byQuotaAlone(), "the PhJob is gone")
	}
}

// TestPhJobsOfOneSecondStartByName: the names of their PodGroups say nothing.
func TestPhJobsOfOneSecondStartByName(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(clocktesting.NewFakeClock(time.Unix(10000, 0)), store)
	jobs := map[string]*primehubv1alpha1.PhJob{"x": createdAt("c", 100), "y": createdAt("a", 100), "z": createdAt("b", 100)}
	a.phJobs = fakePhJobs{jobs: jobs}
	for name := range jobs {
		group := mustertesting.MakePodGroup(name).UID(name).Created(time.Unix(100, 0)).Obj()
		require.NoError(t, store.Add(group))
		a.notice(group)
	}
	candidates := a.candidates(nil)
	slices.SortFunc(candidates, byTurn)
	assert.Equal(t, []string{"y", "z", "x"}, named(candidates))
}

// TestAPhJobWaitsForThePodGroupOfAnEarlierOne: nothing is decided about it before.
func TestAPhJobWaitsForThePodGroupOfAnEarlierOne(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(clocktesting.NewFakeClock(time.Unix(10000, 0)), store)
	a.phJobs = fakePhJobs{
		jobs:   map[string]*primehubv1alpha1.PhJob{"group-1": createdAt("early", 100), "group-2": createdAt("late", 200)},
		behind: map[string]string{"late": "group-1"},
	}
	isEarly := func() (early bool) {
		for _, c := range a.candidates(nil) {
			if c.group.Name == "group-2" {
				early = c.isEarly
			}
		}
		return early
	}
	early := mustertesting.MakePodGroup("group-1").UID("1").Obj()
	late := mustertesting.MakePodGroup("group-2").UID("2").Obj()
	require.NoError(t, store.Add(late))
	a.notice(late)
	assert.True(t, isEarly(), "the other PodGroup does not exist")
	require.NoError(t, store.Add(early))
	assert.True(t, isEarly(), "the other PodGroup is not a candidate yet")
	a.notice(early)
	assert.False(t, isEarly())
	a.record(newCandidate(early), decision{admitted: true})
	assert.False(t, isEarly(), "it has been admitted")
	admitted := mustertesting.MakePodGroup("group-1").UID("1").Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	require.NoError(t, store.Update(admitted))
	a.notice(admitted)
	a.forget("default/group-1", "1")
	assert.False(t, isEarly(), "its status says that it has been admitted")

	c := phJob("ann", "cpu", "1")
	c.isEarly = true
	r := newFixture(mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "4").Obj()).rules()
	v := decideInOrder([]*candidate{c, phJob("bob", "cpu", "1")}, r)
	assert.True(t, v[0].undecided)
	assert.False(t, v[0].admitted)
	assert.False(t, a.record(c, v[0]), "there is nothing to tell")
	assert.True(t, v[1].admitted)
}

// TestWhatAPhJobWaitsForStaysTheSame when another one becomes the first: otherwise all waiting ones would be written anew.
func TestWhatAPhJobWaitsForStaysTheSame(t *testing.T) {
	queue := mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "2").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	messages := func(first string) (string, string) {
		ahead, job, other := phJob(first, "cpu", "2"), phJob("ann", "cpu", "1"), phJob("bob", "cpu", "1")
		other.phJob = nil
		s := newFixture(queue)
		s.books.Assume("running", "t", resources.List{"cpu": 1000})
		decisions := decideInOrder([]*candidate{ahead, job, other}, s.rules())
		require.False(t, decisions[0].admitted)
		return decisions[1].obstacle.reason.Error(), decisions[2].obstacle.reason.Error()
	}
	one, otherOne := messages("first")
	two, otherTwo := messages("second")
	assert.Equal(t, one, two)
	assert.NotEqual(t, otherOne, otherTwo, "any other PodGroup says which one is ahead")
}
