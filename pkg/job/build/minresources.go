package build

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quota "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/resources"
)

// minResources returns what the minimum of a Job uses of a quota. The names are the ones in a ResourceQuota. Extended resources have their
// own names, too. It counts what the API server adds to the pods when they are created. Amounts end at resources.MaxAmount, with which the
// PodGroup is not admitted. The pods of tasks of higher priority are counted first, as they start first.
func minResources(spec *batchv1alpha1.JobSpec, priorityOf PriorityFunc, added Additions) corev1.ResourceList {
	positions := order.ByPriority(order.Priorities(spec, priorityOf))
	sum := corev1.ResourceList{}
	for n, count := range order.Minimum(spec, positions) {
		if count > 0 {
			sum = quota.Add(sum, times(podUsage(&spec.Tasks[positions[n]].Template, added), int64(count)))
		}
	}
	for name, amount := range sum {
		if resources.Amount(name, amount) == resources.MaxAmount { // its exponent may have more digits than the API takes
			sum[name] = *resource.NewQuantity(resources.MaxAmount, resource.BinarySI)
		}
	}
	return sum
}

// podUsage returns what a pod of the template uses of a quota, with the API server's defaults and additions.
func podUsage(template *corev1.PodTemplateSpec, added Additions) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *template.Spec.DeepCopy()}
	corev1defaults.SetObjectDefaults_Pod(pod)
	added.addTo(&pod.Spec)

	one := *resource.NewQuantity(1, resource.DecimalSI)
	usage := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		usage[name] = amount
		usage[corev1.DefaultResourceRequestsPrefix+name] = amount
	}
	for name, amount := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		if isLimitedByQuota(name) {
			usage["limits."+name] = amount
		}
	}
	return usage
}

// isLimitedByQuota tells whether a quota may limit the limits of the resource, and not only its requests.
func isLimitedByQuota(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func times(list corev1.ResourceList, n int64) corev1.ResourceList {
	product := make(corev1.ResourceList, len(list))
	for name, amount := range list {
		amount = amount.DeepCopy()
		amount.Mul(n)
		product[name] = amount
	}
	return product
}

// Additions are the requests and limits that the API server adds to new pods of a namespace. Additions by webhooks are not known before the
// first pod. The zero value adds nothing.
type Additions struct {
	// LimitRanges of the namespace. Where several have a default for the same resource, the API server takes any; here it is the first.
	LimitRanges []*corev1.LimitRange
	// OverheadOf returns what a RuntimeClass takes for each pod beside its containers. It is nil if the class takes nothing or does not
	// exist.
	OverheadOf func(runtimeClass string) corev1.ResourceList
}

// addTo changes the requests and limits in the spec of a pod as the API server's admission will do. Defaults of the API must have been
// filled in, such as requests for given limits.
func (a *Additions) addTo(spec *corev1.PodSpec) {
	for _, limitRange := range a.LimitRanges {
		for i := range limitRange.Spec.Limits {
			item := &limitRange.Spec.Limits[i]
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				for n := range containers {
					needs := &containers[n].Resources
					needs.Requests = withDefaults(needs.Requests, item.DefaultRequest)
					needs.Limits = withDefaults(needs.Limits, item.Default)
				}
			}
		}
	}
	if spec.RuntimeClassName == nil || a.OverheadOf == nil {
		return
	}
	if overhead := a.OverheadOf(*spec.RuntimeClassName); overhead != nil {
		spec.Overhead = overhead
	}
}

// withDefaults adds the missing defaults to the list.
func withDefaults(list, byDefault corev1.ResourceList) corev1.ResourceList {
	for name, amount := range byDefault {
		if _, found := list[name]; found {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount
	}
	return list
}

// Requests returns what all pods of a Job request together, with the API server's defaults.
func Requests(spec *batchv1alpha1.JobSpec) resources.List {
	sum := resources.List{}
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		pod := &corev1.Pod{Spec: *task.Template.Spec.DeepCopy()}
		corev1defaults.SetObjectDefaults_Pod(pod)
		sum.Add(resources.PodRequests(pod).Scale(int64(task.Replicas)))
	}
	return sum
}
