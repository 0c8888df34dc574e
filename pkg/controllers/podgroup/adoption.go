package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-sched/muster/pkg/gang"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// recheckEmpty is the pause before a PodGroup without pods whose owner wants some is looked at again.
const recheckEmpty = 30 * time.Second

// recheckInvalid is the pause before a PodGroup is tried again that the API server has refused as invalid. A change of the pod causes a try
// at once; changes of the pod's owner are not watched.
const recheckInvalid = 5 * time.Minute

// recheckForbidden is the pause before a PodGroup is tried again that a quota, a policy or a missing right forbids.
const recheckForbidden = 30 * time.Second

// recheckAfter is the pause before a PodGroup is tried again that the API server has refused.
func recheckAfter(err error) time.Duration {
	if apierrors.IsForbidden(err) {
		return recheckForbidden
	}
	return recheckInvalid
}

// Reasons of the events on pods.
const (
	invalidGroupEvent    = "InvalidPodGroup" // the pod's PodGroup is refused
	invalidTopologyEvent = "InvalidTopology" // annotations about topology say nothing
)

// adoption gives a PodGroup to pods that name one of the served schedulers and belong to none. These are bare pods, and pods of ReplicaSets,
// StatefulSets, batch/v1 Jobs and the like. The PodGroup goes with its owner, or when its owner is scaled to nothing. An operator may have
// made the PodGroup for the pods of a batch/v1 Job. It stays, but keeps no quota while the Job is suspended.
type adoption struct {
	kube      kubernetes.Interface
	muster    versioned.Interface
	pods      corev1listers.PodLister
	groups    schedulingv1beta1listers.PodGroupLister
	usage     *usage.Tracker
	recorder  record.EventRecorder
	schedules sets.Set[string]
	adopters  *worker.Worker // keyed by pod
	retirers  *worker.Worker // keyed by PodGroup

	jobs      sync.Map // PodGroup that an operator made -> the batch/v1 Job of the last pod that has gone
	suspended func(group *schedulingv1beta1.PodGroup)
}

func newAdoption(cfg Config) *adoption {
	a := &adoption{
		kube:      cfg.KubeClient,
		muster:    cfg.MusterClient,
		pods:      cfg.KubeInformers.Core().V1().Pods().Lister(),
		groups:    cfg.MusterInformers.Scheduling().V1beta1().PodGroups().Lister(),
		usage:     cfg.Usage,
		recorder:  cfg.Recorder,
		schedules: sets.New(cfg.AdoptFrom...),
	}
	a.suspended = func(*schedulingv1beta1.PodGroup) {}
	a.adopters = worker.New("podgroup-adoption", a)
	a.retirers = worker.New("podgroup-retirement", retirement{a})
	return a
}

// podHandler enqueues pods that need a PodGroup, and PodGroups that may have lost their last pod.
func (a *adoption) podHandler() cache.ResourceEventHandler {
	observe := func(pod *corev1.Pod) {
		if needsGroup(pod, a.schedules.Has) {
			a.adopters.Enqueue(pod.Namespace + "/" + pod.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { observe(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) {
			if pod := obj.(*corev1.Pod); admission.PodGroupOf(pod) == "" {
				observe(pod)
			}
		},
		DeleteFunc: func(obj any) {
			pod, ok := worker.LastKnown[*corev1.Pod](obj)
			if !ok {
				return
			}
			a.lost(pod)
		},
	}
}

// lost has the PodGroup of a pod looked at that has gone.
func (a *adoption) lost(pod *corev1.Pod) {
	group := admission.PodGroupOf(pod)
	owner := metav1.GetControllerOf(pod)
	switch {
	case group == "":
	case strings.HasPrefix(pod.Annotations[schedulingv1beta1.GroupNameAnnotation], adoptedPrefix):
		a.retirers.Enqueue(group)
	case owner != nil && kindOf(owner) == jobKind:
		a.jobs.Store(group, owner)
		a.retirers.Enqueue(group)
	}
}

// groupHandler enqueues PodGroups that no pod needs, and pods whose PodGroup was deleted.
func (a *adoption) groupHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if group := obj.(*schedulingv1beta1.PodGroup); scaledOwner(group) != nil {
				a.retirers.EnqueueAfter(group.Namespace+"/"+group.Name, recheckEmpty)
			}
		},
		DeleteFunc: func(obj any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			namespace, name, _ := strings.Cut(key, "/")
			if err != nil || !strings.HasPrefix(name, adoptedPrefix) {
				return
			}
			for _, pod := range a.usage.Members(namespace, name) {
				a.adopters.Enqueue(pod.Namespace + "/" + pod.Name)
			}
		},
	}
}

