package validation_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/validation"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// answers says how policies answer an event.
type answers struct {
	// isFailure: "*" matches it.
	isFailure bool
	// hasExitCode: a policy for an exit code matches it.
	hasExitCode bool
	// neverIn are the restart policies of pods with which a Job's policy for it never fires.
	neverIn []corev1.RestartPolicy
	// neverOfTask: a task's policy for it never fires.
	neverOfTask bool
}

// everyEvent has a row for each event that a policy may name.
var everyEvent = map[busv1alpha1.Event]answers{
	busv1alpha1.PodFailedEvent: {isFailure: true, hasExitCode: true,
		neverIn: []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure}},
	busv1alpha1.PodEvictedEvent:    {isFailure: true},
	busv1alpha1.TaskFailedEvent:    {isFailure: true, neverIn: []corev1.RestartPolicy{corev1.RestartPolicyNever}},
	busv1alpha1.JobUnknownEvent:    {isFailure: true, neverOfTask: true},
	busv1alpha1.TaskCompletedEvent: {neverIn: []corev1.RestartPolicy{corev1.RestartPolicyAlways}},
	busv1alpha1.JobUpdatedEvent:    {neverOfTask: true},
	busv1alpha1.PodPendingEvent:    {},
}

// TestEveryEventIsAnsweredAsItsPagesSay takes the events from the schema. So it finds an event that was added to it and not to the policies,
// or not to the pages.
func TestEveryEventIsAnsweredAsItsPagesSay(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(policyDocs, "any.md"))
	require.NoError(t, err)
	part := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindSubmatch(page)
		require.NotNil(t, found, pattern)
		return string(found[1])
	}
	matched, notMatched := part(`(?s)\*\*Raised when\*\* (.*?)\n\n`), part(`(?s)does not match (.*?)\.`)
	for _, event := range mustertesting.PolicyEvents(t) {
		if event == busv1alpha1.AnyEvent {
			continue
		}
		t.Run(string(event), func(t *testing.T) {
			want, known := everyEvent[event]
			require.True(t, known, "add a row to everyEvent: does * match it, do exit codes, and when does it never happen?")
			assert.Equal(t, want.isFailure, isAnswered(event, batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.AnyEvent}), "*")
			assert.Equal(t, want.hasExitCode, isAnswered(event, batchv1alpha1.LifecyclePolicy{ExitCode: new(int32)}), "exit code")
			assert.True(t, isAnswered(event, batchv1alpha1.LifecyclePolicy{Event: event}), "its own name")
			assert.Equal(t, want.isFailure, strings.Contains(matched, string(event)), "docs/policies/any.md says that * matches it")
			assert.Equal(t, !want.isFailure, strings.Contains(notMatched, string(event)), "docs/policies/any.md says that * does not match it")
			for _, restart := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
				assert.Equal(t, slices.Contains(want.neverIn, restart), neverFires(event, restart, false), "a policy of the Job, pods that restart: %s", restart)
			}
			if want.neverOfTask {
				assert.True(t, neverFires(event, corev1.RestartPolicyNever, true), "a policy of a task")
			}
		})
	}
}

// isAnswered says whether a policy answers an event of a pod that ended with code 0.
func isAnswered(event busv1alpha1.Event, p batchv1alpha1.LifecyclePolicy) bool {
	p.Action = busv1alpha1.AbortJobAction
	job := mustertesting.MakeJob("j").LifecyclePolicy(p).Task(mustertesting.MakeTask("a", 1)).Obj()
	decision, _ := policy.Decide(&job.Spec, []policy.Event{{Type: event}}, time.Unix(0, 0))
	return decision != nil
}

// neverFires says whether the controller warns about a policy, of a Job whose pods restart like this.
func neverFires(event busv1alpha1.Event, restart corev1.RestartPolicy, ofTask bool) bool {
	policies := []batchv1alpha1.LifecyclePolicy{{Event: event, Action: busv1alpha1.AbortJobAction}}
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	job.Spec.Tasks[0].Template.Spec.RestartPolicy = restart
	if ofTask {
		job.Spec.Tasks[0].Policies = policies
	} else {
		job.Spec.Policies = policies
	}
	return len(validation.NeverFires(defaults.Job(job, ""))) > 0
}
