package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// phJob is a candidate for a PhJob of a user, which asks for so much.
func phJob(user string, namesAndQuantities ...string) *Candidate {
	c := NewCandidate(mustertesting.MakePodGroup(user).Queue("t").User(user).MinResources(namesAndQuantities...).Obj())
	c.ByQuotaAlone = true
	return c
}

// TestPhJobsAreScheduledAsPrimeHubDoes has the examples of PrimeHub's documentation and the cases of its scheduler's tests. They have the
// quotas of the group and each user, the jobs by their creation, and the admitted ones.
func TestPhJobsAreScheduledAsPrimeHubDoes(t *testing.T) {
	gpus := func(user, n string) *Candidate { return phJob(user, "nvidia.com/gpu", n) }
	for name, c := range map[string]struct {
		group, user []string
		jobs        []*Candidate
		want        []bool
	}{
		"example 1": {[]string{"nvidia.com/gpu", "4"}, []string{"nvidia.com/gpu", "4"},
			[]*Candidate{gpus("bob", "2"), gpus("pan", "4"), gpus("lin", "2")}, []bool{true, false, false}},
		"example 2": {[]string{"nvidia.com/gpu", "4"}, []string{"nvidia.com/gpu", "4"},
			[]*Candidate{gpus("bob", "2"), gpus("bob", "4"), gpus("lin", "2")}, []bool{true, false, true}},
		"StrictOrder1": {[]string{"cpu", "8"}, []string{"cpu", "8"},
			[]*Candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "4"), phJob("c", "cpu", "4")}, []bool{true, true, false}},
		"StrictOrder2": {[]string{"cpu", "8"}, []string{"cpu", "8"},
			[]*Candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "6"), phJob("c", "cpu", "2")}, []bool{true, false, false}},
		"StrictOrder3": {[]string{"cpu", "8"}, []string{"cpu", "4"},
			[]*Candidate{phJob("a", "cpu", "4"), phJob("b", "cpu", "6"), phJob("c", "cpu", "2")}, []bool{true, false, true}},
		"Validate: above the group's": {[]string{"cpu", "3"}, nil, []*Candidate{phJob("a", "cpu", "4")}, []bool{false}},
		"Validate: all the group's":   {[]string{"cpu", "3"}, nil, []*Candidate{phJob("a", "cpu", "3")}, []bool{true}},
		"Validate: above the user's":  {nil, []string{"cpu", "3"}, []*Candidate{phJob("a", "cpu", "4")}, []bool{false}},
		"Validate: all the user's":    {nil, []string{"cpu", "3"}, []*Candidate{phJob("a", "cpu", "3")}, []bool{true}},
		"Validate: above the memory":  {[]string{"memory", "512Mi"}, nil, []*Candidate{phJob("a", "memory", "1Gi")}, []bool{false}},
		"Validate: all the memory":    {[]string{"memory", "1Gi"}, nil, []*Candidate{phJob("a", "memory", "1Gi")}, []bool{true}},
		"no quota at all":             {nil, nil, []*Candidate{phJob("a", "cpu", "1000")}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []schedulingv1beta1.DequeueStrategy{schedulingv1beta1.DequeueStrategyFIFO, schedulingv1beta1.DequeueStrategyTraverse} {
				queue := mustertesting.MakeQueue("t").Parent("root").Capability(c.group...).Dequeue(strategy).Obj()
				queue.Spec.Muster = &schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources(c.user...)}}
				var got []bool
				for i, job := range c.jobs {
					job.Key += string(rune('0' + i))
				}
				for _, v := range newFixture(queue).decide(c.jobs...) {
					got = append(got, v.Admitted)
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
	assert.True(t, s.decide(job)[0].Admitted)
	other := phJob("ann", "cpu", "100")
	other.ByQuotaAlone = false
	assert.False(t, s.decide(other)[0].Admitted, "any other PodGroup is not")
}

// TestPhJobsWaitForQuota that is free: nothing is evicted to make it.
func TestPhJobsWaitForQuota(t *testing.T) {
	s := newFixture(mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "4").Obj())
	s.books.Assume("runs", "t", resources.List{"cpu": 4000})
	s.units = []Evictable{{Unit: quota.Unit{Account: "t", Priority: -1, Requests: resources.List{"cpu": 4000}}}}
	job := phJob("ann", "cpu", "4")
	assert.False(t, s.decide(job)[0].Admitted)
	job.ByQuotaAlone = false
	assert.True(t, s.decide(job)[0].Admitted, "any other PodGroup is admitted")
}

// TestAPhJobWaitsForTheOnesBeforeIt: the PodGroup of an earlier PhJob of its group is about to come.
func TestAPhJobWaitsForTheOnesBeforeIt(t *testing.T) {
	c := phJob("ann", "cpu", "1")
	c.IsEarly = true
	v := newFixture(mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "4").Obj()).decide(c, phJob("bob", "cpu", "1"))
	assert.True(t, v[0].undecided)
	assert.False(t, v[0].Admitted)
	_, report := Decided{c, v[0]}.Tell(Decision{}, time.Unix(1000, 0))
	assert.False(t, report, "there is nothing to tell")
	assert.True(t, v[1].Admitted)
}

// TestWhatAPodGroupInLineWaitsForStaysTheSame when another one becomes the first: otherwise all waiting ones would be written anew. None names
// the first, which may be of another namespace (issue 44, 1).
func TestWhatAPodGroupInLineWaitsForStaysTheSame(t *testing.T) {
	queue := mustertesting.MakeQueue("t").Parent("root").Capability("cpu", "2").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	messages := func(first string) (string, string) {
		ahead, job, other := phJob(first, "cpu", "2"), phJob("ann", "cpu", "1"), phJob("bob", "cpu", "1")
		other.ByQuotaAlone = false
		s := newFixture(queue)
		s.books.Assume("running", "t", resources.List{"cpu": 1000})
		decisions := s.decide(ahead, job, other)
		require.False(t, decisions[0].Admitted)
		return decisions[1].blocker.reason.Error(), decisions[2].blocker.reason.Error()
	}
	one, otherOne := messages("first")
	two, otherTwo := messages("second")
	assert.Equal(t, one, two)
	assert.Equal(t, otherOne, otherTwo)
}
