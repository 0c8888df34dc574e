package main

import (
	"fmt"
	"slices"
	"strings"
)

// module is what the names of the project's own packages begin with.
const module = "github.com/muster-sched/muster/"

// noControllers keeps the scheduler free of the controllers.
var noControllers = map[string]string{
	module + "pkg/controllers": "the controllers and the scheduler meet in the API only",
}

// layer is a folder and its place in the order: packages import only from layers of lower rank.
type layer struct {
	// folder, relative to the module; it stands for itself and what is below it.
	folder string
	rank   int
	// peers are the folders of the same rank that this one may import nonetheless. Packages of one folder always may.
	peers []string
	// banned are beginnings of import paths that the folder must not use, with the reason.
	banned map[string]string
}

// side is the rank of what stands beside the order: tests and programs use it, the product's packages do not.
const side = 4

// pure are the imports that keep a package from being a pure function of its arguments.
var pure = map[string]string{
	module + "pkg/client":         "the domain knows no client",
	"k8s.io/client-go/kubernetes": "the domain knows no client",
	"k8s.io/client-go/tools":      "the domain knows no client",
	"k8s.io/client-go/informers":  "the domain knows no client",
	"k8s.io/client-go/listers":    "the domain knows no client",
	"sync":                        "the domain takes no lock",
	"os":                          "the domain does no I/O",
	"net":                         "the domain does no I/O",
}

// noScheduler keeps the controllers free of the scheduler's packages, which are none of their business and heavy.
var noScheduler = map[string]string{
	"k8s.io/kubernetes/pkg/scheduler": "only the scheduler's plugins know the scheduler",
	"k8s.io/kube-scheduler":           "only the scheduler's plugins know the scheduler",
	module + "pkg/scheduler":          "the controllers and the scheduler meet in the API only",
}

// decides keep what decides about gangs from acting. It may ask the filters of a profile, and reads no API by itself.
var decides = map[string]string{
	module + "pkg/client":         "the decision knows no client",
	"k8s.io/client-go/kubernetes": "the decision knows no client",
	"k8s.io/client-go/tools":      "the decision knows no client",
	"sync":                        "the decision takes no lock",
	"os":                          "the decision does no I/O",
	"net":                         "the decision does no I/O",
}

// layers is the order of the folders. The first that matches counts, so a special folder stands before a general one.
var layers = []layer{
	{folder: "cmd", rank: 6},

	{folder: "pkg/scheduler/plugins", rank: 5, banned: noControllers},
	{folder: "pkg/scheduler/report", rank: 4, banned: noControllers},
	{folder: "pkg/scheduler/plan", rank: 4, banned: noControllers},
	{folder: "pkg/scheduler/dispatch", rank: 4, banned: noControllers},
	{folder: "pkg/scheduler/eviction", rank: 4, banned: noControllers},
	// The rooms of the scheduler's store. Each may use those below it.
	{folder: "pkg/scheduler/gangs", rank: 3, peers: []string{"pkg/scheduler/evict", "pkg/scheduler/state", "pkg/scheduler/gangmetrics", "pkg/ledger"}, banned: noControllers},
	{folder: "pkg/scheduler/evict", rank: 3, peers: []string{"pkg/scheduler/state", "pkg/scheduler/gangmetrics", "pkg/ledger"}, banned: noControllers},
	{folder: "pkg/scheduler/state", rank: 3, peers: []string{"pkg/scheduler/gangmetrics", "pkg/ledger"}, banned: noControllers},
	{folder: "pkg/scheduler/gangmetrics", rank: 3, peers: []string{"pkg/ledger"}, banned: noControllers},
	{folder: "pkg/scheduler/upstream", rank: 1, banned: map[string]string{
		module + "pkg/client": "it knows the scheduler's own clients only",
	}},
	{folder: "pkg/controllers/worker", rank: 3, banned: noScheduler},
	{folder: "pkg/controllers/usage", rank: 3, peers: []string{"pkg/ledger", "pkg/controllers/worker"}, banned: noScheduler},
	{folder: "pkg/controllers", rank: 4, banned: noScheduler},
	{folder: "pkg/explain", rank: 4, banned: pure},
	{folder: "pkg/ledger", rank: 3},
	{folder: "pkg/migrate", rank: 3, banned: pure},

	{folder: "pkg/admission", rank: 2, peers: []string{"pkg/gang", "pkg/quota", "pkg/reservations", "pkg/job"}, banned: pure},
	{folder: "pkg/startreview", rank: 2, peers: []string{"pkg/gang", "pkg/quota", "pkg/job"}, banned: pure},
	{folder: "pkg/gang", rank: 2, peers: []string{"pkg/job"}, banned: pure},
	{folder: "pkg/quota", rank: 2, banned: pure},
	{folder: "pkg/topology/watch", rank: 2, banned: noScheduler},
	{folder: "pkg/topology", rank: 1, banned: pure},
	{folder: "pkg/runtimes", rank: 1, banned: pure},
	{folder: "pkg/timeline", rank: 2, peers: []string{"pkg/quota"}, banned: pure},
	{folder: "pkg/placement", rank: 2, peers: []string{"pkg/gang", "pkg/quota"}, banned: decides},
	{folder: "pkg/reservations", rank: 2, peers: []string{"pkg/quota"}, banned: pure},
	{folder: "pkg/job", rank: 2, banned: pure},
	{folder: "pkg/phjob", rank: 2, banned: pure},

	{folder: "pkg/lint", rank: 2, banned: noScheduler},
	{folder: "pkg/history", rank: 2, banned: noScheduler},

	{folder: "pkg/client", rank: 1},

	{folder: "pkg/apis", rank: 0},
	{folder: "pkg/resources", rank: 0},
	{folder: "pkg/text", rank: 0},
	{folder: "pkg/connection", rank: 0},
	{folder: "pkg/described", rank: 0},
	{folder: "pkg/fence", rank: 0},
	{folder: "manifests", rank: 0},

	{folder: "pkg/localcluster", rank: side, banned: noScheduler},
	{folder: "pkg/testing", rank: side, peers: []string{"pkg/watchlog"}, banned: noScheduler},
	{folder: "pkg/watchlog", rank: side, banned: noScheduler},

	{folder: "test", rank: 7},
	{folder: "hack", rank: 7},
}

