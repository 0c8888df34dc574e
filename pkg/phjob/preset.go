package phjob

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// nvidiaGPU is the resource that limits.gpu counts, unless the instance type names another.
const nvidiaGPU = corev1.ResourceName("nvidia.com/gpu")

// IsOffered tells whether an Image or InstanceType is for the users of a group.
func IsOffered(object metav1.Object, group string) bool {
	list, limited := object.GetAnnotations()[primehubv1alpha1.GroupsAnnotation]
	if !limited {
		return true
	}
	groups := listed(list)
	return slices.Contains(groups, group) || slices.Contains(groups, primehubv1alpha1.EveryoneGroup)
}

// IsImageOffered is IsOffered for Images, which may belong to one group, too.
func IsImageOffered(image *primehubv1alpha1.Image, group string) bool {
	only := image.Spec.GroupName
	return (only == "" || only == primehubv1alpha1.EveryoneGroup || only == group) && IsOffered(image, group)
}

// URLOf returns the container image of an Image, for jobs with or without GPUs.
func URLOf(image *primehubv1alpha1.Image, withGPU bool) (string, error) {
	url := image.Spec.URL
	if withGPU && image.Spec.URLForGPU != "" {
		url = image.Spec.URLForGPU
	}
	if url == "" {
		return "", fmt.Errorf("spec.url of Image %s is empty: set it, or wait until the image is built", image.Name)
	}
	return url, nil
}

// Limits is what a job of an instance type may use, and what its group and user are charged. It has CPUs, memory, and GPUs if it has any.
func Limits(instanceType *primehubv1alpha1.InstanceType) (corev1.ResourceList, error) {
	spec, limits := &instanceType.Spec, corev1.ResourceList{}
	wrong := func(field, problem string) error {
		return fmt.Errorf("InstanceType %s: spec.%s %s", instanceType.Name, field, problem)
	}
	milli := math.Ceil(spec.LimitsCPU * 1000)
	if !(milli > 0 && milli <= 1e12) {
		return nil, wrong("limits.cpu", fmt.Sprintf("is %g: it must be greater than 0, such as 0.5", spec.LimitsCPU))
	}
	limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(milli), resource.DecimalSI)
	memory, err := memoryOf(spec.LimitsMemory)
	if err != nil {
		return nil, wrong("limits.memory", err.Error())
	}
	limits[corev1.ResourceMemory] = memory
	name, count := nvidiaGPU, spec.LimitsNvidiaGPU
	if spec.LimitsGPU != nil {
		count = spec.LimitsGPU
		if spec.GPUResourceName != "" {
			name = corev1.ResourceName(spec.GPUResourceName)
		}
	}
	if count == nil || *count == 0 {
		return limits, nil
	}
	if *count < 0 {
		return nil, wrong("limits.gpu", fmt.Sprintf("is %d: it must not be negative", *count))
	}
	if len(validation.IsQualifiedName(string(name))) > 0 || !strings.Contains(string(name), "/") {
		return nil, wrong("gpuResourceName", fmt.Sprintf("is %q: name a resource such as nvidia.com/gpu", name))
	}
	limits[name] = *resource.NewQuantity(int64(*count), resource.DecimalSI)
	return limits, nil
}

// Forms of amounts of memory: any, and one with a unit of one letter.
var (
	memoryForm = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,9})?([KMGTPE]i?)?$`)
	shortUnit  = regexp.MustCompile(`[KMGTPE]$`)
)

// memoryOf reads an amount of memory. As in PrimeHub a unit of one letter is that of two: 4G is 4Gi.
func memoryOf(text string) (resource.Quantity, error) {
	if !memoryForm.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("is %q: write an amount such as 4G", text)
	}
	if shortUnit.MatchString(text) {
		text += "i"
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil || amount.Sign() <= 0 || amount.CmpInt64(math.MaxInt64) >= 0 {
		return amount, fmt.Errorf("is %q: it must be greater than 0, and less than 8E", text)
	}
	return amount, nil
}

// hasGPU tells whether limits name anything beside CPUs and memory.
func hasGPU(limits corev1.ResourceList) bool { return len(limits) > 2 }
