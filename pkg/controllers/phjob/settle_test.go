package phjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// TestRecordsBeyondTheLimit: the oldest that have ended go, and none that has not.
func TestRecordsBeyondTheLimit(t *testing.T) {
	record := func(namespace, name string, second int64, phase primehubv1alpha1.PhJobPhase) *primehubv1alpha1.PhJob {
		return &primehubv1alpha1.PhJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
			Status:     primehubv1alpha1.PhJobStatus{Phase: phase},
		}
	}
	jobs := []*primehubv1alpha1.PhJob{
		record("a", "new", 9, primehubv1alpha1.PhJobSucceeded), record("a", "old", 1, primehubv1alpha1.PhJobFailed),
		record("a", "middle", 5, primehubv1alpha1.PhJobCancelled), record("a", "runs", 0, primehubv1alpha1.PhJobRunning),
		record("b", "alone", 0, primehubv1alpha1.PhJobSucceeded), record("b", "waits", 0, primehubv1alpha1.PhJobPending),
	}
	for limit, want := range map[int][]string{
		4: nil,
		3: {"old"},
		2: {"old", "middle"},
		1: {"alone", "old", "middle", "new"},
		0: {"alone", "old", "middle", "new"},
	} {
		var names []string
		for _, job := range beyondLimit(jobs, limit) {
			names = append(names, job.Name)
		}
		assert.ElementsMatch(t, want, names, "limit %d", limit)
	}
}
