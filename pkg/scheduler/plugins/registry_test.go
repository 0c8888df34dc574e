package plugins

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// program is a scheduler with the plugins, in an API that is kept in memory.
type program struct {
	framework.Framework
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	tracker   *gangs.Tracker
}

// newProgram makes the program "muster" of second-scheduler.yaml, but pods need no PodGroup. Its informers are not started yet.
func newProgram(t *testing.T, pods []runtime.Object, groups ...runtime.Object) *program {
	t.Helper()
	metrics.Register()
	p := &program{client: fake.NewClientset(pods...), tracker: gangs.New(clock.RealClock{})}
	p.tracker.Feed.ConnectBy(func(*rest.Config) (versioned.Interface, dynamic.Interface, error) {
		kinds := watch.KueueKinds()
		kinds[schedulingx.SchemeGroupVersion.WithResource("podgroups")] = "PodGroupList"
		return musterfake.NewSimpleClientset(groups...), dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds), nil
	})
	p.informers = informers.NewSharedInformerFactory(p.client, 0)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	profiles := load(t, "second-scheduler.yaml").Profiles
	for _, profile := range profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.CoschedulingArgs); ok {
				args.RequirePodGroup = false
			}
		}
	}
	made, err := scheduler.New(ctx, p.client, p.informers, nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(100) },
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(NewRegistry(p.tracker)))
	require.NoError(t, err)
	p.Framework = made.Profiles["muster"]
	return p
}

// start starts the informers.
func (p *program) start(t *testing.T) {
	t.Helper()
	p.informers.Start(t.Context().Done())
	p.informers.WaitForCacheSync(t.Context().Done())
}

// newCycle is the state of a scheduling cycle.
func newCycle() *framework.CycleState {
	cycle := framework.NewCycleState()
	cycle.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	return cycle
}

// TestNoPodIsTriedBeforePodGroupsAndQueuesWereRead shows that pods wait until both are read. Without that, a pod could start in a full
// queue. A pod of high priority could have a member of a gang evicted.
func TestNoPodIsTriedBeforePodGroupsAndQueuesWereRead(t *testing.T) {
	queue := mustertesting.MakeQueue("full").Capability("cpu", "1").Obj()
	for _, plugin := range []string{"Capacity", "Coscheduling"} {
		t.Run(plugin, func(t *testing.T) {
			p := newProgram(t, nil, queue.DeepCopy())
			preFilter, ok := pluginNamed(t, p, plugin).(fwk.PreFilterPlugin)
			require.True(t, ok)
			pod := singleNamed("p", "full")
			statuses := make(chan *fwk.Status, 1)
			go func() {
				_, status := preFilter.PreFilter(t.Context(), newCycle(), pod, nil)
				statuses <- status
			}()
			assert.Never(t, func() bool { return len(statuses) > 0 }, 300*time.Millisecond, 10*time.Millisecond, "the pods have not been read")
			p.start(t)
			select {
			case status := <-statuses:
				assert.Equal(t, plugin == "Coscheduling", status.IsSkip(), "Capacity knows the queue: %v", status)
			case <-time.After(mustertesting.Timeout):
				require.Fail(t, "the pod is not tried")
			}
		})
	}
}

// singleNamed is a pod of a queue without a PodGroup.
func singleNamed(name, queue string) *corev1.Pod {
	return mustertesting.MakePod(name).UID(name).SchedulerName("muster").QueueName(queue).Requests("cpu", "2").Obj()
}

// pluginNamed is a plugin of the profile.
func pluginNamed(t *testing.T, p *program, name string) fwk.Plugin {
	t.Helper()
	for _, plugin := range p.EnqueueExtensions() { // all of our plugins are among them
		if plugin.Name() == name {
			return plugin.(fwk.Plugin)
		}
	}
	require.Fail(t, "not in the profile", name)
	return nil
}

// TestPodsThatOurPluginsRejectInPreFilterAreNotShownToPluginsBehind: upstream's have no state of them, and log an error.
func TestPodsThatOurPluginsRejectInPreFilterAreNotShownToPluginsBehind(t *testing.T) {
	single := singleNamed("single", "q")
	member := mustertesting.MakePod("member").UID("member").SchedulerName("muster").Group("g").Requests("cpu", "2").Obj()
	group := mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	p := newProgram(t, []runtime.Object{single, member}, mustertesting.MakeQueue("q").Capability("cpu", "1").Obj(), group)
	p.start(t)
	p.tracker.Feed.AwaitRead(t.Context())
	require.Eventually(t, func() bool { return p.tracker.Gate(member) == "" }, mustertesting.Timeout, time.Millisecond)
	for pod, plugin := range map[*corev1.Pod]string{single: "Capacity", member: "Coscheduling"} {
		cycle := newCycle()
		_, status, _ := p.RunPreFilterPlugins(t.Context(), cycle, pod)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), status)
		require.Equal(t, plugin, status.Plugin())
		_, status = p.RunPostFilterPlugins(t.Context(), cycle, pod, framework.NewDefaultNodeToStatus())
		assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), status)
		assert.Equal(t, plugin, status.Plugin())
	}
}

// TestTheReporterRunsWithThePlugins, in any scheduler that registers them: a gang that does not fit says so on its pods.
func TestTheReporterRunsWithThePlugins(t *testing.T) {
	member := mustertesting.MakePod("member").UID("member").SchedulerName("muster").Group("g").Requests("cpu", "2").Obj()
	group := mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	p := newProgram(t, []runtime.Object{member}, group)
	p.start(t)
	p.tracker.Feed.AwaitRead(t.Context())
	require.Eventually(t, func() bool { return p.tracker.Gate(member) == "" }, mustertesting.Timeout, time.Millisecond)
	_, status, _ := p.RunPreFilterPlugins(t.Context(), newCycle(), member)
	require.False(t, status.IsSuccess())
	require.Eventually(t, func() bool {
		pod, err := p.client.CoreV1().Pods(member.Namespace).Get(t.Context(), member.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return len(pod.Status.Conditions) == 1 && pod.Status.Conditions[0].Reason == report.ReasonUnschedulable
	}, 20*time.Second, 10*time.Millisecond)
}

// TestPluginsRefuseTheArgumentsOfOthers: a mistake in a configuration ends the program with the name of the plugin.
func TestPluginsRefuseTheArgumentsOfOthers(t *testing.T) {
	wrong := map[string]runtime.Object{
		"Capacity": &config.TaskPriorityArgs{}, "Coscheduling": &config.CapacityArgs{}, "GangPreemption": &config.CapacityArgs{}, "TaskPriority": &config.CapacityArgs{},
		"NodeGroup": &config.CapacityArgs{},
	}
	registry := NewRegistry(gangs.New(clock.RealClock{}))
	require.Len(t, registry, len(wrong))
	for name, args := range wrong {
		_, err := registry[name](t.Context(), args, nil)
		require.ErrorContains(t, err, "the arguments of "+name+" are of type", name)
	}
}
