package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestObjections(t *testing.T) {
	for name, c := range map[string]struct {
		pkg    string
		path   string
		reason string // part of the objection; empty: none
	}{
		"down is fine":                     {"pkg/ledger", module + "pkg/quota", ""},
		"up is not":                        {"pkg/quota", module + "pkg/ledger", "rank 2 must not import rank 3"},
		"sideways is not":                  {"pkg/scheduler/plugins/capacity", module + "pkg/controllers/job", "meet in the API"},
		"a declared peer is fine":          {"pkg/scheduler/gangs", module + "pkg/ledger", ""},
		"an undeclared peer is not":        {"pkg/quota", module + "pkg/gang", "no declared peer"},
		"one folder is one place":          {"pkg/job/policy", module + "pkg/job/phase", ""},
		"plugins are above the tracker":    {"pkg/scheduler/gangs", module + "pkg/scheduler/plugins/capacity", "rank 3 must not import rank 5"},
		"reports are above the tracker":    {"pkg/scheduler/gangs", module + "pkg/scheduler/report", "rank 3 must not import rank 4"},
		"plugins are above reports":        {"pkg/scheduler/report", module + "pkg/scheduler/plugins", "rank 4 must not import rank 5"},
		"plugins use reports":              {"pkg/scheduler/plugins", module + "pkg/scheduler/report", ""},
		"the tracker uses upstream":        {"pkg/scheduler/gangs", module + "pkg/scheduler/upstream", ""},
		"upstream knows no gangs":          {"pkg/scheduler/upstream", module + "pkg/gang", "rank 1 must not import rank 2"},
		"upstream knows no tracker":        {"pkg/scheduler/upstream", module + "pkg/scheduler/gangs", "rank 1 must not import rank 3"},
		"upstream knows no client of ours": {"pkg/scheduler/upstream", module + "pkg/client/clientset/versioned", "scheduler's own clients"},
		"upstream may use resources":       {"pkg/scheduler/upstream", module + "pkg/resources", ""},
		"placement knows gangs":            {"pkg/placement", module + "pkg/gang", ""},
		"placement knows no reservations":  {"pkg/placement", module + "pkg/reservations", "no declared peer"},
		"placement takes no lock":          {"pkg/placement", "sync", "takes no lock"},
		"placement has no client":          {"pkg/placement", "k8s.io/client-go/kubernetes", "knows no client"},
		"reservations know quota":          {"pkg/reservations", module + "pkg/quota", ""},
		"reservations take no lock":        {"pkg/reservations", "sync", "takes no lock"},
		"the domain has no client":         {"pkg/gang", module + "pkg/client/clientset/versioned", "knows no client"},
		"the domain has no lock":           {"pkg/gang", "sync", "takes no lock"},
		"a plan of a Job has no lock":      {"pkg/job/plan", "sync", "takes no lock"},
		"a plan of a Job has no client":    {"pkg/job/plan", module + "pkg/client/clientset/versioned", "knows no client"},
		"a plan knows no controller":       {"pkg/job/plan", module + "pkg/controllers/worker", "rank 2 must not import rank 3"},
		"controllers know no scheduler":    {"pkg/controllers/queue", "k8s.io/kube-scheduler/framework", "only the scheduler's plugins"},
		"programs stand on top":            {"cmd/muster", module + "pkg/localcluster", ""},
		"products use no test help":        {"pkg/controllers/job", module + "pkg/testing", "both are of rank 4"},
		"the scheduler command has a home": {"cmd/muster-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler/app", "only pkg/scheduler/upstream may"},
		"upstream has it":                  {"pkg/scheduler/upstream", "k8s.io/kubernetes/cmd/kube-scheduler/app/options", ""},
		"a plain program has it":           {"test/integration/plainprogram/scheduler", "k8s.io/kubernetes/cmd/kube-scheduler/app", ""},
		"plugins use the framework":        {"pkg/scheduler/plugins/capacity", "k8s.io/kubernetes/pkg/scheduler/framework", ""},
		"and nothing below it":             {"pkg/scheduler/plugins/capacity", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources", "no plugin interface"},
		"nor beside it":                    {"pkg/scheduler/gangs", "k8s.io/kubernetes/pkg/scheduler/backend/queue", "no plugin interface"},
		"nor the scheduler":                {"pkg/scheduler/report", "k8s.io/kubernetes/pkg/scheduler", "no plugin interface"},
		"preemption is one":                {"pkg/placement", "k8s.io/kubernetes/pkg/scheduler/framework/preemption", ""},
		"its helpers are not":              {"pkg/scheduler/plugins/gangpreemption", "k8s.io/kubernetes/pkg/scheduler/util", "no plugin interface"},
		"nor are the scheduler's metrics":  {"pkg/scheduler/plugins/gangpreemption", "k8s.io/kubernetes/pkg/scheduler/metrics", "no plugin interface"},
		"other modules are free":           {"pkg/controllers/job", "k8s.io/client-go/kubernetes", ""},
		"a new folder needs a place":       {"pkg/new", "fmt", "has no place in the order"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := objections(module+c.pkg, []string{c.path})
			if c.reason == "" {
				assert.Empty(t, wrong)
				return
			}
			if assert.Len(t, wrong, 1) {
				assert.Contains(t, wrong[0], c.pkg)
				assert.Contains(t, wrong[0], c.reason)
			}
		})
	}
}
