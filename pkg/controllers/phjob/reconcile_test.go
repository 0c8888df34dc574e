package phjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
)

// TestARequeuedJobKeepsItsPlace from the moment that its status says so. Its quota comes free after that, and before its next PodGroup is known.
func TestARequeuedJobKeepsItsPlace(t *testing.T) {
	jobOf := func(name string) *primehubv1alpha1.PhJob {
		job := &primehubv1alpha1.PhJob{}
		job.Namespace, job.Name, job.UID = "ns", name, types.UID(name)
		return job
	}
	first, later := jobOf("a"), jobOf("b")
	first.Status.Phase = primehubv1alpha1.PhJobPreparing
	c := &Controller{muster: musterfake.NewSimpleClientset(first), recorder: record.NewFakeRecorder(10)}
	nothing := func(string, string) bool { return false }
	require.False(t, c.line.isBehind(later, nothing))
	_, err := c.write(t.Context(), "ns/a", first, &primehubv1alpha1.PhJobStatus{Phase: primehubv1alpha1.PhJobPending, Requeued: 1})
	require.NoError(t, err)
	assert.True(t, c.line.isBehind(later, nothing))
}

// TestWhatIsOnlyAReport: a status that says the same phase in other words. All else is written at once.
func TestWhatIsOnlyAReport(t *testing.T) {
	const pending, preparing = primehubv1alpha1.PhJobPending, primehubv1alpha1.PhJobPreparing
	type status = primehubv1alpha1.PhJobStatus
	for name, c := range map[string]struct {
		last, next status
		want       bool
	}{
		"it waits for something else": {status{Phase: pending, Message: "a"}, status{Phase: pending, Message: "b"}, true},
		"it has another reason":       {status{Phase: preparing}, status{Phase: preparing, Reason: primehubv1alpha1.ReasonPodPending}, true},
		"it is new":                   {status{}, status{Phase: pending, Message: "a"}, false},
		"it has its quota":            {status{Phase: pending}, status{Phase: preparing}, false},
		"it goes back to the queue":   {status{Phase: pending}, status{Phase: pending, Requeued: 1}, false},
		"it has a pod":                {status{Phase: preparing}, status{Phase: preparing, PodName: "a"}, false},
		"it has started":              {status{Phase: preparing}, status{Phase: preparing, StartTime: ptr.To(metav1.NewTime(time.Unix(1, 0)))}, false},
	} {
		assert.Equal(t, c.want, isReport(&c.last, &c.next), name)
	}
}
