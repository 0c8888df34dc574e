package hooks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// handle is what the Store needs of a scheduler to read the API.
type handle struct {
	fwk.Handle
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func (h *handle) ClientSet() kubernetes.Interface                        { return h.client }
func (*handle) KubeConfig() *rest.Config                                 { return nil }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// TestNoPodIsTriedBeforeTheStoreKnowsWhatThereIs: one that names a full queue would start, and one of high priority would have a member of a
// gang evicted.
func TestNoPodIsTriedBeforeTheStoreKnowsWhatThereIs(t *testing.T) {
	metrics.Register()
	store := state.New(clock.RealClock{})
	store.ConnectBy(func(*rest.Config) (versioned.Interface, dynamic.Interface, error) {
		return musterfake.NewSimpleClientset(), dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{schedulingx.SchemeGroupVersion.WithResource("podgroups"): "PodGroupList"}), nil
	})
	client := kubefake.NewSimpleClientset()
	h := &handle{client: client, informers: informers.NewSharedInformerFactory(client, 0)}
	require.NoError(t, store.Start(t.Context(), h))
	taken := make(chan struct{})
	s := &scheduler.Scheduler{NextEntity: func(klog.Logger) (framework.QueuedEntityInfo, error) {
		close(taken)
		return nil, nil
	}}
	Install(s, store)

	ended := make(chan error)
	go func() {
		_, err := s.NextEntity(klog.Background())
		ended <- err
	}()
	assert.Never(t, func() bool { return isClosed(taken) }, 300*time.Millisecond, 10*time.Millisecond, "the pods have not been read")
	h.informers.Start(t.Context().Done())
	require.Eventually(t, func() bool { return isClosed(taken) }, 20*time.Second, time.Millisecond)
	require.NoError(t, <-ended)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
