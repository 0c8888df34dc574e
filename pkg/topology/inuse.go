package topology

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// LabelsInUse are the labels of nodes that a tree of these objects depends on.
func LabelsInUse(hyperNodes []HyperNode, lists []Labels) sets.Set[string] {
	inUse := sets.New[string]()
	add := func(selector labels.Selector) {
		if selector == nil {
			return
		}
		requirements, _ := selector.Requirements()
		for i := range requirements {
			inUse.Insert(requirements[i].Key())
		}
	}
	for i := range hyperNodes {
		for j := range hyperNodes[i].Members {
			add(hyperNodes[i].Members[j].Labels)
		}
	}
	for i := range lists {
		add(lists[i].Selector)
		for _, level := range lists[i].Levels {
			inUse.Insert(level.Key)
		}
	}
	return inUse
}