// Sync gives one pod its PodGroup.
func (a *adoption) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key: %w", err)
	}
	pod, err := a.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("getting the pod: %w", err)
	}
	if !needsGroup(pod, a.schedules.Has) {
		return 0, nil
	}
	group, err := a.ensureGroup(ctx, pod)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		a.recorder.Eventf(pod, corev1.EventTypeWarning, invalidGroupEvent, "the API server refuses the pod's PodGroup, so the pod cannot start: %v", err)
		return recheckAfter(err), nil
	}
	if err != nil || group == "" {
		return 0, err
	}
	return 0, a.annotate(ctx, pod, group)
}

// ensureGroup makes the PodGroup of a pod if it is missing, and returns its name. It is "" if the pod names a PodGroup that is not of ours. A
// pod of a Job belongs to the Job's PodGroup, which the job controller makes. The pod gets back the annotation if a user has removed it.
func (a *adoption) ensureGroup(ctx context.Context, pod *corev1.Pod) (string, error) {
	if group, isOfJob := groupOfJob(pod); isOfJob {
		return group, nil
	}
	named := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	if named != "" && a.known(pod.Namespace, named) != nil {
		return named, nil
	}
	h, err := a.homeOf(ctx, pod)
	if err != nil {
		return "", err
	}
	if named != "" {
		return a.ensureNamed(ctx, pod, h, named)
	}
	group, err := a.ensure(ctx, pod, h)
	if err != nil || sharingOwner(pod) == nil || admission.AccountOf(group) == accountFor(pod) {
		return h.name, err
	}
	h = h.ofAccount(accountFor(pod))
	_, err = a.ensure(ctx, pod, h)
	return h.name, err
}

// ensureNamed makes a PodGroup anew that a pod names. It may have been made when more pods shared one, or when the owner had no minimum.
func (a *adoption) ensureNamed(ctx context.Context, pod *corev1.Pod, h home, named string) (string, error) {
	suffix, owner := strings.TrimPrefix(named, adoptedPrefix), metav1.GetControllerOf(pod)
	switch {
	case suffix == string(pod.UID):
		h = ownHome(pod)
	case owner != nil && isOf(suffix, owner):
		h.owners = pod.OwnerReferences
	case h.deployment != nil && isOf(suffix, h.deployment):
		h.owners = []metav1.OwnerReference{*h.deployment}
	default:
		return "", nil
	}
	h.name = named
	_, err := a.ensure(ctx, pod, h)
	return named, err
}

// homeOf is where a pod belongs. The controller of a pod that names no PodGroup is asked unless its PodGroup is known.
func (a *adoption) homeOf(ctx context.Context, pod *corev1.Pod) (home, error) {
	ref := sharingOwner(pod)
	if ref == nil {
		return ownHome(pod), nil
	}
	h, named := sharedHome(pod.OwnerReferences, ref, nil), pod.Annotations[schedulingv1beta1.GroupNameAnnotation] != ""
	if group := a.known(pod.Namespace, h.name); !named && group != nil && admission.AccountOf(group) == accountFor(pod) {
		return h, nil
	}
	facts, err := a.owner(ctx, pod.Namespace, ref)
	return sharedHome(pod.OwnerReferences, ref, facts), err
}

// known is a PodGroup as the informer has it, nil if it has none.
func (a *adoption) known(namespace, name string) *schedulingv1beta1.PodGroup {
	group, err := a.groups.PodGroups(namespace).Get(name)
	if err != nil {
		return nil // it is not there: the informer's store has no other errors
	}
	return group
}

