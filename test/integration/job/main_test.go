// Package job_test runs the job controller against a real API server. There is no scheduler and no kubelet: the tests write what they, and
// the podgroup controller, would write. There are no admission policies either: the controller must find the same errors.
package job_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

// TestMain starts these, and all tests share them; each test has a namespace of its own.
var (
	config *rest.Config
	kube   kubernetes.Interface
	muster versioned.Interface
	log    *watchlog.Log

	controller *harness.JobController
)

// nowhere is the node that all pods are bound to. It does nothing.
const nowhere = "nowhere"

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(ctx context.Context, env *harness.Env) (func() error, error) {
		config, kube, muster = env.Config, env.Kube, env.Muster
		err := harness.DeletePolicies(ctx, env)
		if err != nil {
			return nil, err
		}
		if log, err = watchlog.Start(ctx, kube, muster); err != nil {
			return nil, err
		}
		// The pods' node. Without it kube-controller-manager would take its pods away after a while.
		node := mustertesting.MakeNode(nowhere).Obj()
		if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		controller = harness.StartJobController(ctx, env)
		return func() error { controller.Stop(); return nil }, nil
	})
}

// whileDown stops the controller, lets something happen and starts another one, which knows only what the API server
// tells it.
func whileDown(happens func()) { controller.WhileDown(happens) }
