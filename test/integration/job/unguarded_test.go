package job_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/test/admission"
)

// TestWhatPoliciesRefuseIsFoundWithoutThem: the schema refuses a Job, or takes it, and then the Job says why it does not run.
func TestWhatPoliciesRefuseIsFoundWithoutThem(t *testing.T) {
	t.Parallel()
	var taken atomic.Int32
	t.Run("cases", func(t *testing.T) {
		for _, c := range admission.All() {
			if c.Base != admission.Job || c.IsTaken() || c.IsUpdate() || c.Needs == admission.NeedsQueues || isAboutTheQueue(&c) {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				job := readCase(t, &c)
				if job == nil {
					return // a field of a wrong type
				}
				job.Namespace = metav1.NamespaceDefault
				_, err := muster.BatchV1alpha1().Jobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					require.True(t, apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err), "refused, but not by the schema: %v", err)
					return
				}
				taken.Add(1)
				s := newStage(t)
				job.Namespace, job.Spec.Queue = s.namespace, s.namespace
				created, err := muster.BatchV1alpha1().Jobs(s.namespace).Create(t.Context(), job, metav1.CreateOptions{})
				require.NoError(t, err)
				s.requireNotRun(created)
			})
		}
	})
	assert.Greater(t, taken.Load(), int32(30), "cases that only policies refuse")
}

// isAboutTheQueue tells whether a case is refused for its queue. The test gives its Jobs another one.
func isAboutTheQueue(c *admission.Case) bool {
	return strings.Contains(strings.Join(c.Says, " "), "spec.queue")
}

// readCase is the Job that a case creates, or nil if it is none.
func readCase(t *testing.T, c *admission.Case) *batchv1alpha1.Job {
	t.Helper()
	object, err := c.Written()
	require.NoError(t, err)
	job := &batchv1alpha1.Job{}
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, job, true) != nil {
		return nil
	}
	return job
}

// requireNotRun waits until the Job says why it does not run. The Job says so by itself, or when it is admitted and no pod of it can be made.
func (s *stage) requireNotRun(job *batchv1alpha1.Job) {
	s.t.Helper()
	groups := muster.SchedulingV1beta1().PodGroups(s.namespace)
	admitted := false
	s.Soon("the Job says what is wrong", func() bool {
		group, err := groups.Get(s.t.Context(), batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
		if err == nil && !admitted {
			group.Status.Phase = schedulingv1beta1.PodGroupInqueue
			_, err = groups.UpdateStatus(s.t.Context(), group, metav1.UpdateOptions{})
			admitted = err == nil
		}
		reason := log.Job(s.name(job.Name)).Reason
		return reason == "Invalid" || reason == "FailedCreate"
	}, func() any { return log.Job(s.name(job.Name)) })
	state := log.Job(s.name(job.Name))
	assert.NotEmpty(s.t, state.Message)
	assert.Equal(s.t, batchv1alpha1.Pending, state.Phase)
}
