package phjob

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// queued is a PhJob of a group that was created in a second.
func queued(group, name string, second int64) *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
		Spec:       primehubv1alpha1.PhJobSpec{GroupID: group, GroupName: group},
	}
}

// podGroups are the PodGroups that admission knows, by the names of their PhJobs.
type podGroups map[string]bool

func (p podGroups) known(_, podGroup string) bool {
	for name := range p {
		if podGroup == "phjob-"+name+"-0" {
			return true
		}
	}
	return false
}

// TestPhJobsLineUp in the order of their creation, and by name within one second. Each group has a line of its own.
func TestPhJobsLineUp(t *testing.T) {
	l, groups := &lineUp{}, podGroups{}
	a, b, c, other := queued("g", "a", 2), queued("g", "b", 1), queued("g", "c", 2), queued("other", "z", 9)
	assert.False(t, l.isBehind(a, groups.known), "there is no line")
	for _, job := range []*primehubv1alpha1.PhJob{c, a, b, b, other} {
		l.join(job)
	}
	assert.False(t, l.isBehind(b, groups.known))
	assert.False(t, l.isBehind(other, groups.known))
	assert.True(t, l.isBehind(a, groups.known))
	groups["c"] = true
	assert.True(t, l.isBehind(c, groups.known), "that its own PodGroup is known does not help")
	groups["b"] = true
	assert.False(t, l.isBehind(a, groups.known))
	assert.True(t, l.isBehind(c, groups.known))
	assert.False(t, l.leave(b), "it has left")
	assert.True(t, l.leave(a))
	assert.False(t, l.leave(a))
	assert.False(t, l.isBehind(c, groups.known))
	assert.False(t, l.isBehind(queued("g", "d", 3), groups.known))
	assert.True(t, l.leave(other))
	assert.Empty(t, l.lines)
}

// TestAPhJobWhosePodGroupCannotBeMade holds up the later ones of its group for a while only.
func TestAPhJobWhosePodGroupCannotBeMade(t *testing.T) {
	l, groups, now := &lineUp{}, podGroups{"b": true}, time.Unix(1000, 0)
	a, b := queued("g", "a", 1), queued("g", "b", 2)
	assert.False(t, l.fail(a, now), "it is not in the line")
	l.join(a)
	l.join(b)
	assert.False(t, l.fail(a, now))
	assert.False(t, l.fail(a, now.Add(linePatience-1)))
	assert.True(t, l.isBehind(b, groups.known))
	assert.True(t, l.fail(a, now.Add(linePatience)))
	assert.False(t, l.fail(a, now.Add(linePatience)))
	assert.False(t, l.isBehind(b, groups.known))
	assert.Empty(t, l.lines)
}

// TestALineIsInOrder, however PhJobs come and go and whenever their PodGroups are known.
func TestALineIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, waiting, groups := &lineUp{}, map[string]*primehubv1alpha1.PhJob{}, podGroups{}
		isBehind := func(job *primehubv1alpha1.PhJob) bool {
			for _, other := range waiting {
				earlier := other.CreationTimestamp.Before(&job.CreationTimestamp) ||
					other.CreationTimestamp.Equal(&job.CreationTimestamp) && other.Name < job.Name
				if earlier && !groups[other.Name] {
					return true
				}
			}
			return false
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch step := rapid.SampledFrom([]string{"join", "leave", "known"}).Draw(t, "step"); {
			case step == "join":
				job := queued("g", fmt.Sprintf("%d-%d", rapid.IntRange(0, 9).Draw(t, "name"), i), rapid.Int64Range(1, 5).Draw(t, "second"))
				waiting[job.Name] = job
				l.join(job)
			case len(waiting) == 0:
			case step == "leave":
				name := rapid.SampledFrom(sortedNames(waiting)).Draw(t, "leaves")
				l.leave(waiting[name])
				delete(waiting, name)
			default:
				groups[rapid.SampledFrom(sortedNames(waiting)).Draw(t, "is known")] = true
			}
			for _, job := range waiting {
				assert.Equal(t, isBehind(job), l.isBehind(job, groups.known))
			}
		}
	})
}

func sortedNames(jobs map[string]*primehubv1alpha1.PhJob) []string {
	return slices.Sorted(maps.Keys(jobs))
}
