package validation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// restarting makes a Job whose tasks have the given restart policies, with policies of the Job.
func restarting(policies []batchv1alpha1.LifecyclePolicy, restart ...corev1.RestartPolicy) *batchv1alpha1.Job {
	return change(func(j *batchv1alpha1.Job) {
		j.Spec.Policies = policies
		for i := range restart {
			j.Spec.Tasks[i].Template.Spec.RestartPolicy = restart[i]
		}
	})
}

func answer(action busv1alpha1.Action, events ...busv1alpha1.Event) []batchv1alpha1.LifecyclePolicy {
	return []batchv1alpha1.LifecyclePolicy{{Events: events, Action: action}}
}

func TestPoliciesThatNeverFireAreNamed(t *testing.T) {
	exit := []batchv1alpha1.LifecyclePolicy{{ExitCode: int32p(3), Action: "RestartJob"}}
	for name, c := range map[string]struct {
		policies []batchv1alpha1.LifecyclePolicy
		restart  [2]corev1.RestartPolicy
		why      string
	}{
		"failures where none ends":       {answer("RestartJob", "PodFailed"), [2]corev1.RestartPolicy{"", "Always"}, podsDoNotFail},
		"failures that are tried again":  {answer("RestartJob", "PodFailed"), [2]corev1.RestartPolicy{"OnFailure", "Always"}, podsDoNotFail},
		"failures of one task":           {answer("RestartJob", "PodFailed"), [2]corev1.RestartPolicy{"", "Never"}, ""},
		"exit codes where none ends":     {exit, [2]corev1.RestartPolicy{"", ""}, podsDoNotFail},
		"exit codes":                     {exit, [2]corev1.RestartPolicy{"Never", ""}, ""},
		"completion where none ends":     {answer("CompleteJob", "TaskCompleted"), [2]corev1.RestartPolicy{"", "Always"}, podsDoNotSucceed},
		"completion":                     {answer("CompleteJob", "TaskCompleted"), [2]corev1.RestartPolicy{"OnFailure", ""}, ""},
		"restarts where there are none":  {answer("AbortJob", "TaskFailed"), [2]corev1.RestartPolicy{"Never", "Never"}, containersDoNotRestart},
		"restarts":                       {answer("AbortJob", "TaskFailed"), [2]corev1.RestartPolicy{"Never", ""}, ""},
		"one of several that can happen": {answer("RestartJob", "PodFailed", "PodEvicted"), [2]corev1.RestartPolicy{"", ""}, ""},
		"none of several":                {answer("RestartJob", "TaskCompleted", "PodFailed"), [2]corev1.RestartPolicy{"", ""}, podsDoNotSucceed},
		"any failure":                    {answer("RestartJob", "*"), [2]corev1.RestartPolicy{"", ""}, ""},
		"a change of the Job":            {answer("RestartJob", "JobUpdated", "Unknown"), [2]corev1.RestartPolicy{"", ""}, ""},
		"to resume what has not stopped": {answer("ResumeJob", "PodFailed"), [2]corev1.RestartPolicy{"Never", "Never"}, nothingToResume},
		"to resume what was changed":     {answer("ResumeJob", "JobUpdated", "PodFailed"), [2]corev1.RestartPolicy{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := restarting(c.policies, c.restart[:]...)
			assert.Empty(t, Job(job), "the Job is valid")
			said := NeverFires(job)
			if c.why == "" {
				assert.Empty(t, said)
				return
			}
			assert.Equal(t, []string{"spec.policies[0] can never fire: " + c.why}, said)
		})
	}
}

func TestContainersMayHaveARestartPolicyOfTheirOwn(t *testing.T) {
	never, deadline := corev1.ContainerRestartPolicy("Never"), int64(5)
	for name, edit := range map[string]func(*corev1.PodSpec){
		"a policy":   func(p *corev1.PodSpec) { p.Containers[0].RestartPolicy = &never },
		"rules":      func(p *corev1.PodSpec) { p.Containers[0].RestartPolicyRules = make([]corev1.ContainerRestartRule, 1) },
		"a deadline": func(p *corev1.PodSpec) { p.ActiveDeadlineSeconds = &deadline },
	} {
		job := restarting(answer("RestartJob", "PodFailed"), "", "")
		edit(&job.Spec.Tasks[1].Template.Spec)
		assert.Empty(t, NeverFires(job), name)
	}
}

// Policies of a task are for that task alone. All that are useless for one reason are named at once.
func TestUselessPoliciesOfTasks(t *testing.T) {
	job := restarting(answer("CompleteJob", "TaskCompleted"), "Never", "")
	job.Spec.Tasks[0].Policies = answer("RestartJob", "JobUpdated")
	job.Spec.Tasks[1].Policies = append(answer("RestartJob", "PodFailed"),
		batchv1alpha1.LifecyclePolicy{Event: "Unknown", Action: "RestartJob"}, batchv1alpha1.LifecyclePolicy{ExitCode: int32p(1), Action: "AbortJob"})
	said := NeverFires(job)
	require.Len(t, said, 2)
	assert.Equal(t, "spec.tasks[0].policies[0], spec.tasks[1].policies[1] can never fire: "+aboutTheJob, said[0])
	assert.Equal(t, "spec.tasks[1].policies[0], spec.tasks[1].policies[2] can never fire: "+podsDoNotFail, said[1])
}
