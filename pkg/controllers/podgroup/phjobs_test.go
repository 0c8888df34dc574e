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

	"github.com/muster-sched/muster/pkg/admission"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// fakePhJobs has PhJobs by the names of their PodGroups.
type fakePhJobs struct {
	PhJobs // nil: the rounds ask nothing else
	jobs   map[string]*primehubv1alpha1.PhJob
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

func byTurn(x, y *admission.Candidate) int { return x.Rank.Compare(y.Rank) }

func named(candidates []*admission.Candidate) (names []string) {
	for _, c := range candidates {
		names = append(names, c.Group.Name)
	}
	return names
}

// admitted is a PodGroup with the decision that admits it.
func admitted(group *schedulingv1beta1.PodGroup) admission.Decided {
	return admission.Decided{Candidate: admission.NewCandidate(group), Decision: admission.Decision{Admitted: true}}
}

// createdAt is a PhJob that was created in a second.
func createdAt(name string, second int64) *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
}

// TestAPhJobKeepsItsPlace: a PhJob that went back to its queue waits with a new PodGroup, before later PhJobs. It reserves nothing, however
// long it waits.
func TestAPhJobKeepsItsPlace(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(10000, 0))
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(t, clock, store)
	a.overtakeTime = time.Minute
	first := mustertesting.MakePodGroup("new").UID("new").Created(time.Unix(300, 0)).Obj()
	second := mustertesting.MakePodGroup("old").UID("old").Created(time.Unix(200, 0)).Obj()
	a.phJobs = fakePhJobs{jobs: map[string]*primehubv1alpha1.PhJob{"new": createdAt("job", 100)}}
	for _, group := range []*schedulingv1beta1.PodGroup{first, second} {
		group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
			Type: schedulingv1beta1.PodGroupUnschedulableType, LastTransitionTime: metav1.NewTime(time.Unix(8000, 0)),
		}}
		require.NoError(t, store.Add(group))
		a.observe(group)
	}
	candidates := a.candidates(admission.Classes{})
	require.Len(t, candidates, 2)
	slices.SortFunc(candidates, byTurn)
	assert.Equal(t, []string{"new", "old"}, named(candidates))
	assert.True(t, candidates[0].ByQuotaAlone)
	assert.Zero(t, candidates[0].Turn)
	assert.False(t, candidates[1].ByQuotaAlone)
	assert.Positive(t, candidates[1].Turn)

	a.phJobs = nil
	for _, c := range a.candidates(admission.Classes{}) {
		assert.False(t, c.ByQuotaAlone, "the PhJob is gone")
	}
}

// TestPhJobsOfOneSecondStartByName: the names of their PodGroups say nothing.
func TestPhJobsOfOneSecondStartByName(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(t, clocktesting.NewFakeClock(time.Unix(10000, 0)), store)
	jobs := map[string]*primehubv1alpha1.PhJob{"x": createdAt("c", 100), "y": createdAt("a", 100), "z": createdAt("b", 100)}
	a.phJobs = fakePhJobs{jobs: jobs}
	for name := range jobs {
		group := mustertesting.MakePodGroup(name).UID(name).Created(time.Unix(100, 0)).Obj()
		require.NoError(t, store.Add(group))
		a.observe(group)
	}
	candidates := a.candidates(admission.Classes{})
	slices.SortFunc(candidates, byTurn)
	assert.Equal(t, []string{"y", "z", "x"}, named(candidates))
}

// TestAPhJobWaitsForThePodGroupOfAnEarlierOne: nothing is decided about it before.
func TestAPhJobWaitsForThePodGroupOfAnEarlierOne(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := newAdmission(t, clocktesting.NewFakeClock(time.Unix(10000, 0)), store)
	a.phJobs = fakePhJobs{
		jobs:   map[string]*primehubv1alpha1.PhJob{"group-1": createdAt("early", 100), "group-2": createdAt("late", 200)},
		behind: map[string]string{"late": "group-1"},
	}
	isEarly := func() (early bool) {
		for _, c := range a.candidates(admission.Classes{}) {
			if c.Group.Name == "group-2" {
				early = c.IsEarly
			}
		}
		return early
	}
	early := mustertesting.MakePodGroup("group-1").UID("1").Obj()
	late := mustertesting.MakePodGroup("group-2").UID("2").Obj()
	require.NoError(t, store.Add(late))
	a.observe(late)
	assert.True(t, isEarly(), "the other PodGroup does not exist")
	require.NoError(t, store.Add(early))
	assert.True(t, isEarly(), "the other PodGroup is not a candidate yet")
	a.observe(early)
	assert.False(t, isEarly())
	a.record(admitted(early))
	assert.False(t, isEarly(), "it has been admitted")
	next := mustertesting.MakePodGroup("group-1").UID("1").Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	require.NoError(t, store.Update(next))
	a.observe(next)
	a.forget("default/group-1", "1")
	assert.False(t, isEarly(), "its status says that it has been admitted")
}
