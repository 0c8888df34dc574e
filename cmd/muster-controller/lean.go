package main

import (
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	phjobphase "github.com/muster-sched/muster/pkg/phjob/phase"
)

// leaner drops fields that the controllers do not read before an informer stores an object. They are often half of it.
//
// Some objects out of informers are written back. Only the status of Jobs is: the API server ignores the rest of that request. PodGroups
// are written back whole, and of these only managedFields are left out. The API server keeps its own where a request has none. Pods are
// never written back.
type leaner struct{ amounts sharedAmounts }

// lean is a cache.TransformFunc.
func (l *leaner) lean(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
		object.SetLabels(shared(object.GetLabels()))
		object.SetAnnotations(shared(object.GetAnnotations()))
		owners := object.GetOwnerReferences()
		for i := range owners {
			share(&owners[i].APIVersion, &owners[i].Kind, &owners[i].Name)
		}
		object.SetOwnerReferences(owners)
	}
	switch object := obj.(type) {
	case *corev1.Pod:
		l.leanPod(object)
	case *batchv1alpha1.Job:
		leanJob(object)
	case *primehubv1alpha1.PhJob:
		leanPhJob(object)
	}
	return obj, nil
}

// leanJob leaves out what the pods of a Job that has ended were made by: none is ever made again.
func leanJob(job *batchv1alpha1.Job) {
	if !phase.Ended(job.Status.State.Phase) {
		return
	}
	for i := range job.Spec.Tasks {
		job.Spec.Tasks[i].Template = corev1.PodTemplateSpec{}
	}
}

// leanPhJob drops from an ended PhJob the input of its pod and the messages of its status. It is never written back.
func leanPhJob(job *primehubv1alpha1.PhJob) {
	spec := &job.Spec
	share(&job.Namespace, &spec.UserID, &spec.UserName, &spec.GroupID, &spec.GroupName, &spec.InstanceType, &spec.Image)
	if !phjobphase.IsFinal(job.Status.Phase) {
		return
	}
	job.Annotations = nil
	spec.Command, spec.DisplayName, job.Status.Message = "", "", ""
}

// leanPod keeps of a pod its owner, its requests, its queue and its state.
func (l *leaner) leanPod(pod *corev1.Pod) {
	spec := &pod.Spec
	spec.Volumes, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil, nil
	spec.Affinity, spec.NodeSelector, spec.SecurityContext = nil, nil, nil
	spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.ReadinessGates = nil, nil, nil, nil
	spec.Hostname, spec.Subdomain, spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", "", "", ""
	share(&pod.Namespace, &spec.NodeName, &spec.SchedulerName, &spec.PriorityClassName)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			share(&c.Name)
			kept := corev1.ResourceRequirements{Requests: l.amounts.shared(c.Resources.Requests), Limits: l.amounts.shared(c.Resources.Limits)}
			containers[i] = corev1.Container{Name: c.Name, Resources: kept, RestartPolicy: c.RestartPolicy}
		}
	}
	leanStatus(&pod.Status)
}

// leanStatus leaves of a status what phases, policies and dependencies are about.
func leanStatus(status *corev1.PodStatus) {
	status.PodIPs, status.HostIPs = nil, nil
	var read []corev1.PodCondition
	for _, c := range status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			read = append(read, c)
		}
	}
	status.Conditions = slices.Clip(read)
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range containers {
			c := &containers[i]
			share(&c.Name)
			c.Image, c.ImageID, c.ContainerID = "", "", ""
			c.AllocatedResources, c.Resources, c.VolumeMounts = nil, nil, nil
		}
	}
}

// shared returns labels or annotations whose keys and values are in memory once. Pods of a Job have most of them in common.
func shared(own map[string]string) map[string]string {
	if len(own) == 0 {
		return nil
	}
	m := make(map[string]string, len(own))
	for key, value := range own {
		if len(value) <= longestShared {
			value = unique.Make(value).Value()
		}
		m[unique.Make(key).Value()] = value
	}
	return m
}

// share has strings in memory once that many objects have in common.
func share(common ...*string) {
	for _, text := range common {
		*text = unique.Make(*text).Value()
	}
}

// sharedAmounts has what containers ask for in memory once: the pods of a Job ask for the same. The lists that it returns must not be
// changed. The zero value is ready; it is safe for concurrent use.
type sharedAmounts struct {
	mu     sync.Mutex
	byText map[string]corev1.ResourceList
}

// mostShared is how many different amounts are remembered. When there are more, it begins anew. Lists that were given out stay as they are,
// and frequent amounts are soon shared again.
const mostShared = 4096

func (s *sharedAmounts) shared(own corev1.ResourceList) corev1.ResourceList {
	if len(own) == 0 {
		return nil
	}
	text := textOf(own)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.byText[text]; ok {
		return known
	}
	if s.byText == nil || len(s.byText) >= mostShared {
		s.byText = map[string]corev1.ResourceList{}
	}
	s.byText[text] = own
	return own
}

// textOf is the same for the same amounts alone.
func textOf(list corev1.ResourceList) string {
	names := make([]string, 0, 4)
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		amount := list[corev1.ResourceName(name)]
		text.WriteString(name + "=" + amount.String() + ";")
	}
	return text.String()
}

// longestShared is the length in bytes up to which values are thought to be common to several objects.
const longestShared = 64
