package localcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The components of a cluster, by name. The name is also that of the binary and the log.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KWOK                  = "kwok"
	KubeScheduler         = "kube-scheduler"
	MusterScheduler       = "muster-scheduler"
	MusterController      = "muster-controller"
	RealNode              = "real-node"
)

// optionalComponents are the ones that a cluster can do without.
var optionalComponents = []string{KWOK, KubeScheduler, MusterScheduler, MusterController, RealNode}

// Component is one process of a cluster.
type Component struct {
	// Name is unique in the cluster.
	Name string
	// Binary is the absolute path of the program.
	Binary string
	// Args are its command line flags.
	Args []string
	// Ports are the purposes of the reserved ports that it listens on.
	Ports []string
	// URL is where it serves its metrics, "" if only its own clients may ask it.
	URL string
	// After names the components that must be ready before this one starts.
	After []string
	// Ready returns nil once the component serves. It is asked again and again.
	Ready func(ctx context.Context) error
	// Grace is how long the component may take to stop. With 0 it is killed at once, which
	// suits parts whose data goes away with the cluster.
	Grace time.Duration
	// OwnNamespaces gives it PID and mount namespaces of its own, which end with it.
	OwnNamespaces bool
}

// catalogue lists every component that there is, in the order in which people think of them. makers has the maker of each.
var catalogue = []struct{ name string }{
	{Etcd}, {KubeAPIServer}, {KubeControllerManager}, {KWOK}, {KubeScheduler}, {MusterScheduler}, {MusterController}, {RealNode},
}

// startGroups orders components so that each group needs only earlier groups. The members of a
// group may start at the same time. It fails on an unknown name and on a cycle.
func startGroups(components []Component) ([][]Component, error) {
	known := map[string]bool{}
	for _, component := range components {
		known[component.Name] = true
	}
	for _, component := range components {
		for _, name := range component.After {
			if !known[name] {
				return nil, fmt.Errorf("component %s needs %s, which is not part of the cluster", component.Name, name)
			}
		}
	}

	var groups [][]Component
	started := map[string]bool{}
	waiting := slices.Clone(components)
	for len(waiting) > 0 {
		var group, rest []Component
		for _, component := range waiting {
			if allIn(started, component.After) {
				group = append(group, component)
			} else {
				rest = append(rest, component)
			}
		}
		if len(group) == 0 {
			return nil, fmt.Errorf("components need each other in a circle: %s", strings.Join(names(rest), ", "))
		}
		for _, component := range group {
			started[component.Name] = true
		}
		groups, waiting = append(groups, group), rest
	}
	return groups, nil
}

func allIn(set map[string]bool, wanted []string) bool {
	for _, name := range wanted {
		if !set[name] {
			return false
		}
	}
	return true
}

func names(components []Component) []string {
	var out []string
	for _, component := range components {
		out = append(out, component.Name)
	}
	return out
}
