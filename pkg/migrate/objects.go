package migrate

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/validation"
	"github.com/muster-sched/muster/pkg/lint"
)

// The kinds that both have.
var (
	queueKind = schema.GroupKind{Group: schedulingv1beta1.SchemeGroupVersion.Group, Kind: "Queue"}
	groupKind = schema.GroupKind{Group: schedulingv1beta1.SchemeGroupVersion.Group, Kind: "PodGroup"}
	jobKind   = schema.GroupKind{Group: batchv1alpha1.SchemeGroupVersion.Group, Kind: "Job"}
	hyperKind = schema.GroupKind{Group: topologyv1alpha1.GroupName, Kind: "HyperNode"}
)

// served are the names of schedulers whose pods Muster takes beside the default scheduler.
var served = []string{"", "volcano", "muster"}

// remarksOn judges one object. The second result is false for objects that the move does not concern.
func remarksOn(ctx context.Context, judge Judge, object lint.Object, queues map[string]bool) ([]Remark, bool, error) {
	kind := object.Content.GroupVersionKind().GroupKind()
	switch {
	case kind == queueKind || kind == groupKind || kind == jobKind || kind == hyperKind:
	case strings.HasSuffix(kind.Group, ".volcano.sh") && kind != (schema.GroupKind{Group: busv1alpha1.SchemeGroupVersion.Group, Kind: "Command"}):
		return []Remark{missing(kind.Kind)}, true, nil
	case kind == (schema.GroupKind{Kind: "ConfigMap"}):
		return schedulerRemarks(object.Content)
	case kind.Group == "admissionregistration.k8s.io" && strings.HasSuffix(kind.Kind, "WebhookConfiguration"):
		return webhookRemarks(object.Content)
	default:
		return nil, false, nil
	}
	object.Content = withoutGeneratedClaims(object.Content)
	refused, warnings, err := judge.Judge(ctx, object)
	if err != nil {
		return nil, false, err
	}
	remarks := slices.Concat(refused, warnings, annotationRemarks(object.Content))
	if slices.ContainsFunc(refused, func(r Remark) bool { return r.Result == Refused }) {
		return remarks, true, nil
	}
	switch kind {
	case jobKind:
		job := &batchv1alpha1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Content.Object, job); err != nil {
			return nil, false, fmt.Errorf("reading it: %w", err)
		}
		remarks = append(remarks, jobRemarks(job, queues)...)
	case groupKind:
		group := &schedulingv1beta1.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Content.Object, group); err != nil {
			return nil, false, fmt.Errorf("reading it: %w", err)
		}
		remarks = append(remarks, groupRemarks(group, queues)...)
	}
	return remarks, true, nil
}

// generatedClaim is the end of a generated name of a claim. The job controllers of both write it into volumes with a claim of their own.
var generatedClaim = regexp.MustCompile(`-pvc-[0-9a-z]{12}$`)

// withoutGeneratedClaims takes generated names of claims out of a Job, which its author has not written. A new Job with both would be
// refused, by Volcano too.
func withoutGeneratedClaims(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	volumes, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "volumes")
	list, _ := volumes.([]any)
	for _, volume := range list {
		fields, _ := volume.(map[string]any)
		name, _ := fields["volumeClaimName"].(string)
		if fields["volumeClaim"] != nil && generatedClaim.MatchString(name) {
			delete(fields, "volumeClaimName")
		}
	}
	return object
}

// jobRemarks says what the controller makes of a Job that the API server takes.
func jobRemarks(job *batchv1alpha1.Job, queues map[string]bool) []Remark {
	job = defaults.Job(job, "volcano")
	var remarks []Remark
	if finding := plan.CheckSpec(job); finding != nil {
		remarks = append(remarks, Remark{Result: Waits, Message: finding.Message, Lost: true})
	}
	for _, sentence := range validation.NeverFires(job) {
		remarks = append(remarks, Remark{Result: Differs, Field: "spec.policies", Message: sentence})
	}
	remarks = append(remarks, queueRemarks(job.Spec.Queue, queues)...)
	if _, hasSSH := job.Spec.Plugins["ssh"]; hasSSH {
		remarks = append(remarks, Remark{Result: Differs, Field: "spec.plugins.ssh", Message: "the key is of type ed25519, not RSA",
			Remedy: "for an image that needs RSA, add the argument --ssh-key-type=rsa"})
	}
	remarks = append(remarks, policyRemarks("spec.policies", job.Spec.Policies)...)
	for i := range job.Spec.Tasks {
		remarks = append(remarks, taskRemarks(fmt.Sprintf("spec.tasks[%d]", i), &job.Spec.Tasks[i], job.Spec.SchedulerName)...)
	}
	return remarks
}

// taskRemarks says what differs for a task.
func taskRemarks(path string, task *batchv1alpha1.TaskSpec, scheduler string) []Remark {
	remarks := policyRemarks(path+".policies", task.Policies)
	if task.DependsOn != nil && task.DependsOn.Condition == "" {
		remarks = append(remarks, Remark{Result: Differs, Field: path + ".dependsOn", Message: "the task waits until the named tasks have completed, not until they are ready",
			Remedy: "install manifests/deploy/coming-from-volcano, which has Volcano's default, or set condition: Ready"})
	}
	if name := task.Template.Spec.SchedulerName; name != "" {
		scheduler = name
	}
	if !slices.Contains(served, scheduler) {
		remarks = append(remarks, Remark{Result: Differs, Field: path + ".template.spec.schedulerName",
			Message: fmt.Sprintf("the scheduler %q is not one of Muster's: it does not keep the Job's pods together", scheduler), Remedy: "use volcano or muster"})
	}
	return remarks
}

