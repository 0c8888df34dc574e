package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAnEstimateIsNoChangeOfAJob: no policy is asked about it.
func TestAnEstimateIsNoChangeOfAJob(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: busv1alpha1.JobUpdatedEvent, Action: busv1alpha1.RestartJobAction}}
	hash := func() string {
		_, hash, known := strings.Cut(SpecMark(job), "-")
		assert.True(t, known)
		return hash
	}
	before := hash()
	job.Spec.RunningEstimate = &metav1.Duration{Duration: time.Hour}
	assert.Equal(t, before, hash())
	job.Spec.MinAvailable++
	assert.NotEqual(t, before, hash())
}