// upstream is what the import paths of the scheduler itself begin with. It is no library: parts that are no plugin interface may change
// with every release.
const upstream = "k8s.io/kubernetes"

// freeOfUpstream is the folder that may import all of upstream.
const freeOfUpstream = "pkg/scheduler/upstream"

// pluginInterfaces are the packages of upstream that out-of-tree plugins are made of.
var pluginInterfaces = []string{
	upstream + "/pkg/scheduler/apis/config",
	upstream + "/pkg/scheduler/apis/config/scheme",
	upstream + "/pkg/scheduler/apis/config/v1",
	upstream + "/pkg/scheduler/framework",
	upstream + "/pkg/scheduler/framework/plugins/defaultpreemption",
	upstream + "/pkg/scheduler/framework/plugins/names",
	upstream + "/pkg/scheduler/framework/preemption",
	upstream + "/pkg/scheduler/framework/runtime",
}

// moreOfUpstream are further packages of upstream that a folder may import.
var moreOfUpstream = map[string][]string{
	// A program of the user's own is built like this.
	"test/integration/plainprogram/scheduler": {upstream + "/cmd/kube-scheduler/app"},
	"pkg/controllers/job":                     {upstream + "/pkg/controller/util/consistency"},
	// The templates of a Job's pods are completed as the API server does with pods.
	"pkg/job/build": {upstream + "/pkg/apis/core/v1"},
	// It runs the scheduler itself, against an API server in memory.
	"test/simulation": {upstream + "/pkg/scheduler"},
	// Both programs must mean the same by a system-critical pod.
	"pkg/gang": {upstream + "/pkg/apis/scheduling"},
}

// mayUse says whether a package (relative to the module) may import a path of upstream.
func mayUse(pkg, path string) bool {
	return within(pkg, freeOfUpstream) || slices.Contains(pluginInterfaces, path) || slices.Contains(moreOfUpstream[pkg], path)
}

// within says whether a path is a folder or below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// layerOf returns the layer of a package, which is given relative to the module.
func layerOf(pkg string) (layer, bool) {
	for _, l := range layers {
		if within(pkg, l.folder) {
			return l, true
		}
	}
	return layer{}, false
}

// objections returns what is wrong with the imports of a package, in the order of the imports. Both are full import
// paths.
func objections(pkg string, imports []string) []string {
	from := strings.TrimPrefix(pkg, module)
	own, known := layerOf(from)
	if !known {
		return []string{fmt.Sprintf("%s has no place in the order: give it one in hack/verifyimports/rules.go", from)}
	}
	var wrong []string
	for _, path := range imports {
		if reason := own.objection(path); reason != "" {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", from, strings.TrimPrefix(path, module), reason))
		}
		if within(path, upstream) && !mayUse(from, path) {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: only %s may, as it is no plugin interface", from, path, freeOfUpstream))
		}
	}
	return wrong
}

// objection says why a layer must not import a path, or nothing.
func (l layer) objection(path string) string {
	for prefix, reason := range l.banned {
		if within(path, prefix) {
			return reason
		}
	}
	to, own := strings.CutPrefix(path, module)
	if !own || within(to, l.folder) {
		return ""
	}
	target, known := layerOf(to)
	switch {
	case !known:
		return "which has no place in the order"
	case target.rank < l.rank:
		return ""
	case target.rank == l.rank && slices.ContainsFunc(l.peers, func(peer string) bool { return within(to, peer) }):
		return ""
	case target.rank == l.rank:
		return fmt.Sprintf("both are of rank %d, and it is no declared peer", l.rank)
	default:
		return fmt.Sprintf("rank %d must not import rank %d", l.rank, target.rank)
	}
}
