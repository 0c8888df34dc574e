package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// upstreamDir is the folder of scheduler_perf.
func upstreamDir(t *testing.T) string {
	t.Helper()
	dir, err := output(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	require.NoError(t, err)
	return filepath.Join(dir, "test", "integration", "scheduler_perf")
}

// written is what a test case of ours says.
type written struct {
	SchedulerConfigPath string
	FeatureGates        map[string]bool
	WorkloadTemplate    []struct {
		Opcode, Namespace, PodTemplatePath string
		CollectMetrics                     bool
	}
	Workloads []struct {
		Labels    []string
		Params    map[string]int
		Threshold float64
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into))
}

func TestUpstreamHasAllWorkloads(t *testing.T) {
	upstream := upstreamDir(t)
	for _, w := range workloads {
		for _, v := range variants {
			if !v.runs(w) {
				continue
			}
			path, err := writeTestCase(upstream, w, v, t.TempDir())
			require.NoError(t, err, "%s with %s", w.name, v.name)
			var cases []written
			read(t, path, &cases)
			require.Len(t, cases, 1)
			require.Len(t, cases[0].Workloads, 1)
			own := cases[0].Workloads[0]
			assert.Contains(t, own.Labels, "performance")
			assert.Zero(t, own.Threshold, "upstream's thresholds are not for this machine")
			for name, value := range w.params {
				assert.Equal(t, value, own.Params[name], "%s with %s", w.name, v.name)
			}
			assert.Equal(t, v.native, cases[0].FeatureGates["GenericWorkload"], "%s with %s", w.name, v.name)
			gates, err := v.ownGates()
			require.NoError(t, err)
			for gate, on := range gates {
				assert.Contains(t, cases[0].FeatureGates, gate)
				assert.Equal(t, on, cases[0].FeatureGates[gate])
			}
			timed := 0
			for _, op := range cases[0].WorkloadTemplate {
				if op.CollectMetrics {
					timed++
					assert.Equal(t, w.namespace(), op.Namespace)
				}
			}
			assert.Equal(t, 1, timed, "%s with %s", w.name, v.name)
		}
	}
}

func TestScale(t *testing.T) {
	upstream := upstreamDir(t)
	for name, want := range map[string]map[string]int{
		"GangScheduling/1000x3": {"initNodes": 50, "initPodGroups": 10, "podsPerGroup": 3},
		"GangScheduling/3x1000": {"initNodes": 50, "initPodGroups": 3, "podsPerGroup": 10},
		"SchedulingWhileGated":  {"gatedPods": 100, "deletingPods": 50, "measurePods": 100},
	} {
		chosen, err := chooseWorkloads(name)
		require.NoError(t, err)
		path, err := writeTestCase(upstream, chosen[0].scaled(0.01), variants[0], t.TempDir())
		require.NoError(t, err)
		var cases []written
		read(t, path, &cases)
		assert.Equal(t, want, cases[0].Workloads[0].Params, name)
	}
}

