package plugins_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

func TestRefreshLeavesWhatTheServerHasChosen(t *testing.T) {
	wanted := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone,
		Selector:  map[string]string{"volcano.sh/job-name": "j"},
		Ports:     []corev1.ServicePort{{Name: "gcs", Port: 1, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("gcs")}},
	}}
	live := wanted.DeepCopy()
	live.ResourceVersion = "7"
	live.Spec.ClusterIPs = []string{"None"}
	live.Spec.SessionAffinity = corev1.ServiceAffinityNone
	live.Spec.Ports[0].NodePort = 30000
	changed, err := plugins.Refresh(live, wanted)
	require.NoError(t, err)
	assert.Nil(t, changed)

	live.Spec.Selector = nil
	changed, err = plugins.Refresh(live, wanted)
	require.NoError(t, err)
	service := changed.(*corev1.Service)
	assert.Equal(t, wanted.Spec.Selector, service.Spec.Selector)
	assert.Equal(t, int32(30000), service.Spec.Ports[0].NodePort)
	assert.Equal(t, "7", service.ResourceVersion)
	assert.Nil(t, live.Spec.Selector, "the live object is of a cache: it must stay as it is")
}

// TestRefreshKeepsNodePortsByName: a port is the same one if it has the same name, whatever its number is.
func TestRefreshKeepsNodePortsByName(t *testing.T) {
	live := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "moved", Port: 1, NodePort: 30001}, {Name: "gone", Port: 2, NodePort: 30002}, {Name: "same", Port: 3, NodePort: 30003},
	}}}
	wanted := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "same", Port: 3}, {Name: "new", Port: 2}, {Name: "moved", Port: 10},
	}}}
	changed, err := plugins.Refresh(live, wanted)
	require.NoError(t, err)
	assert.Equal(t, []corev1.ServicePort{
		{Name: "same", Port: 3, NodePort: 30003}, {Name: "new", Port: 2}, {Name: "moved", Port: 10, NodePort: 30001},
	}, changed.(*corev1.Service).Spec.Ports)
}

func TestRefreshMendsWhatOthersHaveChanged(t *testing.T) {
	set, errs := plugins.For(distributed("j").Plugin("ssh").Plugin("ray").Plugin("svc").Obj())
	require.Empty(t, errs)
	for name, wanted := range objectsOf(t, set) {
		t.Run(name, func(t *testing.T) {
			live := wanted.DeepCopyObject().(plugin.Object)
			switch object := live.(type) {
			case *corev1.ConfigMap:
				object.Data["more"] = "x"
			case *corev1.Secret:
				delete(object.Data, "config")
			case *corev1.Service:
				object.Spec.PublishNotReadyAddresses = !object.Spec.PublishNotReadyAddresses
			case *networkingv1.NetworkPolicy:
				object.Spec.Ingress = nil
			}
			changed, err := plugins.Refresh(live, wanted)
			require.NoError(t, err)
			assert.True(t, apiequality.Semantic.DeepEqual(wanted, changed), "%v", changed)
		})
	}
}

func TestRefreshOfOtherKinds(t *testing.T) {
	for _, pair := range [][2]plugin.Object{
		{&corev1.Service{}, &corev1.Secret{}}, {&corev1.Secret{}, &corev1.Service{}}, {&corev1.ConfigMap{}, &corev1.Secret{}},
		{&networkingv1.NetworkPolicy{}, &corev1.Secret{}}, {&corev1.Pod{}, &corev1.Pod{}},
	} {
		_, err := plugins.Refresh(pair[0], pair[1])
		assert.ErrorContains(t, err, "comparing a")
	}
}
