package schedulerperf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterscheduler "github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plugins"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// cluster makes of scheduler_perf's cluster one that Muster is installed in.
type cluster struct {
	namespace string
	gangs     int
	minMember int32

	tracker *musterscheduler.Tracker // nil without Muster's plugins

	install      sync.Once
	installErr   error
	connected    sync.Once
	createGroups sync.Once
}

// registry has Muster's plugins, if they are wanted. In a real cluster the CRDs exist before the scheduler starts. scheduler_perf has no
// hook between API server and scheduler: so the first plugin that is made installs them.
func (c *cluster) registry(wanted bool) frameworkruntime.Registry {
	if !wanted {
		return nil
	}
	c.tracker = musterscheduler.New(clock.RealClock{})
	registry := plugins.NewRegistry(c.tracker)
	for name, factory := range registry {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			if err := c.installCRDs(ctx, handle.KubeConfig()); err != nil {
				return nil, err
			}
			return factory(ctx, args, handle)
		}
	}
	return registry
}

// installAPI installs the CRDs if no plugin did. So the API server has the same work in all runs.
func (c *cluster) installAPI(tCtx ktesting.TContext) error {
	return c.installCRDs(tCtx, tCtx.RESTConfig())
}

func (c *cluster) installCRDs(ctx context.Context, config *rest.Config) error {
	c.install.Do(func() { c.installErr = installCRDs(ctx, config) })
	return c.installErr
}

func installCRDs(ctx context.Context, config *rest.Config) error {
	client, err := apiextensions.NewForConfig(asJSON(config))
	if err != nil {
		return fmt.Errorf("making a client for CRDs: %w", err)
	}
	files, err := fs.Glob(manifests.FS, "crds/*_*.yaml")
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("finding the CRDs"), err)
	}
	for _, file := range files {
		data, err := manifests.FS.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a CRD: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return fmt.Errorf("parsing %s: %w", file, err)
		}
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s: %w", file, err)
		}
		if err := waitEstablished(ctx, client, crd.Name); err != nil {
			return fmt.Errorf("waiting for %s: %w", file, err)
		}
	}
	return nil
}

func waitEstablished(ctx context.Context, client apiextensions.Interface, name string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// connect does what muster-scheduler does beside registering its plugins. The failure handler leaves it to the reporter to say why members of
// gangs wait. It is called after each op that creates nodes.
func (c *cluster) connect(_ ktesting.TContext, sched *scheduler.Scheduler) error {
	if c.tracker != nil {
		c.connected.Do(func() { upstream.HandleFailures(sched, report.NewReports(c.tracker), report.ReasonWaitingForQuota) })
	}
	return nil
}

// createGangs creates the PodGroups before the pods, as the native workload does. It is called after each op that creates
// nodes.
func (c *cluster) createGangs(tCtx ktesting.TContext, _ *scheduler.Scheduler) error {
	var err error
	c.createGroups.Do(func() { err = c.createPodGroups(tCtx) })
	return err
}

func (c *cluster) createPodGroups(tCtx ktesting.TContext) error {
	if c.gangs == 0 {
		return nil
	}
	client, err := versioned.NewForConfig(asJSON(tCtx.RESTConfig()))
	if err != nil {
		return fmt.Errorf("making a client for PodGroups: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if _, err := tCtx.Client().CoreV1().Namespaces().Create(tCtx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace of the gangs: %w", err)
	}
	failures := make([]error, c.gangs)
	workqueue.ParallelizeUntil(tCtx, 16, c.gangs, func(i int) {
		group := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gang-%d", i)},
			Spec:       schedulingv1beta1.PodGroupSpec{MinMember: c.minMember},
		}
		_, failures[i] = client.SchedulingV1beta1().PodGroups(c.namespace).Create(tCtx, group, metav1.CreateOptions{})
	})
	return errors.Join(failures...)
}

// asJSON is a configuration for custom resources, which have no protobuf.
func asJSON(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return config
}

// nodeHook is called after nodes were created.
type nodeHook func(ktesting.TContext, *scheduler.Scheduler) error

// chain makes one hook of several.
func chain(hooks ...nodeHook) perf.NodeUpdateFn {
	return func(tCtx ktesting.TContext, sched *scheduler.Scheduler, _ *perf.Workload, _ *corev1.NodeList) error {
		for _, hook := range hooks {
			if err := hook(tCtx, sched); err != nil {
				return err
			}
		}
		return nil
	}
}
