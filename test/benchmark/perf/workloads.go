package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// workload is one of upstream's, taken from the files of scheduler_perf. Its name is upstream's.
type workload struct {
	// name in our table.
	name string
	// folder below scheduler_perf whose performance-config.yaml has it, the test case there, and the workload of that.
	folder, testCase, size string
	// params replace upstream's where these are too many for the machine; --list and the docs say so.
	params map[string]int
	// gangs and pods of each, if the pods are gangs.
	gangs, pods int
	// scale is the part of the nodes and pods that there are, 0 for all.
	scale float64
}

const (
	gangFolder    = "podgroup/gangscheduling"
	gangNamespace = "gang-ns-0"
)

var workloads = []workload{
	{
		name: "SchedulingBasic", folder: "misc", testCase: "SchedulingBasic", size: "5000Nodes_10000Pods",
	},
	{
		name: "GangScheduling/1000x3", folder: gangFolder, testCase: "GangScheduling", size: "5000Nodes_1000Gangs_3000Pods",
		gangs: 1000, pods: 3,
	},
	{
		name: "GangScheduling/2000x3", folder: gangFolder, testCase: "GangScheduling", size: "5000Nodes_2000Gangs_6000Pods",
		gangs: 2000, pods: 3,
	},
	{
		name: "GangScheduling/3x1000", folder: gangFolder, testCase: "GangScheduling", size: "5000Nodes_3Gangs_3000Pods_1000PerGroup",
		gangs: 3, pods: 1000,
	},
	{
		name: "GangScheduling/6x1000", folder: gangFolder, testCase: "GangScheduling", size: "5000Nodes_6Gangs_6000Pods_1000PerGroup",
		gangs: 6, pods: 1000,
	},
	{
		name: "SchedulingWithMixedChurn", folder: "misc", testCase: "SchedulingWithMixedChurn", size: "5000Nodes_10000Pods",
	},
	{
		name: "Unschedulable", folder: "default_preemption", testCase: "Unschedulable", size: "5kNodes/100Init/10kPods",
	},
	{
		name: "SchedulingWhileGated", folder: "misc", testCase: "SchedulingWhileGated", size: "1Node_10000GatedPods",
		// All pods are on one node, whose list is copied for each pod. On two cores upstream's 20,000 of both take minutes, 9 ms of
		// processor time for each pod. At 50 a second these are deleted for 100 s, so until after the last measured pod.
		params: map[string]int{"deletingPods": 5000, "measurePods": 10000},
	},
	{
		name: "PreemptionBasic", folder: "default_preemption", testCase: "PreemptionBasic", size: "1000Nodes",
	},
}

// variant is a way to schedule the pods of a workload.
type variant struct {
	name, about string
	// muster says that our plugins schedule them; otherwise the stock profile does, with the same arguments of the in-tree
	// plugins.
	muster bool
	// native says that the pods are gangs of upstream's own PodGroups. The variant is for gangs only.
	native bool
	// gates of the scheduler and the API server, beside the workload's own.
	gates map[string]bool
	// asShipped says that arguments and gates are as in the manifests for a cluster.
	asShipped bool
}

// alike are the gates that both sides run with. They save the status write for a node that a pod is expected on.
var alike = map[string]bool{"NominatedNodeNameForExpectation": false}

// The names of the variants.
const (
	stock   = "stock"
	native  = "native"
	muster  = "muster"
	shipped = "shipped"
)

var variants = []variant{
	{name: stock, about: "the upstream profile; gangs are the same pods without gangs", gates: alike},
	{name: native, about: "the upstream profile with upstream's GangScheduling", native: true, gates: alike},
	{name: muster, about: "Muster's plugins, all else as with stock", muster: true, gates: alike},
	{name: shipped, about: "Muster's plugins, arguments and gates as in manifests/deploy/second-scheduler", muster: true, asShipped: true},
}

// runs says whether a variant is for a workload.
func (v variant) runs(w workload) bool { return !v.native || w.gangs > 0 }

// gangsOf says how many of Muster's PodGroups there are to create.
func (v variant) gangsOf(w workload) int {
	if v.muster {
		return w.gangs
	}
	return 0
}

// scaled is the workload with a part of its nodes and pods. There are fewer gangs where there are many, and otherwise smaller ones.
func (w workload) scaled(scale float64) workload {
	if scale == 1 {
		return w
	}
	part := func(n int) int { return int(math.Ceil(float64(n) * scale)) }
	if w.gangs > w.pods {
		w.gangs = part(w.gangs)
	} else {
		w.pods = part(w.pods)
	}
	w.scale = scale
	w.name += fmt.Sprintf("@%g", scale) // no figures to compare with the whole
	return w
}

// differs says what is not upstream's, "" if nothing is.
func (w workload) differs() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(w.params)) {
		words = append(words, fmt.Sprintf("%s %d", name, w.params[name]))
	}
	if len(words) == 0 {
		return ""
	}
	return ", but " + strings.Join(words, ", ")
}

// setParams sets what differs from upstream.
func (w workload) setParams(params tree) {
	for name, value := range w.params {
		params[name] = float64(value)
	}
	for name, value := range params {
		if number, ok := value.(float64); ok && w.scale != 0 {
			params[name] = math.Ceil(number * w.scale)
		}
	}
	if w.gangs > 0 {
		params["initPodGroups"], params["podsPerGroup"] = w.gangs, w.pods
	}
}

// namespace is where the pods are that are timed.
func (w workload) namespace() string {
	if w.gangs > 0 {
		return gangNamespace
	}
	return "measured"
}

// chooseWorkloads finds workloads by the beginnings of their names; "" chooses all.
func chooseWorkloads(names string) ([]workload, error) {
	var chosen []workload
	for _, name := range strings.Split(names, ",") {
		n := len(chosen)
		for _, w := range workloads {
			if strings.HasPrefix(w.name, name) && !slices.ContainsFunc(chosen, func(c workload) bool { return c.name == w.name }) {
				chosen = append(chosen, w)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("--workloads: no further name begins with %q; --list shows all", name)
		}
	}
	return chosen, nil
}

func chooseVariants(names string) ([]variant, error) {
	var chosen []variant
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(variants, func(v variant) bool { return v.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--variants: %q is unknown; --list shows all", name)
		}
		chosen = append(chosen, variants[i])
	}
	return chosen, nil
}
