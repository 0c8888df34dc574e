// Package topology knows which nodes are close to each other in the network, and chooses nodes for gangs. It is pure.
package topology

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// HyperNode is an object that names the members of a domain.
type HyperNode struct {
	Name     string
	Created  time.Time
	Tier     int
	TierName string
	Members  []Member
}

// MemberType is the type of a member of a HyperNode.
type MemberType string

// The types of members.
const (
	NodeMember      MemberType = "Node"
	HyperNodeMember MemberType = "HyperNode"
)

// Member selects nodes or HyperNodes. Exactly one of Exact, Pattern and Labels must be set.
type Member struct {
	Type    MemberType
	Exact   string
	Pattern string
	Labels  labels.Selector
}

// Labels is a list of node labels whose values name the domains of a node.
type Labels struct {
	// Kind and Name are those of the object that has the list. Faults name it.
	Kind, Name string
	// Selector selects the nodes; nil selects all.
	Selector labels.Selector
	// Levels, the widest first.
	Levels []Level
}

// Level is a label and the tier of the domains that its values name.
type Level struct {
	Key      string
	TierName string
	Tier     int
}

// Node is a node of the cluster.
type Node struct {
	Name   string
	Labels map[string]string
}

// Fault is a mistake in an object. Only the part of the object that Field names is left out.
type Fault struct {
	// Kind and Object name the object.
	Kind, Object string
	// Field is the path of the field in the object.
	Field string
	// Reason is a word in CamelCase.
	Reason string
	// Message says what is wrong, and what is left out for it.
	Message string
	// Remedy says what to do.
	Remedy string
}

// The reasons of faults.
const (
	NoMembers           = "NoMembers"
	InvalidMember       = "InvalidMember"
	InvalidPattern      = "InvalidPattern"
	UnsupportedSelector = "UnsupportedSelector"
	MemberNotFound      = "MemberNotFound"
	TwoParents          = "TwoParents"
	Cycle               = "Cycle"
	TierNotAbove        = "TierNotAbove"
	NodeInTwoDomains    = "NodeInTwoDomains"
	LabelMissing        = "LabelMissing"
	NoNodes             = "NoNodes"
	AllNodesTaken       = "AllNodesTaken"
)

// HyperNodeKind is the kind of HyperNodes in faults.
const HyperNodeKind = "HyperNode"

// Root is the index of the domain that holds all nodes, also the nodes that no other domain has.
const Root = 0

// Tree is the domains of a cluster. It does not change.
type Tree struct {
	// Domains, each before the domains in it. The first one is the root.
	Domains []Domain
	// Nodes has the names of the nodes in the order of their paths. So the nodes of a domain follow each other.
	Nodes []string
	// Generation is the same for trees with the same domains and nodes.
	Generation uint64

	indexes  map[string]int // of nodes, by name
	domainOf []int          // of each node: the lowest domain
	objects  map[string]int // domains by the name of their HyperNode
	placed   map[string]int // nodes that a list of labels has put into domains, by its kind and name
	faults   []Fault
}

// Domain is nodes that share a part of the network.
type Domain struct {
	// Path has the names of the domain and of all domains around it, with slashes between them. It is empty for the root.
	Path string
	// Name of the domain, which other domains may have as well.
	Name string
	// Tier of the domain. A lower one is closer.
	Tier int
	// TierName is the name of the tier, or empty.
	TierName string
	// Parent is the index of the next wider domain, -1 for the root.
	Parent int
	// Children are the indexes of the domains directly in this one.
	Children []int
	// End is behind the index of the last domain in this one.
	End int
	// From and To bound the nodes of the domain: From is the first, To is behind the last.
	From, To int
	// Members is how many members the HyperNode names, absent nodes included. It is 0 for domains of labels.
	Members int
}

// Size is the number of nodes.
func (d *Domain) Size() int { return d.To - d.From }

// Faults are the mistakes in the objects of the tree, in the order of the objects.
func (t *Tree) Faults() []Fault { return t.faults }

// IsKnown says whether there is any domain below the root.
func (t *Tree) IsKnown() bool { return len(t.Domains) > 1 }

// IndexOf is the index of a node, -1 if it is not known.
func (t *Tree) IndexOf(node string) int {
	if n, ok := t.indexes[node]; ok {
		return n
	}
	return -1
}

// DomainOf is the lowest domain of a node.
func (t *Tree) DomainOf(node int) int { return t.domainOf[node] }

// PathOf is the path of the lowest domain of a node. It is empty for a node that is in no domain or is not known.
func (t *Tree) PathOf(node string) string {
	if n, ok := t.indexes[node]; ok {
		return t.Domains[t.domainOf[n]].Path
	}
	return ""
}

// OfPath returns the domain of a path. It has none if there is no such domain.
func (t *Tree) OfPath(path string) (Domain, bool) {
	d := Root
	for {
		of := &t.Domains[d]
		if of.Path == path {
			return *of, true
		}
		next := slices.IndexFunc(of.Children, func(child int) bool { return strings.HasPrefix(path+"/", t.Domains[child].Path+"/") })
		if next < 0 {
			return Domain{}, false
		}
		d = of.Children[next]
	}
}

