package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"
)

// Why a policy can never fire.
const (
	podsDoNotFail = "with restartPolicy Always (the default) or OnFailure the kubelet starts failed containers again, and the pod does not fail;" +
		" set restartPolicy to Never, or answer TaskFailed"
	podsDoNotSucceed = "with restartPolicy Always (the default) the kubelet starts ended containers again, and the pod never succeeds;" +
		" set restartPolicy to OnFailure or Never"
	containersDoNotRestart = "with restartPolicy Never the kubelet restarts no container; answer PodFailed"
	aboutTheJob            = "Unknown and JobUpdated are about the job as a whole; move the policy to spec.policies"
	nothingToResume        = "only an aborted job can be resumed, and JobUpdated is the only event that happens to one; answer JobUpdated"
)

// maxPaths is how many bytes the policies' paths take in a message: there may be two thousand.
const maxPaths = 400

// NeverFires returns warnings about a valid Job's policies that can never do anything, one sentence for each reason. The Job has its
// defaults filled in.
func NeverFires(job *batchv1alpha1.Job) []string {
	found := map[string][]string{} // why -> paths of policies
	var order []string
	look := func(policies []batchv1alpha1.LifecyclePolicy, tasks []batchv1alpha1.TaskSpec, path string, ofTask bool) {
		for i := range policies {
			if why := whyNever(&policies[i], tasks, ofTask); why != "" {
				if found[why] == nil {
					order = append(order, why)
				}
				found[why] = append(found[why], fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	look(job.Spec.Policies, job.Spec.Tasks, "spec.policies", false)
	for i := range job.Spec.Tasks {
		look(job.Spec.Tasks[i].Policies, job.Spec.Tasks[i:i+1], fmt.Sprintf("spec.tasks[%d].policies", i), true)
	}
	var said []string
	for _, why := range order {
		said = append(said, fmt.Sprintf("%s can never fire: %s", text.Cut(strings.Join(found[why], ", "), maxPaths), why))
	}
	return said
}

// whyNever returns why a policy of the given tasks can never fire; "" if it can.
func whyNever(p *batchv1alpha1.LifecyclePolicy, tasks []batchv1alpha1.TaskSpec, ofTask bool) string {
	if p.Action == busv1alpha1.ResumeJobAction && !isNamed(p, busv1alpha1.JobUpdatedEvent) {
		return nothingToResume
	}
	events := slices.Clone(p.Events)
	if p.Event != "" {
		events = append(events, p.Event)
	}
	if p.ExitCode != nil {
		events = []busv1alpha1.Event{busv1alpha1.PodFailedEvent}
	}
	var first string
	for _, event := range events {
		why := whyNotRaised(event, tasks, ofTask)
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// whyNotRaised returns why an event can never happen to the given tasks; "" if it can.
func whyNotRaised(event busv1alpha1.Event, tasks []batchv1alpha1.TaskSpec, ofTask bool) string {
	some := func(can func(*corev1.PodSpec) bool) bool {
		return slices.ContainsFunc(tasks, func(task batchv1alpha1.TaskSpec) bool { return can(&task.Template.Spec) })
	}
	switch event {
	case busv1alpha1.PodFailedEvent:
		if !some(canFail) {
			return podsDoNotFail
		}
	case busv1alpha1.TaskCompletedEvent:
		if !some(canSucceed) {
			return podsDoNotSucceed
		}
	case busv1alpha1.TaskFailedEvent:
		if !some(restartsContainers) {
			return containersDoNotRestart
		}
	case busv1alpha1.JobUnknownEvent, busv1alpha1.JobUpdatedEvent:
		if ofTask {
			return aboutTheJob
		}
	}
	return ""
}

// canFail tells whether the end of its containers, or its deadline, can make a pod fail. Pods that a kubelet rejects are left out of
// account.
func canFail(pod *corev1.PodSpec) bool {
	return pod.RestartPolicy == corev1.RestartPolicyNever || pod.ActiveDeadlineSeconds != nil || hasOwnPolicies(pod)
}

func canSucceed(pod *corev1.PodSpec) bool {
	return pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyAlways || hasOwnPolicies(pod)
}

func restartsContainers(pod *corev1.PodSpec) bool {
	return pod.RestartPolicy != corev1.RestartPolicyNever || hasOwnPolicies(pod)
}

// hasOwnPolicies tells whether a container has another restart policy than its pod.
func hasOwnPolicies(pod *corev1.PodSpec) bool {
	own := func(c corev1.Container) bool { return c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 }
	return slices.ContainsFunc(pod.Containers, own) || slices.ContainsFunc(pod.InitContainers, own)
}
