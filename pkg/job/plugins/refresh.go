package plugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Refresh returns a copy of the live object, changed to the wanted state, to be sent as an update. It returns nil if nothing differs. It
// touches only fields that plugins set; additions by the API server and other clients stay. Both objects must be of the same kind, one that
// plugins make; otherwise it returns an error.
func Refresh(live, wanted plugin.Object) (plugin.Object, error) {
	changed := live.DeepCopyObject().(plugin.Object)
	switch object := changed.(type) {
	case *corev1.ConfigMap:
		want, ok := wanted.(*corev1.ConfigMap)
		if !ok {
			return nil, errKinds(live, wanted)
		}
		object.Data = want.Data
	case *corev1.Secret:
		want, ok := wanted.(*corev1.Secret)
		if !ok {
			return nil, errKinds(live, wanted)
		}
		object.Data = want.Data
	case *corev1.Service:
		want, ok := wanted.(*corev1.Service)
		if !ok {
			return nil, errKinds(live, wanted)
		}
		refreshService(&object.Spec, &want.Spec)
	case *networkingv1.NetworkPolicy:
		want, ok := wanted.(*networkingv1.NetworkPolicy)
		if !ok {
			return nil, errKinds(live, wanted)
		}
		object.Spec = want.Spec
	case *rbacv1.RoleBinding:
		want, ok := wanted.(*rbacv1.RoleBinding)
		if !ok {
			return nil, errKinds(live, wanted)
		}
		object.Subjects, object.RoleRef = want.Subjects, want.RoleRef
	default:
		return nil, errKinds(live, wanted)
	}
	if apiequality.Semantic.DeepEqual(live, changed) {
		return nil, nil
	}
	return changed, nil
}

// refreshService leaves what the API server has chosen, such as addresses and node ports.
func refreshService(live, wanted *corev1.ServiceSpec) {
	live.Selector = wanted.Selector
	live.PublishNotReadyAddresses = wanted.PublishNotReadyAddresses
	ports := make([]corev1.ServicePort, len(wanted.Ports))
	for i, port := range wanted.Ports {
		ports[i] = port
		for _, had := range live.Ports {
			if had.Name == port.Name {
				ports[i].NodePort = had.NodePort
			}
		}
	}
	live.Ports = ports
}

func errKinds(live, wanted plugin.Object) error {
	return fmt.Errorf("comparing a %T with a %T: not a kind that plugins make, or not the same one", live, wanted)
}