// ensure returns the PodGroup of a home. It is made for the pod if it is missing.
func (a *adoption) ensure(ctx context.Context, pod *corev1.Pod, h home) (*schedulingv1beta1.PodGroup, error) {
	if group := a.known(pod.Namespace, h.name); group != nil {
		return group, nil
	}
	client := a.muster.SchedulingV1beta1().PodGroups(pod.Namespace)
	group, err := client.Create(ctx, adoptedGroup(pod, h), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if group, err = client.Get(ctx, h.name, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("getting PodGroup %s/%s: %w", pod.Namespace, h.name, err)
		}
		return group, nil
	}
	if err != nil {
		return nil, fmt.Errorf("creating PodGroup %s/%s: %w", pod.Namespace, h.name, err)
	}
	_, problems := schedulingv1beta1.TopologyOf(pod.Annotations)
	for _, problem := range problems {
		a.recorder.Event(pod, corev1.EventTypeWarning, invalidTopologyEvent, problem)
	}
	klog.FromContext(ctx).V(2).Info("Created a PodGroup for a pod without one", "pod", klog.KObj(pod), "podGroup", klog.KObj(group))
	return group, nil
}

// annotate ties the pod to its PodGroup. The UID in the patch protects a later pod of the same name.
func (a *adoption) annotate(ctx context.Context, pod *corev1.Pod, group string) error {
	if pod.Annotations[schedulingv1beta1.GroupNameAnnotation] != "" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"annotations": map[string]string{schedulingv1beta1.GroupNameAnnotation: group},
	}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = a.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotating the pod: %w", err)
	}
	return nil
}

// retirement deletes adopted PodGroups whose owner was scaled to nothing. Other PodGroups give their quota back if their Job is suspended.
type retirement struct{ *adoption }

// Sync looks at one PodGroup.
func (r retirement) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key: %w", err)
	}
	group, err := r.groups.PodGroups(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("getting the PodGroup: %w", err)
	}
	ref := scaledOwner(group)
	job, isOfJob := r.jobs.LoadAndDelete(key)
	if isOfJob {
		ref = job.(*metav1.OwnerReference)
	}
	if ref == nil || slices.ContainsFunc(r.usage.Members(namespace, name), func(pod *corev1.Pod) bool { return !gang.IsFinished(pod) }) {
		return 0, nil
	}
	owner, err := r.owner(ctx, namespace, ref)
	if err != nil {
		if isOfJob {
			r.jobs.Store(key, ref)
		}
		return 0, err
	}
	if isOfJob {
		if owner != nil && ptr.Deref(owner.replicas, 1) == 0 {
			r.suspended(group)
		}
		return 0, nil
	}
	switch {
	case owner == nil:
	case owner.replicas == nil:
		return 0, nil // a Job that has finished
	case *owner.replicas > 0:
		return recheckEmpty, nil
	}
	// A pod that appears meanwhile gets the PodGroup anew: the deletion of a PodGroup enqueues it.
	err = r.muster.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(group.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("deleting a PodGroup without pods: %w", err)
	}
	return 0, nil
}

// owner looks a controller up; nil if it is gone, or of a kind that is not known here.
func (a *adoption) owner(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*ownerFacts, error) {
	facts, err := a.get(ctx, namespace, ref)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting %s %s: %w", ref.Kind, ref.Name, err)
	}
	if facts != nil && facts.uid != ref.UID {
		return nil, nil
	}
	return facts, nil
}

func (a *adoption) get(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*ownerFacts, error) {
	options := metav1.GetOptions{}
	switch kindOf(ref) {
	case replicaSetKind:
		owner, err := a.kube.AppsV1().ReplicaSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{owner.UID, owner.Annotations, owner.Spec.Replicas, metav1.GetControllerOf(owner)}, err
	case deploymentKind:
		owner, err := a.kube.AppsV1().Deployments(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations, replicas: owner.Spec.Replicas}, err
	case statefulSetKind:
		owner, err := a.kube.AppsV1().StatefulSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations, replicas: owner.Spec.Replicas}, err
	case replicationControllerKind:
		owner, err := a.kube.CoreV1().ReplicationControllers(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations, replicas: owner.Spec.Replicas}, err
	case daemonSetKind:
		owner, err := a.kube.AppsV1().DaemonSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations}, err
	case jobKind:
		owner, err := a.kube.BatchV1().Jobs(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations, replicas: wantedPods(owner)}, err
	}
	return nil, nil
}

// run works until the context ends.
func (a *adoption) run(ctx context.Context, workers int) {
	var loops sync.WaitGroup
	loops.Go(func() { a.retirers.Run(ctx, 1) })
	loops.Go(func() { a.adopters.Run(ctx, workers) })
	loops.Wait()
}
