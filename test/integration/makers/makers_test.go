package makers_test

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// maker is a program that makes pods, as its users know it. Each pod asks for one unit of one resource.
type maker struct {
	name string
	// stages are the pods that it makes, in order. It makes those of a stage when all earlier ones are bound.
	stages []stage
	// together is how many pods must have room before one may run. With 1 each pod is for itself.
	together int
	// group is what it writes into a PodGroup of its own. Without one Muster makes PodGroups for its pods.
	group *groupShape
	// resource that its pods ask for; cpu if empty.
	resource corev1.ResourceName
	// finite: its pods end by themselves.
	finite bool
	// batchJob: all its pods are those of one batch/v1 Job.
	batchJob bool
	// rollout changes the pod template of its owner, whose controller then replaces all pods.
	rollout func(ctx context.Context, i *instance) error
	// mixes: its pods may name several queues.
	mixes bool
}

// stage is a number of pods that are made at once.
type stage struct {
	pods int
	make func(ctx context.Context, i *instance, pods int) error
}

// groupShape is what a maker writes into its PodGroup.
type groupShape struct {
	minMember     int32
	minTaskMember map[string]int32
	// units of its resource that minResources asks for; 0 for no minResources.
	units int
	// first: it makes no pod before the PodGroup is admitted.
	first bool
}

// pods is how many pods a maker makes.
func (m maker) pods() int {
	sum := 0
	for _, s := range m.stages {
		sum += s.pods
	}
	return sum
}

// fits is how many pods of a maker run in a queue with a capability, at rest.
func (m maker) fits(capability int) int {
	if capability < m.together {
		return 0
	}
	return min(capability, m.pods())
}

func (m maker) resourceName() corev1.ResourceName {
	if m.resource == "" {
		return corev1.ResourceCPU
	}
	return m.resource
}

// operators write PodGroups of their own.
var operators = []maker{
	// The driver makes the executors. Their room is asked for from the start.
	{name: "spark", together: 3, finite: true, group: &groupShape{minMember: 1, units: 3}, stages: []stage{
		{1, bare("driver", customOwner)}, {2, bare("exec", driverOwner)},
	}},
	{name: "raycluster", together: 3, group: &groupShape{minMember: 3, units: 3}, stages: []stage{
		{3, both(bare("worker", customOwner), bare("headgroup", customOwner))},
	}},
	// The submitter comes when the cluster runs. It is not in minMember, and minResources has its room.
	{name: "rayjob", together: 4, group: &groupShape{minMember: 3, units: 4}, stages: []stage{
		{3, bare("node", customOwner)}, {1, makeJob("submitter", batchv1.NonIndexedCompletion)},
	}},
	{name: "kubeflow-training", together: 3, finite: true, group: &groupShape{minMember: 3, units: 3, first: true}, stages: []stage{{3, bare("worker", customOwner)}}},
	{name: "kubeflow-trainer", together: 3, finite: true, batchJob: true, group: &groupShape{minMember: 3, units: 3}, stages: []stage{
		{3, makeJob("node", batchv1.IndexedCompletion)},
	}},
	{name: "mpi", together: 3, finite: true, group: &groupShape{minMember: 3, units: 3}, stages: []stage{
		{3, both(bare("worker", customOwner), makeJob("launcher", batchv1.NonIndexedCompletion))},
	}},
	{name: "paddle", together: 3, finite: true, group: &groupShape{minMember: 3, minTaskMember: map[string]int32{"trainer": 3}}, stages: []stage{
		{3, bare("trainer", customOwner)},
	}},
	{name: "ascend", together: 3, finite: true, resource: ascend, group: &groupShape{minMember: 3, units: 3}, stages: []stage{{3, bare("worker", customOwner)}}},
}

// owner makes the controller of a pod of an instance; nil for a bare pod.
type owner func(ctx context.Context, i *instance) (*metav1.OwnerReference, error)

