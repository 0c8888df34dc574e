// Package jobplugins_test runs the job controller against a real API server, for the plugins and the volumes of Jobs. There is no scheduler
// and no kubelet: the tests write what they, and the podgroup controller, would write.
package jobplugins_test

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
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

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(ctx context.Context, env *harness.Env) (func() error, error) {
		config, kube, muster = env.Config, env.Kube, env.Muster
		var err error
		if log, err = watchlog.Start(ctx, kube, muster); err != nil {
			return nil, err
		}
		controller = harness.StartJobController(ctx, env)
		return func() error { controller.Stop(); return nil }, nil
	})
}

// whileDown stops the controller, lets something happen and starts another one, which knows only what the API server
// tells it.
func whileDown(happens func()) { controller.WhileDown(happens) }
