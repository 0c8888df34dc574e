package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

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

// invalidGroupEvent is the reason of the event on a pod whose PodGroup is refused.
const invalidGroupEvent = "InvalidPodGroup"

// adoption gives a PodGroup to pods that name one of the served schedulers and belong to none: bare pods, and pods of ReplicaSets,
// StatefulSets, batch/v1 Jobs and the like. The PodGroup goes with its owner, or when its owner is scaled to nothing.
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
	a.adopters = worker.New("podgroup-adoption", a)
	a.retirers = worker.New("podgroup-retirement", retirement{a})
	return a
}

// podHandler notices pods that need a PodGroup, and PodGroups that may have lost their last pod.
func (a *adoption) podHandler() cache.ResourceEventHandler {
	notice := func(pod *corev1.Pod) {
		if needsGroup(pod, a.schedules.Has) {
			a.adopters.Enqueue(pod.Namespace + "/" + pod.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { notice(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) {
			if pod := obj.(*corev1.Pod); usage.GroupOf(pod) == "" {
				notice(pod)
			}
		},
		DeleteFunc: func(obj any) {
			pod, ok := worker.LastKnown[*corev1.Pod](obj)
			if !ok {
				return
			}
			if group := usage.GroupOf(pod); group != "" && strings.HasPrefix(pod.Annotations[schedulingv1beta1.GroupNameAnnotation], adoptedPrefix) {
				a.retirers.Enqueue(group)
			}
		},
	}
}

// groupHandler notices PodGroups that no pod needs, and pods whose PodGroup was deleted.
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
	err = a.ensureGroup(ctx, pod)
	if apierrors.IsInvalid(err) {
		a.recorder.Eventf(pod, corev1.EventTypeWarning, invalidGroupEvent, "no PodGroup can be made from the annotations of the pod and its owner: %v", err)
		return recheckInvalid, nil
	}
	if err != nil {
		return 0, err
	}
	return 0, a.annotate(ctx, pod)
}

func (a *adoption) ensureGroup(ctx context.Context, pod *corev1.Pod) error {
	if _, err := a.groups.PodGroups(pod.Namespace).Get(adoptedName(pod)); !apierrors.IsNotFound(err) {
		return err
	}
	var annotations map[string]string
	if ref := metav1.GetControllerOf(pod); ref != nil {
		owner, err := a.owner(ctx, pod.Namespace, ref)
		if err != nil {
			return err
		}
		if owner != nil {
			annotations = owner.annotations
		}
	}
	group := adoptedGroup(pod, annotations)
	_, err := a.muster.SchedulingV1beta1().PodGroups(pod.Namespace).Create(ctx, group, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating PodGroup %s: %w", klog.KObj(group), err)
	}
	klog.FromContext(ctx).V(2).Info("Created a PodGroup for a pod without one", "pod", klog.KObj(pod), "podGroup", klog.KObj(group))
	return nil
}

// annotate ties the pod to its PodGroup. The UID in the patch protects a later pod of the same name.
func (a *adoption) annotate(ctx context.Context, pod *corev1.Pod) error {
	if pod.Annotations[schedulingv1beta1.GroupNameAnnotation] != "" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"annotations": map[string]string{schedulingv1beta1.GroupNameAnnotation: adoptedName(pod)},
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

// retirement deletes adopted PodGroups whose owner was scaled to nothing.
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
	if ref == nil || len(r.usage.Members(namespace, name)) > 0 {
		return 0, nil
	}
	owner, err := r.owner(ctx, namespace, ref)
	if err != nil {
		return 0, err
	}
	if owner != nil && (owner.replicas == nil || *owner.replicas > 0) {
		return recheckEmpty, nil
	}
	// A pod that appears meanwhile gets the PodGroup anew: the deletion of a PodGroup is noticed.
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
	switch ref.APIVersion + " " + ref.Kind {
	case "apps/v1 ReplicaSet":
		owner, err := a.kube.AppsV1().ReplicaSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{owner.UID, owner.Annotations, owner.Spec.Replicas}, err
	case "apps/v1 StatefulSet":
		owner, err := a.kube.AppsV1().StatefulSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{owner.UID, owner.Annotations, owner.Spec.Replicas}, err
	case "v1 ReplicationController":
		owner, err := a.kube.CoreV1().ReplicationControllers(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{owner.UID, owner.Annotations, owner.Spec.Replicas}, err
	case "apps/v1 DaemonSet":
		owner, err := a.kube.AppsV1().DaemonSets(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations}, err
	case "batch/v1 Job":
		owner, err := a.kube.BatchV1().Jobs(namespace).Get(ctx, ref.Name, options)
		return &ownerFacts{uid: owner.UID, annotations: owner.Annotations}, err
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
