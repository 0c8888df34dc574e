package phjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

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
