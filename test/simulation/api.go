// Package simulation runs the real scheduler against an API server in memory, in virtual time. In a bubble of testing/synctest, time stands
// still until all goroutines wait for it.
package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
)

// The resources that have watches here.
var (
	Pods      = corev1.SchemeGroupVersion.WithResource("pods")
	Nodes     = corev1.SchemeGroupVersion.WithResource("nodes")
	PodGroups = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	Queues    = schedulingv1beta1.SchemeGroupVersion.WithResource("queues")

	// AllResources are the resources whose events may be held back.
	AllResources = []schema.GroupVersionResource{Pods, PodGroups, Nodes, Queues}
)

// API is an API server in memory: objects with resource versions, and watches. Events can be held back per resource, as watches of a real
// server lag behind each other.
type API struct {
	clienttesting.ObjectTracker // keeps the objects

	mu      sync.Mutex
	version int
	logs    map[schema.GroupVersionResource]*eventLog
}

// eventLog has all changes of a resource, in order.
type eventLog struct {
	all   []change
	shown int           // how many of them watchers may see
	held  bool          // new ones are not shown
	more  chan struct{} // closed when more are shown
	seen  map[types.NamespacedName]runtime.Object
}

type change struct {
	version int
	event   watch.Event
}

// New makes an API server without objects.
func New() *API {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(musterscheme.AddToScheme(scheme))
	return &API{
		ObjectTracker: clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder()),
		logs:          map[schema.GroupVersionResource]*eventLog{},
	}
}

func (a *API) of(gvr schema.GroupVersionResource) *eventLog {
	n := a.logs[gvr]
	if n == nil {
		n = &eventLog{more: make(chan struct{}), seen: map[types.NamespacedName]runtime.Object{}}
		a.logs[gvr] = n
	}
	return n
}

// Create stores a new object.
func (a *API) Create(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.CreateOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stamp(obj)
	if err := a.ObjectTracker.Create(gvr, obj, ns, opts...); err != nil {
		return err
	}
	a.tell(gvr, watch.Added, obj)
	return nil
}

// Update stores a new state of an object.
func (a *API) Update(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.UpdateOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stamp(obj)
	if err := a.ObjectTracker.Update(gvr, obj, ns, opts...); err != nil {
		return err
	}
	a.tell(gvr, watch.Modified, obj)
	return nil
}

// Patch stores a new state of an object, to which the client library has applied the patch.
func (a *API) Patch(gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.PatchOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stamp(obj)
	if err := a.ObjectTracker.Patch(gvr, obj, ns, opts...); err != nil {
		return err
	}
	a.tell(gvr, watch.Modified, obj)
	return nil
}

// patchConditions writes the conditions of a patch into a pod. It says whether the patch has nothing else. Most writes of a scheduler are such
// patches, and the client library takes ten times as long.
func (a *API) patchConditions(action clienttesting.PatchAction) (patched runtime.Object, handled bool, err error) {
	var patch struct {
		Metadata struct{ UID, ResourceVersion string }
		Status   struct{ Conditions []corev1.PodCondition }
	}
	decoder := json.NewDecoder(bytes.NewReader(action.GetPatch()))
	decoder.DisallowUnknownFields()
	hasNothingElse := decoder.Decode(&patch) == nil
	if action.GetPatchType() != types.StrategicMergePatchType || !hasNothingElse {
		return nil, false, nil
	}
	obj, err := a.Get(Pods, action.GetNamespace(), action.GetName())
	if err != nil {
		return nil, true, err
	}
	pod := obj.(*corev1.Pod)
	if wanted := patch.Metadata; wanted.UID != "" && wanted.UID != string(pod.UID) || wanted.ResourceVersion != "" && wanted.ResourceVersion != pod.ResourceVersion {
		return nil, true, apierrors.NewConflict(Pods.GroupResource(), pod.Name, errors.New("the precondition is not met"))
	}
	for _, condition := range patch.Status.Conditions {
		at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
		if at < 0 {
			pod.Status.Conditions = append(pod.Status.Conditions, condition)
			continue
		}
		if condition.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = pod.Status.Conditions[at].LastTransitionTime
		}
		pod.Status.Conditions[at] = condition
	}
	return pod, true, a.Patch(Pods, pod, pod.Namespace)
}

