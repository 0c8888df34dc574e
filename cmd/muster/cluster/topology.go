package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/topology"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// domain is what a domain of the network has free.
type domain struct {
	Path     string              `json:"path"`
	Tier     int                 `json:"tier"`
	TierName string              `json:"tierName,omitempty"`
	Nodes    int                 `json:"nodes"`
	Free     corev1.ResourceList `json:"free"`
	// Fits is how many pods of the given kind fit; missing if none was given.
	Fits *int `json:"fits,omitempty"`
}

// domainsOf are the domains in the order of their paths, with what their nodes have free.
func domainsOf(tree *topology.Tree, facts explain.Facts, pod *corev1.Pod) []domain {
	byName := map[string]explain.Room{}
	for _, room := range explain.Rooms(facts.Nodes, facts.Bound) {
		byName[room.Node.Name] = room
	}
	domains := []domain{}
	for i := 1; i < len(tree.Domains); i++ {
		d, free := tree.Domains[i], resources.List{}
		var rooms []explain.Room
		for _, name := range tree.Names(i) {
			room := byName[name]
			rooms = append(rooms, room)
			if room.Refuses(&corev1.Pod{}) == "" {
				free.Add(room.Free)
			}
		}
		made := domain{Path: d.Path, Tier: d.Tier, TierName: d.TierName, Nodes: d.Size(), Free: free.ToResourceList()}
		if pod != nil {
			fits := explain.Fit(rooms, pod)
			made.Fits = &fits
		}
		domains = append(domains, made)
	}
	return domains
}

// domainTable lists domains, each below the one around it.
func domainTable(domains []domain, counted bool) *metav1.Table {
	names := map[corev1.ResourceName]bool{}
	for _, d := range domains {
		for name := range d.Free {
			names[name] = name != corev1.ResourceEphemeralStorage
		}
	}
	maps.DeleteFunc(names, func(_ corev1.ResourceName, shown bool) bool { return !shown })
	columns := slices.Sorted(maps.Keys(names))
	headings := []string{"DOMAIN", "TIER", "NODES"}
	for _, name := range columns {
		headings = append(headings, "FREE "+string(name))
	}
	if counted {
		headings = append(headings, "FIT")
	}
	table := kube.NewTable(headings...)
	for _, d := range domains {
		tier, free := fmt.Sprint(d.Tier), resources.FromResourceList(d.Free)
		if d.TierName != "" {
			tier += " " + d.TierName
		}
		cells := []any{strings.Repeat("  ", strings.Count(d.Path, "/")) + d.Path, tier, d.Nodes}
		for _, name := range columns {
			cells = append(cells, resources.Format(name, free[name]))
		}
		if d.Fits != nil {
			cells = append(cells, *d.Fits)
		}
		kube.AddRow(table, cells...)
	}
	return table
}

// largestInDomains says for each tier how large a gang may be that stays in one domain.
func largestInDomains(domains []domain) string {
	best := map[int]domain{}
	for _, d := range domains {
		if b, known := best[d.Tier]; d.Fits != nil && (!known || *d.Fits > *b.Fits) {
			best[d.Tier] = d
		}
	}
	var text strings.Builder
	for _, tier := range slices.Sorted(maps.Keys(best)) {
		fmt.Fprintf(&text, "The largest gang of such pods in one domain of tier %d has %d, in %s.\n", tier, *best[tier].Fits, best[tier].Path)
	}
	return text.String()
}