// OfHyperNode returns the domain of a HyperNode. It has none if there is no such HyperNode.
func (t *Tree) OfHyperNode(name string) (Domain, bool) {
	d, ok := t.objects[name]
	if !ok {
		return Domain{}, false
	}
	return t.Domains[d], true
}

// NodesOf is how many nodes a list of labels has put into domains. The list is named by its kind and name.
func (t *Tree) NodesOf(kind, name string) int { return t.placed[kind+"/"+name] }

// Contains says whether a domain is another one or around it.
func (t *Tree) Contains(outer, inner int) bool {
	return outer <= inner && inner < t.Domains[outer].End
}

// CommonDomain is the lowest domain that has all of the nodes. Nodes that are not known are left out. It is -1 for no nodes.
func (t *Tree) CommonDomain(nodes []string) int {
	common := -1
	for _, name := range nodes {
		n, ok := t.indexes[name]
		if !ok {
			continue
		}
		if common < 0 {
			common = t.domainOf[n]
		}
		for n < t.Domains[common].From || n >= t.Domains[common].To {
			common = t.Domains[common].Parent
		}
	}
	return common
}

// Names of the nodes of a domain.
func (t *Tree) Names(domain int) []string {
	return t.Nodes[t.Domains[domain].From:t.Domains[domain].To]
}

// Build makes the tree. A HyperNode that has a node counts before all lists of labels, and these count in their order. The order of the HyperNodes and of the nodes does not matter.
func Build(hyperNodes []HyperNode, lists []Labels, nodes []Node) *Tree {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	b := &builder{nodes: nodes, domainOf: make([]*domain, len(nodes))}
	b.addHyperNodes(hyperNodes)
	for i := range lists {
		b.addLabels(&lists[i])
	}
	return b.tree()
}

// builder collects the domains of a tree.
type builder struct {
	nodes    []Node    // by name
	domainOf []*domain // of each node, nil for none
	tops     []*domain // without a parent
	byChain  map[string]*domain
	placed   map[string]int // by kind and name of the list
	search   *search
	faults   []Fault
}

// domain is a domain that is not in its place yet.
type domain struct {
	name, tierName, source string
	tier, members          int
	parent                 *domain
	children               []*domain
	nodes                  []int
	hyperNode              bool
}

func (d *domain) add(child *domain) {
	child.parent = d
	d.children = append(d.children, child)
}

// tree puts all domains in their order.
func (b *builder) tree() *Tree {
	root := &domain{children: b.tops}
	for n, d := range b.domainOf {
		if d == nil {
			d = root
		}
		d.nodes = append(d.nodes, n)
	}
	t := &Tree{indexes: make(map[string]int, len(b.nodes)), objects: map[string]int{}, placed: b.placed, faults: b.faults}
	b.put(t, root, -1, "")
	for d := range t.Domains[1:] {
		t.Domains[Root].Tier = max(t.Domains[Root].Tier, t.Domains[d+1].Tier+1)
	}
	t.Domains[Root].Tier = max(1, t.Domains[Root].Tier)
	t.domainOf = make([]int, len(t.Nodes))
	for d := range t.Domains { // domains come after those around them
		for n := t.Domains[d].From; n < t.Domains[d].To; n++ {
			t.domainOf[n] = d
		}
	}
	for n, name := range t.Nodes {
		t.indexes[name] = n
	}
	t.Generation = t.fingerprint()
	return t
}

// put adds a domain and all domains in it.
func (b *builder) put(t *Tree, d *domain, parent int, path string) {
	index := len(t.Domains)
	t.Domains = append(t.Domains, Domain{
		Path: path, Name: d.name, Tier: d.tier, TierName: d.tierName, Parent: parent, From: len(t.Nodes), Members: d.members,
	})
	if d.hyperNode {
		t.objects[d.name] = index
	}
	slices.SortFunc(d.children, func(x, y *domain) int {
		return strings.Compare(x.name+"\x00"+x.source, y.name+"\x00"+y.source)
	})
	var children []int
	used := map[string]bool{}
	for i, child := range d.children {
		segment := child.name
		if used[segment] { // two sources have the same name
			segment = child.source + ":" + child.name
		}
		if used[segment] {
			segment += "#" + strconv.Itoa(i)
		}
		used[segment] = true
		if path != "" {
			segment = path + "/" + segment
		}
		children = append(children, len(t.Domains))
		b.put(t, child, index, segment)
	}
	for _, n := range d.nodes {
		t.Nodes = append(t.Nodes, b.nodes[n].Name)
	}
	t.Domains[index].Children, t.Domains[index].End, t.Domains[index].To = children, len(t.Domains), len(t.Nodes)
}

// fingerprint is a number for the domains and nodes of the tree.
func (t *Tree) fingerprint() uint64 {
	hash := fnv.New64a()
	var number [8]byte
	write := func(text string, numbers ...int) {
		_, _ = hash.Write([]byte(text))
		for _, value := range numbers {
			for i := range number {
				number[i] = byte(value >> (8 * i))
			}
			_, _ = hash.Write(number[:])
		}
	}
	for i := range t.Domains {
		d := &t.Domains[i]
		write(d.Path+"\x00"+d.TierName+"\x00", d.Tier, d.Parent, d.From, d.To)
	}
	for _, name := range t.Nodes {
		write(name + "\x00")
	}
	return hash.Sum64()
}