func TestPodsAreAlikeButForTheirGang(t *testing.T) {
	upstream := upstreamDir(t)
	w, err := chooseWorkloads("GangScheduling/1000x3")
	require.NoError(t, err)
	specs := map[string]string{}
	for _, v := range variants {
		path, err := writeTestCase(upstream, w[0], v, t.TempDir())
		require.NoError(t, err)
		var cases []written
		read(t, path, &cases)
		for _, op := range cases[0].WorkloadTemplate {
			if op.Opcode == "createPodGroups" {
				assert.True(t, v.native, "only native gangs have native PodGroups")
			}
			if op.Opcode != "createPods" {
				continue
			}
			path := op.PodTemplatePath
			if !filepath.IsAbs(path) {
				path = filepath.Join(upstream, w[0].folder, path)
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			pod := string(data)
			assert.Equal(t, v.muster, strings.Contains(pod, "scheduling.k8s.io/group-name: "+groupName), v.name)
			assert.Equal(t, v.native, strings.Contains(pod, nativeGroup), v.name)
			_, spec, found := strings.Cut(strings.Replace(pod, nativeGroup, "", 1), "\nspec:\n")
			require.True(t, found)
			specs[v.name] = spec
		}
	}
	require.Len(t, specs, len(variants))
	for name, spec := range specs {
		assert.Equal(t, specs[stock], spec, name)
	}
}

func TestStockHasTheSameArgumentsWithoutOurPlugins(t *testing.T) {
	type config struct {
		Profiles []struct {
			Plugins      any
			PluginConfig []struct {
				Name string
				Args map[string]any
			}
		}
	}
	var theirs, ours config
	for muster, into := range map[bool]*config{false: &theirs, true: &ours} {
		path, err := writeSchedulerConfig(variant{muster: muster}, t.TempDir())
		require.NoError(t, err)
		read(t, path, into)
	}
	assert.Nil(t, theirs.Profiles[0].Plugins)
	args := map[string]map[string]any{}
	for _, plugin := range theirs.Profiles[0].PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	assert.NotEmpty(t, args)
	for _, plugin := range ours.Profiles[0].PluginConfig {
		if plugin.Name != "Coscheduling" {
			assert.Equal(t, plugin.Args, args[plugin.Name], plugin.Name)
		}
	}
	assert.NotContains(t, args, "Coscheduling")
}

// TestWhatIsMeasuredIsWhatIsShipped: in a cluster pods choose the profile muster, with the gates of the Deployment.
func TestWhatIsMeasuredIsWhatIsShipped(t *testing.T) {
	measured, err := readConfig("scheduler/benchmark.yaml")
	require.NoError(t, err)
	config, err := shippedConfig()
	require.NoError(t, err)
	assert.Equal(t, measured["profiles"], config["profiles"], "benchmark.yaml has the profile muster")
	gates, err := variant{asShipped: true}.ownGates()
	require.NoError(t, err)
	assert.Equal(t, alike, gates, "stock has the gates that are shipped")
}

func TestGoals(t *testing.T) {
	gangs, ordinary := workload{name: "g", gangs: 3, pods: 3}, workload{name: "o"}
	run := func(w workload, variant string, round int, speed float64) report.Run {
		return report.Run{Workload: w.name, Variant: variant, Round: round, Pods: 1, PodsPerSecond: speed}
	}
	cases := map[string]struct {
		workload workload
		runs     report.Runs
		outcome  string
		ok       bool
	}{
		"as fast as without gangs": {gangs, report.Runs{run(gangs, stock, 0, 100), run(gangs, native, 0, 90), run(gangs, muster, 0, 95)}, "1.00", true},
		"half as fast again as native is enough": {
			gangs, report.Runs{run(gangs, stock, 0, 100), run(gangs, native, 0, 40), run(gangs, muster, 0, 60)}, "1.00", true,
		},
		"slower than both": {
			gangs, report.Runs{run(gangs, stock, 0, 100), run(gangs, native, 0, 40), run(gangs, muster, 0, 54)}, "0.90 MISSED", false,
		},
		"without native": {gangs, report.Runs{run(gangs, stock, 0, 100), run(gangs, muster, 0, 76)}, "0.80 MISSED", false},
		"ordinary pods":  {ordinary, report.Runs{run(ordinary, stock, 0, 100), run(ordinary, muster, 0, 98)}, "1.00", true},
		"ordinary pods, slowed": {
			ordinary, report.Runs{run(ordinary, stock, 0, 100), run(ordinary, muster, 0, 88.2)}, "0.90 MISSED", false,
		},
		"below both, though in each round above one": {
			gangs, report.Runs{
				run(gangs, stock, 0, 100), run(gangs, native, 0, 40), run(gangs, muster, 0, 60),
				run(gangs, stock, 1, 60), run(gangs, native, 1, 60), run(gangs, muster, 1, 60),
			}, "0.84 MISSED", false,
		},
		"each round is compared in itself": {
			ordinary, report.Runs{
				run(ordinary, stock, 0, 100), run(ordinary, muster, 0, 98), run(ordinary, stock, 1, 10), run(ordinary, muster, 1, 9.8),
			}, "1.00", true,
		},
		"nothing to compare with": {ordinary, report.Runs{run(ordinary, muster, 0, 98)}, "", true},
		"not in time": {
			ordinary, report.Runs{run(ordinary, stock, 0, 1), {Workload: "o", Variant: muster, Pods: 1, PodsPerSecond: 9, TimedOut: true}}, "timed out", false,
		},
	}
	for name, c := range cases {
		outcome, ok := judge(c.runs, c.workload, variant{name: muster, muster: true})
		assert.Equal(t, c.outcome, outcome, name)
		assert.Equal(t, c.ok, ok, name)

		var out strings.Builder
		err := printTable(&out, &options{workloads: []workload{c.workload}, variants: variants}, c.runs)
		assert.Equal(t, c.ok, err == nil, name)
		assert.Contains(t, out.String(), "vs stock")
	}
}

func TestWorkloadsAreChosenByTheBeginningsOfTheirNames(t *testing.T) {
	all, err := chooseWorkloads("")
	require.NoError(t, err)
	assert.Len(t, all, len(workloads))
	some, err := chooseWorkloads("GangScheduling/1000x3,GangScheduling,Unschedulable")
	require.NoError(t, err)
	var names []string
	for _, w := range some {
		names = append(names, w.name)
	}
	assert.Equal(t, []string{"GangScheduling/1000x3", "GangScheduling/2000x3", "GangScheduling/3x1000", "GangScheduling/6x1000", "Unschedulable"}, names)
	_, err = chooseWorkloads("Nothing")
	require.ErrorContains(t, err, "--list shows all")
	_, err = chooseVariants("stock,nobody")
	assert.ErrorContains(t, err, `"nobody" is unknown`)
}

func TestRelativePathsBeginWhereMakeWasCalled(t *testing.T) {
	repository, err := filepath.Abs("../../..")
	require.NoError(t, err)
	elsewhere := t.TempDir()

	o, err := parse([]string{"--json", "test-results/gangs.json", "--etcd", "bin/etcd", "--scratch", elsewhere})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(repository, "test-results", "gangs.json"), o.json)
	assert.Equal(t, filepath.Join(repository, "test-results", "bench"), o.logs)
	assert.Equal(t, filepath.Join(repository, "bin", "etcd"), o.etcd)
	assert.Equal(t, elsewhere, o.scratch)
}