func noOwner(context.Context, *instance) (*metav1.OwnerReference, error) { return nil, nil }

// customOwner stands for an object of a kind that Muster does not know.
func customOwner(ctx context.Context, i *instance) (*metav1.OwnerReference, error) {
	name := i.name + "-owner"
	maps := env.Kube.CoreV1().ConfigMaps(i.c.name)
	object, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		object, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("making an owner: %w", err)
	}
	return metav1.NewControllerRef(object, corev1.SchemeGroupVersion.WithKind("ConfigMap")), nil
}

func driverOwner(ctx context.Context, i *instance) (*metav1.OwnerReference, error) {
	driver, err := env.Kube.CoreV1().Pods(i.c.name).Get(ctx, i.name+"-driver-0", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the driver: %w", err)
	}
	return metav1.NewControllerRef(driver, corev1.SchemeGroupVersion.WithKind("Pod")), nil
}

type makes = func(ctx context.Context, i *instance, pods int) error

// bare makes pods as operators do: one by one.
func bare(role string, by owner) makes {
	return func(ctx context.Context, i *instance, pods int) error {
		ref, err := by(ctx, i)
		if err != nil {
			return err
		}
		for k := range pods {
			pod := i.pod(fmt.Sprintf("%s-%s-%d", i.name, role, k), role)
			if i.mixed && k > 0 {
				pod.Labels[queueLabel], pod.Annotations[schedulingv1beta1.QueueNameAnnotation] = i.queue+otherQueue, i.queue+otherQueue
			}
			if ref != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*ref}
			}
			if err := i.create(ctx, pod); err != nil {
				return err
			}
		}
		return nil
	}
}

// both makes all pods but one in the first way, and one in the second.
func both(first, second makes) makes {
	return func(ctx context.Context, i *instance, pods int) error {
		if err := first(ctx, i, pods-1); err != nil {
			return err
		}
		return second(ctx, i, 1)
	}
}

// pod is a pod of an instance. It names its PodGroup, or its queue if the maker writes no PodGroups.
func (i *instance) pod(name, role string) *corev1.Pod {
	m := i.maker
	made := mustertesting.MakePod(name).Namespace(i.c.name).Requests(string(m.resourceName()), "1").
		Label(queueLabel, i.queue).Label(instanceLabel, i.name).SchedulerName("muster")
	if m.group != nil {
		made = made.Group(i.groupName()).Annotation(batchv1alpha1.TaskSpecKey, role).SchedulerName("volcano")
	} else {
		made = made.QueueName(i.queue)
	}
	pod := made.Obj()
	if m.resource != "" { // extended resources have limits
		pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
	}
	return pod
}

// template is the same pod for a controller of Kubernetes.
func (i *instance) template(role string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	pod := i.pod("", role)
	pod.Spec.RestartPolicy = policy
	pod.Labels["app"] = i.name + "-" + role
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}

// metaOf is what the owner of pods has: the annotation with the minimum, where Muster makes the PodGroup.
func (i *instance) metaOf(role string) (metav1.ObjectMeta, *metav1.LabelSelector) {
	meta := metav1.ObjectMeta{Name: i.name + "-" + role}
	if m := i.maker; m.group == nil && m.together > 1 {
		meta.Annotations = map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: fmt.Sprint(m.together)}
	}
	return meta, &metav1.LabelSelector{MatchLabels: map[string]string{"app": i.name + "-" + role}}
}

func makeJob(role string, mode batchv1.CompletionMode) makes {
	return func(ctx context.Context, i *instance, pods int) error {
		meta, _ := i.metaOf(role)
		_, err := env.Kube.BatchV1().Jobs(i.c.name).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(pods)), Completions: ptr.To(int32(pods)), CompletionMode: &mode,
			Template: i.template(role, corev1.RestartPolicyNever),
		}}, metav1.CreateOptions{})
		return err
	}
}