// policyRemarks says which policies answer other events.
func policyRemarks(path string, policies []batchv1alpha1.LifecyclePolicy) []Remark {
	var remarks []Remark
	for i := range policies {
		events := policies[i].Events
		if policies[i].Event != "" {
			events = append(slices.Clone(events), policies[i].Event)
		}
		field := fmt.Sprintf("%s[%d]", path, i)
		if slices.Contains(events, busv1alpha1.AnyEvent) && !slices.Contains(events, busv1alpha1.TaskCompletedEvent) {
			remarks = append(remarks, Remark{Result: Differs, Field: field, Message: "* is every failure, and not TaskCompleted", Remedy: "if a success should count, name TaskCompleted beside *"})
		}
		if slices.Contains(events, busv1alpha1.JobUpdatedEvent) {
			remarks = append(remarks, Remark{Result: Differs, Field: field, Message: "JobUpdated is raised by a change of the spec; Volcano never raises it",
				Remedy: "leave the policy out if a change should cause nothing"})
		}
	}
	return remarks
}

// groupRemarks says what the controller makes of a PodGroup.
func groupRemarks(group *schedulingv1beta1.PodGroup, queues map[string]bool) []Remark {
	remarks := queueRemarks(group.Spec.Queue, queues)
	if message := validation.UnsupportedGroup(group); message != "" {
		field, _, _ := strings.Cut(message, " ")
		remarks = append(remarks, Remark{Result: Waits, Field: field, Message: "the gang waits with reason NotSupported", Remedy: message, Lost: true})
	}
	return remarks
}

// queueRemarks says that a queue is missing. Volcano would refuse the object, so nothing is lost.
func queueRemarks(queue string, queues map[string]bool) []Remark {
	if queues == nil || queue == "" || queues[queue] {
		return nil
	}
	return []Remark{{Result: Waits, Field: "spec.queue", Message: fmt.Sprintf("the queue %q is not among the objects: without it the pods wait with reason QueueNotFound", queue),
		Remedy: "create the queue"}}
}

// withoutEffect are annotations that plugins of Volcano read, and what to use instead.
var withoutEffect = map[string]string{
	"volcano.sh/revocable-zone":              "taint the nodes, and tolerate the taint in the pods that may use them",
	"volcano.sh/jdb-min-available":           "use a PodDisruptionBudget, or the Job's minAvailable, below which no eviction takes a gang in part",
	"volcano.sh/jdb-max-unavailable":         "use a PodDisruptionBudget, or the Job's minAvailable, below which no eviction takes a gang in part",
	"volcano.sh/numa-topology-policy":        "use the topology manager of the kubelet",
	"volcano.sh/task-topology-affinity":      "use podAffinity in the templates",
	"volcano.sh/task-topology-anti-affinity": "use podAntiAffinity in the templates",
	"volcano.sh/task-topology-task-order":    "use dependsOn, or priority classes in the templates",
	"volcano.sh/hierarchy":                   "use spec.parent",
	"volcano.sh/hierarchy-weights":           "use spec.parent and spec.weight",
}

// annotationRemarks says which annotations have no effect.
func annotationRemarks(object *unstructured.Unstructured) []Remark {
	var remarks []Remark
	for key := range object.GetAnnotations() {
		if remedy := withoutEffect[key]; remedy != "" {
			remarks = append(remarks, Remark{Result: Ignored, Field: "metadata.annotations[" + key + "]", Message: "has no effect", Remedy: remedy, Lost: true})
		}
	}
	return remarks
}

// remedies say what to use instead of the kinds that Muster does not have.
var remedies = map[string]string{
	"CronJob":      "use a batch/v1 CronJob whose pod creates the Job",
	"JobFlow":      "use dependsOn between the tasks of one Job, or a workflow engine that creates the Jobs",
	"JobTemplate":  "keep the Job in a file, and create it from there",
	"Numatopology": "use the topology manager of the kubelet",
}

// missing is the remark on an object of a kind that Muster does not have.
func missing(kind string) Remark {
	remedy := remedies[kind]
	if remedy == "" {
		remedy = "see what is missing in docs/coming-from-volcano.md"
	}
	return Remark{Result: Ignored, Message: "Muster has no " + kind + ": the object stays and has no effect", Remedy: remedy, Lost: true}
}

// webhookRemarks says that a webhook of Volcano stops requests as soon as nothing answers it.
func webhookRemarks(object *unstructured.Unstructured) ([]Remark, bool, error) {
	hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for _, hook := range hooks {
		parts, _ := hook.(map[string]any)
		service, _, _ := unstructured.NestedString(parts, "clientConfig", "service", "name")
		name, _, _ := unstructured.NestedString(parts, "name")
		if !strings.HasPrefix(service, "volcano-") && !strings.HasSuffix(name, ".volcano.sh") {
			continue
		}
		if policy, _, _ := unstructured.NestedString(parts, "failurePolicy"); policy == "Ignore" {
			continue
		}
		return []Remark{{Result: Differs, Field: "webhooks", Message: "it belongs to Volcano: while it is there and Volcano is not, the API server refuses all that it asks about",
			Remedy: "when Volcano is removed, delete it: kubectl delete " + strings.ToLower(object.GetKind()) + " " + object.GetName()}}, true, nil
	}
	return nil, false, nil
}
