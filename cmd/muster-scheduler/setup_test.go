package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheSchedulersPodsComeFromOneInformer: all who ask the factory for pods share the informer that tells them apart.
func TestTheSchedulersPodsComeFromOneInformer(t *testing.T) {
	client := fake.NewSimpleClientset()
	own := scheduler.NewInformerFactory(client, 0, nil)
	factory := tellApart(own, client, nil)
	assert.IsType(t, podInformer{}, factory.InformerFor(&corev1.Pod{}, nil))
	require.NoError(t, own.Core().V1().Pods().Informer().GetStore().Add(mustertesting.MakePod("p").Namespace("ns").Obj()))
	_, err := factory.Core().V1().Pods().Lister().Pods("ns").Get("p")
	require.NoError(t, err)
}
