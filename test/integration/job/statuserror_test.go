package job_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// TestAStatusThatCannotBeWrittenIsSaid: a Job whose status the API server refuses says so by an event. It gets nothing that its status does
// not record, and goes on once the status can be written.
func TestAStatusThatCannotBeWrittenIsSaid(t *testing.T) {
	s := newStage(t)
	allow := s.refuseStatuses("not before noon")
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	event := s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "JobStatusError" })
	assert.Equal(t, corev1.EventTypeWarning, event.Type)
	assert.Contains(t, event.Message, "Failed to initialize job status, err: ")
	assert.Contains(t, event.Message, "not before noon")
	s.PodsStay(0, "nothing is made for it", s.live)
	groups, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, groups.Items)

	allow()
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	allow = s.refuseStatuses("not after noon either")
	s.succeed("j-a-0")
	event = s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "JobStatusError" && e.Message != event.Message
	})
	assert.Contains(t, event.Message, "Failed to update job status, err: ")
	assert.Contains(t, event.Message, "not after noon either")
	allow()
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
}

// refuseStatuses has the API server refuse the statuses of the test's Jobs, with a message, and waits until it does. The API server
// takes a moment to notice that they are allowed again.
func (s *stage) refuseStatuses(message string) (allow func()) {
	s.t.Helper()
	allow = clients.Refuse(s.t, kube, clients.Refusal{
		Namespace: s.namespace, Group: batchv1alpha1.GroupName, Version: "*", Resource: "jobs/status",
		Operation: admissionregistrationv1.Update, Message: message,
	})
	s.poll("the statuses are refused", s.isStatusRefused)
	return allow
}

// isStatusRefused tries to write the status of a Job that is only there to be tried, without effect.
func (s *stage) isStatusRefused(ctx context.Context) (bool, error) {
	jobs := muster.BatchV1alpha1().Jobs(s.namespace)
	probe := mustertesting.MakeJob("probe").Namespace(s.namespace).Queue("nowhere").Task(mustertesting.MakeTask("a", 1)).Obj()
	if _, err := jobs.Create(ctx, probe, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return false, err
	}
	current, err := jobs.Get(ctx, "probe", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	current.Status.State.Message += "."
	_, err = jobs.UpdateStatus(ctx, current, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), nil
}
