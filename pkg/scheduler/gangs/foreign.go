package gangs

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// foreignLookPeriod is how often to look whether the PodGroups of scheduler-plugins have been installed.
const foreignLookPeriod = 30 * time.Second

// watchForeign follows the PodGroups of scheduler-plugins, so that its users can move over. It begins at once if their CRD is there, else
// as soon as it is. Until then pods that carry the label wait at the gate, as they would for a PodGroup that is missing. It calls endRead
// when they have been read, or cannot be.
func (f *Feed) watchForeign(ctx context.Context, client dynamic.Interface, endRead func()) {
	defer endRead()
	resource := schedulingx.SchemeGroupVersion.WithResource("podgroups")
	logger := klog.FromContext(ctx)
	err := wait.PollUntilContextCancel(ctx, foreignLookPeriod, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			endRead()
		}
		if err != nil && !apierrors.IsNotFound(err) {
			logger.V(2).Info("The PodGroups of scheduler-plugins cannot be read, trying again", "err", err)
		}
		return err == nil, nil
	})
	if err != nil {
		return // the context has ended
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(resource).Informer()
	registration, err := informer.AddEventHandler(HandlerFor(f.setForeign(logger), f.deleteForeign))
	if err != nil {
		logger.Error(err, "Watching the PodGroups of scheduler-plugins failed")
		return
	}
	factory.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	cache.WaitForCacheSync(limited.Done(), registration.HasSynced)
}

// setForeign takes over a PodGroup of scheduler-plugins: it has a minimum, and neither queue nor tasks.
func (f *Feed) setForeign(logger klog.Logger) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) {
		pg, err := fromForeign(obj)
		if err != nil {
			logger.Error(err, "Reading a PodGroup failed", "podGroup", klog.KObj(obj))
			return
		}
		f.t.SetPodGroupAs(foreignKey(obj), pg)
	}
}

func (f *Feed) deleteForeign(obj *unstructured.Unstructured) {
	f.t.deletePodGroup(foreignKey(obj), obj.GetUID())
}

func foreignKey(obj *unstructured.Unstructured) state.Key {
	return state.Key{Namespace: obj.GetNamespace(), Name: obj.GetName(), Foreign: true}
}

// fromForeign says what a PodGroup of scheduler-plugins means in our terms.
func fromForeign(obj *unstructured.Unstructured) (*schedulingv1beta1.PodGroup, error) {
	var theirs schedulingx.PodGroup
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &theirs); err != nil {
		return nil, fmt.Errorf("converting: %w", err)
	}
	ours := &schedulingv1beta1.PodGroup{
		ObjectMeta: theirs.ObjectMeta,
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: theirs.Spec.MinMember},
		Status:     schedulingv1beta1.PodGroupStatus{Succeeded: theirs.Status.Succeeded},
	}
	switch theirs.Status.Phase {
	case schedulingx.PodGroupRunning, schedulingx.PodGroupUnknown, schedulingx.PodGroupFinished, schedulingx.PodGroupFailed:
		ours.Status.Phase = schedulingv1beta1.PodGroupRunning // the minimum was bound once
	}
	return ours, nil
}
