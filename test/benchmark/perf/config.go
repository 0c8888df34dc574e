package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// tree is YAML of which only some fields matter here; all other fields are passed on.
type tree = map[string]any

// writeTestCase writes the test case of a run into a folder and returns its file. The workload is upstream's; exchanged are
// the configuration of the scheduler, the gates, and what makes pods a gang.
func writeTestCase(upstream string, w workload, v variant, dir string) (string, error) {
	testCase, err := readTestCase(filepath.Join(upstream, w.folder, "performance-config.yaml"), w)
	if err != nil {
		return "", err
	}
	if testCase["schedulerConfigPath"], err = writeSchedulerConfig(v, dir); err != nil {
		return "", err
	}
	gates := tree{}
	if own, ok := testCase["featureGates"].(tree); ok {
		gates = own
	}
	own, err := v.ownGates()
	if err != nil {
		return "", err
	}
	for gate, on := range own {
		gates[gate] = on
	}
	if !v.native {
		delete(gates, "GenericWorkload")
		if err := exchangeGangs(testCase, filepath.Join(upstream, w.folder), w, v, dir); err != nil {
			return "", err
		}
	}
	testCase["featureGates"] = gates
	return write(dir, "performance-config.yaml", []tree{testCase})
}

// readTestCase returns the test case with the one workload, labelled so that it is run. Its measured pods are in the timed namespace.
func readTestCase(path string, w workload) (tree, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading upstream's workloads: %w", err)
	}
	var all []tree
	if err := yaml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("parsing upstream's workloads: %w", err)
	}
	testCase, err := named(all, w.testCase)
	if err != nil {
		return nil, err
	}
	size, err := named(trees(testCase["workloads"]), w.size)
	if err != nil {
		return nil, err
	}
	delete(size, "threshold") // ours are ratios
	size["labels"] = []string{"performance"}
	params, _ := size["params"].(tree)
	w.setParams(params)
	testCase["workloads"] = []tree{size}
	for _, op := range trees(testCase["workloadTemplate"]) {
		if op["collectMetrics"] == true {
			op["namespace"] = w.namespace()
		}
	}
	return testCase, nil
}

// exchangeGangs takes upstream's PodGroups away, and gives the pods Muster's or none.
func exchangeGangs(testCase tree, folder string, w workload, v variant, dir string) error {
	if w.gangs == 0 {
		return nil
	}
	ops := slices.DeleteFunc(trees(testCase["workloadTemplate"]), func(op tree) bool { return op["opcode"] == "createPodGroups" })
	for _, op := range ops {
		path, ok := op["podTemplatePath"].(string)
		if !ok {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return fmt.Errorf("reading upstream's pod: %w", err)
		}
		pod, err := exchangeGroup(string(data), v.muster)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, "pod.yaml")
		if err := os.WriteFile(path, []byte(pod), 0o600); err != nil {
			return fmt.Errorf("writing a pod: %w", err)
		}
		op["podTemplatePath"] = path
	}
	testCase["workloadTemplate"] = ops
	return nil
}

// Lines that make upstream's pod a member of a gang, and the beginning of its metadata.
const (
	groupName   = "gang-{{DivideInt .Index .podsPerGroup}}"
	nativeGroup = "  schedulingGroup:\n    podGroupName: " + groupName + "\n"
	metadata    = "metadata:\n"
)

// exchangeGroup takes a template of a pod out of upstream's PodGroup, and puts it into Muster's if asked. It is a text: the
// template is no YAML before it is executed.
func exchangeGroup(pod string, ours bool) (string, error) {
	if !strings.Contains(pod, nativeGroup) || !strings.Contains(pod, metadata) {
		return "", errors.New("upstream's pod of a gang has changed its form")
	}
	pod = strings.Replace(pod, nativeGroup, "", 1)
	if ours {
		annotation := "  annotations:\n    " + schedulingv1beta1.GroupNameAnnotation + ": " + groupName + "\n"
		pod = strings.Replace(pod, metadata, metadata+annotation, 1)
	}
	return pod, nil
}

// ourPlugins are the plugins that the stock profile does not have.
var ourPlugins = []string{"Coscheduling", "Capacity", "TaskPriority", "GangPreemption", "NodeGroup"}

// writeSchedulerConfig writes the configuration that Muster ships for benchmarks. Without Muster it is the same without our
// plugins: the arguments of the in-tree plugins stay.
func writeSchedulerConfig(v variant, dir string) (string, error) {
	if v.asShipped {
		config, err := shippedConfig()
		if err != nil {
			return "", err
		}
		return write(dir, "scheduler.yaml", config)
	}
	config, err := readConfig("scheduler/benchmark.yaml")
	if err != nil {
		return "", err
	}
	if !v.muster {
		for _, profile := range trees(config["profiles"]) {
			delete(profile, "plugins")
			profile["pluginConfig"] = slices.DeleteFunc(trees(profile["pluginConfig"]), func(plugin tree) bool {
				name, _ := plugin["name"].(string)
				return slices.Contains(ourPlugins, name)
			})
		}
	}
	return write(dir, "scheduler.yaml", config)
}

// shippedConfig is the configuration for a cluster. It replaces the parts that do not fit a benchmark. All pods are of one profile, there
// is no other leader, and no controller makes or admits PodGroups.
func shippedConfig() (tree, error) {
	config, err := readConfig("scheduler/second-scheduler.yaml")
	if err != nil {
		return nil, err
	}
	for _, profile := range trees(config["profiles"]) {
		if profile["schedulerName"] != "muster" {
			continue
		}
		profile["schedulerName"] = "default-scheduler"
		for _, plugin := range trees(profile["pluginConfig"]) {
			if plugin["name"] == "Coscheduling" {
				plugin["args"] = tree{"admission": "Ignore"}
			}
		}
		config["profiles"] = []any{profile}
		config["leaderElection"] = tree{"leaderElect": false}
		return config, nil
	}
	return nil, errors.New("what is shipped has no profile muster")
}

func readConfig(file string) (tree, error) {
	data, err := manifests.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	config := tree{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("parsing the scheduler's configuration: %w", err)
	}
	return config, nil
}

// ownGates are the gates that the variant sets.
func (v variant) ownGates() (map[string]bool, error) {
	if !v.asShipped {
		return v.gates, nil
	}
	data, err := manifests.FS.ReadFile("deploy/second-scheduler/deployment.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the deployment: %w", err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		return nil, fmt.Errorf("parsing the deployment: %w", err)
	}
	gates := map[string]bool{}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			value, ok := strings.CutPrefix(arg, "--feature-gates=")
			if !ok {
				continue
			}
			for _, gate := range strings.Split(value, ",") {
				name, on, _ := strings.Cut(gate, "=")
				if gates[name], err = strconv.ParseBool(on); err != nil {
					return nil, fmt.Errorf("reading the gates of the deployment: %w", err)
				}
			}
		}
	}
	return gates, nil
}

func write(dir, name string, content any) (string, error) {
	data, err := yaml.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}

// trees are the elements of a list of maps. The maps are the list's own, not copies.
func trees(list any) []tree {
	items, _ := list.([]any)
	all := make([]tree, 0, len(items))
	for _, item := range items {
		if t, ok := item.(tree); ok {
			all = append(all, t)
		}
	}
	return all
}

func named(list []tree, name string) (tree, error) {
	for _, item := range list {
		if item["name"] == name {
			return maps.Clone(item), nil
		}
	}
	return nil, fmt.Errorf("upstream has no workload %q any more", name)
}
