package plugins

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/coscheduling"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestMain(m *testing.M) {
	if err := RegisterArgs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// load reads a configuration that ships, with upstream's defaults.
func load(t *testing.T, name string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	text, err := manifests.FS.ReadFile("scheduler/" + name)
	require.NoError(t, err)
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	require.NoError(t, err)
	return obj.(*schedulerconfig.KubeSchedulerConfiguration)
}

// profiles makes a configuration's profiles as the scheduler does at its start.
func profiles(t *testing.T, name string) map[string]framework.Framework {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	client := fake.NewClientset()
	made, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(1) },
		scheduler.WithProfiles(load(t, name).Profiles...),
		scheduler.WithKubeConfig(&rest.Config{Host: "http://127.0.0.1:0"}), // no server is needed
		scheduler.WithFrameworkOutOfTreeRegistry(NewRegistry(gangs.New(clock.RealClock{}))))
	require.NoError(t, err)
	return made.Profiles
}

// jobPod is a pod as the job controller makes it and the API server completes it.
func jobPod(scheduler, index string) *corev1.Pod {
	pod := mustertesting.MakePod("job-worker-"+index).SchedulerName(scheduler).Group("job").Task("worker").
		Annotation("volcano.sh/task-index", index).Label("volcano.sh/task-index", index).Requests("cpu", "1").Obj()
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "kube-api-access-" + index, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{Name: "hosts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	}
	return pod
}

func TestPodsOfATaskHaveOneSignature(t *testing.T) {
	for config, names := range map[string][]string{
		"second-scheduler.yaml": {"muster", "volcano"},
		"replace-default.yaml":  {"muster", "volcano"},
		"benchmark.yaml":        {"default-scheduler"},
	} {
		made := profiles(t, config)
		for _, name := range names {
			one := made[name].SignPod(t.Context(), jobPod(name, "0"))
			require.NotEmpty(t, one, "%s, %s: a member has no signature", config, name)
			assert.Equal(t, one, made[name].SignPod(t.Context(), jobPod(name, "1")), "%s, %s: members of a task", config, name)
			larger := jobPod(name, "2")
			larger.Spec.Containers[0].Resources.Requests = mustertesting.Resources("cpu", "2")
			assert.NotEqual(t, one, made[name].SignPod(t.Context(), larger), "%s, %s: a pod that asks for more", config, name)
		}
	}
}

// TestTheDefaultProfileIsUpstreams: in a cluster whose default scheduler is muster-scheduler, pods without a gang are scheduled as before.
func TestTheDefaultProfileIsUpstreams(t *testing.T) {
	upstream := &schedulerconfig.KubeSchedulerConfiguration{}
	stock := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	_, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(stock, nil, upstream)
	require.NoError(t, err)
	ours := load(t, "replace-default.yaml").Profiles[0]
	require.Equal(t, "default-scheduler", ours.SchedulerName)
	for _, theirs := range upstream.Profiles[0].PluginConfig {
		if theirs.Name == "DefaultPreemption" {
			continue // not enabled: GangPreemption has the same arguments
		}
		assert.Contains(t, ours.PluginConfig, theirs)
	}
}

// TestThePluginsAreInEachProfileInOrder: for each extension point, the order of our plugins, and which of them come before all upstream
// plugins.
func TestThePluginsAreInEachProfileInOrder(t *testing.T) {
	for _, config := range []string{"second-scheduler.yaml", "replace-default.yaml", "benchmark.yaml"} {
		for name, profile := range profiles(t, config) {
			plugins := profile.ListPlugins()
			where := fmt.Sprintf("%s, %s", config, name)
			assert.Equal(t, []string{"TaskPriority"}, names(plugins.QueueSort), where)
			assert.Subset(t, names(plugins.PreEnqueue), []string{"TaskPriority", "GangPreemption"}, where)
			require.Greater(t, len(plugins.PreFilter.Enabled), 2, where)
			assert.Equal(t, []string{"Capacity", "Coscheduling"}, names(plugins.PreFilter)[:2], where)
			assert.Contains(t, names(plugins.Filter), "Coscheduling", where)
			// Coscheduling comes before GangPreemption: a member of a waiting gang must not preempt.
			assert.Equal(t, []string{"Capacity", "Coscheduling", "DynamicResources", "GangPreemption"}, names(plugins.PostFilter), where)
			assert.Equal(t, []string{"Capacity", "Coscheduling"}, ours(plugins.Reserve), where)
			assert.Equal(t, []string{"Coscheduling"}, names(plugins.Permit), where)
			assert.Contains(t, names(plugins.PreBind), "Coscheduling", where)
			assert.Contains(t, names(plugins.PostBind), "Coscheduling", where)
			assert.Contains(t, plugins.Score.Enabled, schedulerconfig.Plugin{Name: "Coscheduling", Weight: 5}, where)
			assert.Contains(t, ours(plugins.PreScore), "Coscheduling", where)
		}
	}
}

// ours are our plugins of an extension point, in order.
func ours(set schedulerconfig.PluginSet) (ours []string) {
	for _, name := range names(set) {
		if _, ok := NewRegistry(gangs.New(clock.RealClock{}))[name]; ok {
			ours = append(ours, name)
		}
	}
	return ours
}

// TestCoschedulingHasAllPodsAskedAboutAnEventIfAnotherPluginNamesSome: upstream asks only about the pods that are named, once one plugin names
// pods.
func TestCoschedulingHasAllPodsAskedAboutAnEventIfAnotherPluginNamesSome(t *testing.T) {
	type of = fwk.ClusterEvent
	theirs, ours := map[of]bool{}, map[of]bool{}
	for _, plugin := range profiles(t, "second-scheduler.yaml")["muster"].EnqueueExtensions() {
		events, err := plugin.EventsToRegister(t.Context())
		require.NoError(t, err)
		for _, event := range events {
			if event.PreQueueingHintFn == nil {
				continue
			}
			if plugin.Name() == coscheduling.Name {
				asked, err := event.PreQueueingHintFn(klog.Background(), nil, nil)
				require.NoError(t, err)
				ours[event.Event] = asked.AllPods
			} else {
				theirs[event.Event] = true
			}
		}
	}
	assert.Equal(t, theirs, ours)
	assert.Contains(t, theirs, of{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete})
}

func names(set schedulerconfig.PluginSet) []string {
	var names []string
	for _, plugin := range set.Enabled {
		names = append(names, plugin.Name)
	}
	return names
}