// Delete removes an object. There are no finalizers and no grace: the history marks pods as terminating itself.
func (a *API) Delete(gvr schema.GroupVersionResource, ns, name string, opts ...metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, err := a.Get(gvr, ns, name)
	if err != nil {
		return err
	}
	if accessor, err := meta.Accessor(old); err == nil && len(opts) > 0 && opts[0].Preconditions != nil {
		if wanted := opts[0].Preconditions.UID; wanted != nil && *wanted != accessor.GetUID() {
			return apierrors.NewConflict(gvr.GroupResource(), name, errors.New("the precondition is not met"))
		}
	}
	if err := a.ObjectTracker.Delete(gvr, ns, name, opts...); err != nil {
		return err
	}
	old = old.DeepCopyObject()
	a.stamp(old)
	a.tell(gvr, watch.Deleted, old)
	return nil
}

// List returns what is stored now. Finished pods are left out: the scheduler's pod informer does not select them, and no other client lists
// pods.
func (a *API) List(gvr schema.GroupVersionResource, gvk schema.GroupVersionKind, ns string, opts ...metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, err := a.ObjectTracker.List(gvr, gvk, ns, opts...)
	if err != nil {
		return nil, err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		var live []corev1.Pod
		for i := range pods.Items {
			if !Finished(&pods.Items[i]) {
				live = append(live, pods.Items[i])
			}
		}
		pods.Items = live
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of a list: %w", err)
	}
	accessor.SetResourceVersion(strconv.Itoa(a.version))
	return list, nil
}

// Watch shows the changes since a version.
func (a *API) Watch(gvr schema.GroupVersionResource, _ string, opts ...metav1.ListOptions) (watch.Interface, error) {
	since := 0
	if len(opts) > 0 && opts[0].ResourceVersion != "" {
		var err error
		if since, err = strconv.Atoi(opts[0].ResourceVersion); err != nil {
			return nil, fmt.Errorf("reading the resource version: %w", err)
		}
	}
	w := &watcher{events: make(chan watch.Event), stop: make(chan struct{})}
	go w.run(a, gvr, since)
	return w, nil
}

// stamp gives an object the next resource version. The caller holds the lock.
func (a *API) stamp(obj runtime.Object) {
	accessor, err := meta.Accessor(obj)
	utilruntime.Must(err)
	a.version++
	accessor.SetResourceVersion(strconv.Itoa(a.version))
}

// tell notes a change and shows it unless the resource is held. The caller holds the lock.
func (a *API) tell(gvr schema.GroupVersionResource, kind watch.EventType, obj runtime.Object) {
	n := a.of(gvr)
	n.all = append(n.all, change{version: a.version, event: watch.Event{Type: kind, Object: obj.DeepCopyObject()}})
	if !n.held {
		n.show(len(n.all))
	}
}

// Hold keeps further events of a resource back.
func (a *API) Hold(gvr schema.GroupVersionResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(gvr).held = true
}

// Release shows all events of some resources at once.
func (a *API) Release(resources ...schema.GroupVersionResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gvr := range resources {
		n := a.of(gvr)
		n.held = false
		n.show(len(n.all))
	}
}

// ShowNext shows the oldest event of some resources, and returns false if there is none.
func (a *API) ShowNext(resources ...schema.GroupVersionResource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var oldest *eventLog
	for _, gvr := range resources {
		if n := a.of(gvr); n.shown < len(n.all) && (oldest == nil || n.all[n.shown].version < oldest.all[oldest.shown].version) {
			oldest = n
		}
	}
	if oldest == nil {
		return false
	}
	oldest.show(oldest.shown + 1)
	return true
}

