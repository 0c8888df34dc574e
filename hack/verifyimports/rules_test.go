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
		"a declared peer is fine":          {"pkg/scheduler/state", module + "pkg/ledger", ""},
		"an undeclared peer is not":        {"pkg/quota", module + "pkg/gang", "no declared peer"},
		"one folder is one place":          {"pkg/job/policy", module + "pkg/job/phase", ""},
		"a folder's special part is lower": {"pkg/scheduler/state", module + "pkg/scheduler/plugins/capacity", "rank 3 must not import rank 4"},
		"the domain has no client":         {"pkg/gang", module + "pkg/client/clientset/versioned", "knows no client"},
		"the domain has no lock":           {"pkg/plan", "sync", "takes no lock"},
		"controllers know no scheduler":    {"pkg/controllers/queue", "k8s.io/kube-scheduler/framework", "only the scheduler's plugins"},
		"programs stand on top":            {"cmd/muster", module + "pkg/localcluster", ""},
		"products use no test help":        {"pkg/controllers/job", module + "pkg/testing", "both are of rank 4"},
		"the scheduler command has a home": {"cmd/muster-controller", "k8s.io/kubernetes/cmd/kube-scheduler/app", "only cmd/muster-scheduler may"},
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
