package simulation

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plugins"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
	topologywatch "github.com/muster-sched/muster/pkg/topology/watch"
)

// Prepare readies the program for bubbles. Goroutines that are started once for all must not belong to one. Errors that
// libraries report go to report.
func Prepare(report func(err error, msg string)) {
	// The other handler delays reports, by a clock that is not the bubble's.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, _ ...any) { report(err, msg) }}
	// The scheduler listens for a signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
}

// ShippedProfile returns the profile "muster" as the manifests have it. No controller makes PodGroups for single pods here, so these need none.
func ShippedProfile() (*schedulerapi.KubeSchedulerProfile, error) {
	if err := plugins.RegisterArgs(); err != nil {
		return nil, err
	}
	data, err := manifests.FS.ReadFile("scheduler/second-scheduler.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the shipped configuration: %w", err)
	}
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding the shipped configuration: %w", err)
	}
	for _, profile := range obj.(*schedulerapi.KubeSchedulerConfiguration).Profiles {
		if profile.SchedulerName == "muster" {
			CoschedulingArgs(&profile).RequirePodGroup = false
			return &profile, nil
		}
	}
	return nil, fmt.Errorf("the shipped configuration has no profile muster")
}

// CoschedulingArgs are the arguments of the Coscheduling plugin in a profile; a change of them changes the profile.
func CoschedulingArgs(profile *schedulerapi.KubeSchedulerProfile) *config.CoschedulingArgs {
	for _, plugin := range profile.PluginConfig {
		if args, ok := plugin.Args.(*config.CoschedulingArgs); ok {
			return args
		}
	}
	return &config.CoschedulingArgs{} // of no profile
}

// Scheduler is the upstream scheduler with the plugins of Muster. Its loop does not run yet.
type Scheduler struct {
	*scheduler.Scheduler

	Tracker  *gangs.Tracker
	Shutdown func() // waits until its informers have ended
}

// Options say how a scheduler differs from the shipped one.
type Options struct {
	Profile schedulerapi.KubeSchedulerProfile
	// Plugins are the test's own. The profile enables them.
	Plugins frameworkruntime.Registry
	// Plan has expected starts written.
	Plan bool
	// Intercept sees each request first, and answers it if it says so. It may be nil.
	Intercept clienttesting.ReactionFunc
	// Takes is how long the API takes for a request of the scheduler. It may be nil.
	Takes func(clienttesting.Action) time.Duration
	// WithoutMetrics leaves out two loops of the scheduler that write metrics each second. In a long simulation they take most of the time. Nothing that
	// the scheduler does depends on them.
	WithoutMetrics bool
	// Silent leaves out what tells users why gangs wait. In a long simulation most requests are for that, and nothing is decided by it. Its value is how
	// often the scheduler looks again at gangs that are not at rest. 0 leaves out nothing.
	Silent time.Duration
	// Beside runs beside the scheduling loop until the context ends. It may be nil.
	Beside func(ctx context.Context, handle fwk.Handle, tracker *gangs.Tracker)
}

// Start starts a scheduler and returns when its caches are full.
func Start(ctx context.Context, a *API, options Options) (*Scheduler, error) {
	client := kubefake.NewSimpleClientset()
	serve(a, &client.Fake, options.Intercept)
	take(client, options.Takes)
	tracker := newTracker(a, options.Intercept)
	newRegistry := plugins.NewRegistryWithoutPlan
	switch {
	case options.Plan:
		newRegistry = plugins.NewRegistry
	case options.Silent > 0:
		newRegistry = func(tracker *gangs.Tracker) frameworkruntime.Registry {
			return plugins.NewSilentRegistry(tracker, options.Silent)
		}
	}
	if options.Beside != nil {
		tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { options.Beside(ctx, handle, tracker) })
	}
	registry := newRegistry(tracker)
	if err := registry.Merge(options.Plugins); err != nil {
		return nil, fmt.Errorf("registering the test's plugins: %w", err)
	}
	informers := scheduler.NewInformerFactory(client, 0, nil)
	loops, stop := context.WithCancel(ctx)
	defer stop()
	if options.WithoutMetrics {
		within(ctx, registry)
	} else {
		loops = ctx
	}
	s, err := scheduler.New(loops, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(options.Profile),
		scheduler.WithParallelism(1),
		// Nothing may rely on the flush of pods that have waited for long.
		scheduler.WithPodMaxInUnschedulablePodsDuration(1000*time.Hour),
		scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		return nil, fmt.Errorf("making the scheduler: %w", err)
	}
	upstream.HandleFailures(s, report.NewReports(tracker), report.ReasonWaitingForQuota)
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("filling the scheduler's caches: %w", err)
	}
	return &Scheduler{Scheduler: s, Tracker: tracker, Shutdown: informers.Shutdown}, nil
}

// take delays the requests of a client. Time is virtual: simulations run in a bubble of testing/synctest.
func take(client *kubefake.Clientset, takes func(clienttesting.Action) time.Duration) {
	if takes == nil {
		return
	}
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if d := takes(action); d > 0 {
			client.Unlock() // other requests go on
			time.Sleep(d)
			client.Lock()
		}
		return false, nil, nil
	})
}

// within gives plugins a context that lasts longer than that of the scheduler's own loops.
func within(ctx context.Context, plugins frameworkruntime.Registry) {
	for name, factory := range plugins {
		plugins[name] = func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return factory(ctx, args, handle)
		}
	}
}

func newTracker(a *API, intercept clienttesting.ReactionFunc) *gangs.Tracker {
	tracker := gangs.New(clock.RealClock{}) // which in a bubble is not real
	tracker.Feed.ConnectBy(func(*rest.Config) (versioned.Interface, dynamic.Interface, error) {
		client := musterfake.NewSimpleClientset()
		serve(a, &client.Fake, intercept)
		// The PodGroups of scheduler-plugins are not installed.
		kinds := topologywatch.KueueKinds()
		kinds[schedulingx.SchemeGroupVersion.WithResource("podgroups")] = "PodGroupList"
		foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
		foreign.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "")
		})
		return client, foreign, nil
	})
	return tracker
}

// serve has a client talk to the API.
func serve(a *API, client *clienttesting.Fake, intercept clienttesting.ReactionFunc) {
	client.ReactionChain, client.WatchReactionChain = nil, nil
	if intercept != nil {
		client.AddReactor("*", "*", intercept)
	}
	store := clienttesting.ObjectReaction(a)
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch {
		case action.Matches("patch", "pods/status"):
			if pod, handled, err := a.patchConditions(action.(clienttesting.PatchAction)); handled {
				return true, pod, err
			}
		case action.Matches("create", "pods/binding"), action.GetSubresource() == "binding":
			return true, nil, a.Bind(action.(clienttesting.CreateAction).GetObject().(*corev1.Binding))
		case action.GetSubresource() == "eviction":
			evicted := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			return true, nil, a.Delete(Pods, evicted.Namespace, evicted.Name)
		}
		return store(action)
	})
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		options := metav1.ListOptions{}
		if with, ok := action.(clienttesting.WatchActionImpl); ok {
			options = with.ListOptions
		}
		w, err := a.Watch(action.GetResource(), action.GetNamespace(), options)
		return true, w, err
	})
}
