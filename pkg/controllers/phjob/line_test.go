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

// TestPhJobsLineUp in the order of their creation, those of one second by name. Each group has a line of its own.
func TestPhJobsLineUp(t *testing.T) {
	l := &lineUp{}
	a, b, c, other := queued("g", "a", 2), queued("g", "b", 1), queued("g", "c", 2), queued("other", "z", 9)
	assert.True(t, l.mayGo(a), "it does not wait")
	for _, job := range []*primehubv1alpha1.PhJob{c, a, b, b, other} {
		l.join(job)
	}
	assert.True(t, l.mayGo(b))
	assert.True(t, l.mayGo(other))
	assert.False(t, l.mayGo(a))
	assert.False(t, l.mayGo(c))
	assert.Equal(t, "hub/a", l.leave(b))
	assert.Empty(t, l.leave(b))
	assert.True(t, l.mayGo(a))
	assert.Empty(t, l.leave(c), "it was not the first")
	assert.Empty(t, l.leave(a))
	assert.Empty(t, l.leave(other))
	assert.Empty(t, l.lines)
}

// TestALineIsInOrder, however PhJobs come and go.
func TestALineIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, waiting := &lineUp{}, map[string]*primehubv1alpha1.PhJob{}
		earliest := func() string {
			var first *primehubv1alpha1.PhJob
			for _, job := range waiting {
				if first == nil || job.CreationTimestamp.Before(&first.CreationTimestamp) ||
					job.CreationTimestamp.Equal(&first.CreationTimestamp) && job.Name < first.Name {
					first = job
				}
			}
			if first == nil {
				return ""
			}
			return "hub/" + first.Name
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "joins") {
				job := queued("g", fmt.Sprintf("%d-%d", rapid.IntRange(0, 9).Draw(t, "name"), i), rapid.Int64Range(1, 5).Draw(t, "second"))
				waiting[job.Name] = job
				l.join(job)
			} else if len(waiting) > 0 {
				name := rapid.SampledFrom(sortedNames(waiting)).Draw(t, "leaves")
				before := earliest()
				job := waiting[name]
				delete(waiting, name)
				want := ""
				if before == "hub/"+name {
					want = earliest()
				}
				assert.Equal(t, want, l.leave(job))
			}
			for _, job := range waiting {
				assert.Equal(t, earliest() == "hub/"+job.Name, l.mayGo(job))
			}
		}
	})
}

func sortedNames(jobs map[string]*primehubv1alpha1.PhJob) []string {
	return slices.Sorted(maps.Keys(jobs))
}