// HeldBack returns the objects with events that no watcher has been shown.
func (a *API) HeldBack(resources ...schema.GroupVersionResource) (objects []runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gvr := range resources {
		n := a.of(gvr)
		for _, c := range n.all[n.shown:] {
			objects = append(objects, c.event.Object)
		}
	}
	return objects
}

// Forget drops the changes that watchers may see already, so that a long run does not keep all of them. At rest all have seen them.
func (a *API) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.logs {
		n.all, n.shown = slices.Clone(n.all[n.shown:]), 0
	}
}

// show lets watchers see events up to the nth, and keeps what they know then.
func (n *eventLog) show(upTo int) {
	for _, c := range n.all[n.shown:upTo] {
		accessor, err := meta.Accessor(c.event.Object)
		utilruntime.Must(err)
		key := types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
		if pod, ok := c.event.Object.(*corev1.Pod); c.event.Type == watch.Deleted || ok && Finished(pod) {
			delete(n.seen, key)
		} else {
			n.seen[key] = c.event.Object
		}
	}
	if n.shown < upTo {
		n.shown = upTo
		close(n.more)
		n.more = make(chan struct{})
	}
}

// SeenBy returns what watchers of a resource know.
func SeenBy[T runtime.Object](a *API, gvr schema.GroupVersionResource) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.of(gvr).seen
	out := make([]T, 0, len(seen))
	for _, obj := range seen {
		out = append(out, obj.(T))
	}
	return out
}

// after returns the changes that watchers may see beyond a version, and what is closed when there are more.
func (a *API) after(gvr schema.GroupVersionResource, version int) ([]change, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.of(gvr)
	first := sort.Search(n.shown, func(i int) bool { return n.all[i].version > version })
	return n.all[first:n.shown], n.more
}

// watcher is one watch.
type watcher struct {
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// Stop ends the watch.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

// ResultChan is where the events arrive.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func (w *watcher) run(a *API, gvr schema.GroupVersionResource, version int) {
	defer close(w.events)
	for {
		changes, more := a.after(gvr, version)
		for _, c := range changes {
			version = c.version
			event := watch.Event{Type: c.event.Type, Object: c.event.Object.DeepCopyObject()}
			if pod, ok := event.Object.(*corev1.Pod); ok && Finished(pod) {
				event.Type = watch.Deleted // it is not selected any more
			}
			select {
			case w.events <- event:
			case <-w.stop:
				return
			}
		}
		select {
		case <-more:
		case <-w.stop:
			return
		}
	}
}

// Bind does what the API server does with a binding.
func (a *API) Bind(binding *corev1.Binding) error {
	obj, err := a.Get(Pods, binding.Namespace, binding.Name)
	if err != nil {
		return err
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	switch {
	case binding.UID != "" && binding.UID != pod.UID, pod.DeletionTimestamp != nil, pod.Spec.NodeName != "":
		return apierrors.NewConflict(Pods.GroupResource(), pod.Name, fmt.Errorf("it cannot be bound as it is"))
	}
	pod.Spec.NodeName = binding.Target.Name
	bound := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))}
	pod.Status.Conditions = append(slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == bound.Type }), bound)
	for key, value := range binding.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	return a.Update(Pods, pod, pod.Namespace)
}

// Finished says whether a pod has ended.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Stored returns what the API has of a resource, in the order of names.
func Stored[T interface {
	runtime.Object
	metav1.Object
}](a *API, gvr schema.GroupVersionResource) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	latest := map[string]T{}
	for _, c := range a.of(gvr).all {
		obj := c.event.Object.(T)
		if c.event.Type == watch.Deleted {
			delete(latest, obj.GetName())
		} else {
			latest[obj.GetName()] = obj
		}
	}
	out := make([]T, 0, len(latest))
	for _, obj := range latest {
		out = append(out, obj)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].GetName() < out[j].GetName() })
	return out
}
