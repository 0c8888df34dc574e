package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfOneNameAreToldApart: with the upstream handlers the scheduler ended itself when a bound pod had been deleted and
// created anew while the API server was away.
func TestPodsOfOneNameAreToldApart(t *testing.T) {
	var told []string
	h := apart{cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told = append(told, "add "+string(obj.(*corev1.Pod).UID)) },
		UpdateFunc: func(_, obj any) { told = append(told, "update "+string(obj.(*corev1.Pod).UID)) },
		DeleteFunc: func(obj any) { told = append(told, "delete "+string(obj.(*corev1.Pod).UID)) },
	}}
	pod := func(uid types.UID) *corev1.Pod {
		pod := mustertesting.MakePod("p").Obj()
		pod.UID = uid
		return pod
	}
	h.OnUpdate(pod("a"), pod("a"))
	h.OnUpdate(pod("a"), pod("b"))
	assert.Equal(t, []string{"update a", "delete a", "add b"}, told)
}

// TestTheSchedulersPodsComeByWayOfThatHandler: all who ask the factory for pods share the informer that tells them apart.
func TestTheSchedulersPodsComeByWayOfThatHandler(t *testing.T) {
	client := fake.NewSimpleClientset()
	own := scheduler.NewInformerFactory(client, 0, nil)
	factory := tellApart(own, client, nil)
	assert.IsType(t, podInformer{}, factory.InformerFor(&corev1.Pod{}, nil))
	require.NoError(t, own.Core().V1().Pods().Informer().GetStore().Add(mustertesting.MakePod("p").Namespace("ns").Obj()))
	_, err := factory.Core().V1().Pods().Lister().Pods("ns").Get("p")
	require.NoError(t, err)
}
