package topology

import (
	"index/suffixarray"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// search finds nodes by name, pattern and labels. Thousands of HyperNodes search thousands of nodes, so it has an index for each.
type search struct {
	nodes   []Node
	byName  map[string]int
	byLabel map[string][]int // by "key=value", nil until it is needed
	text    *suffixarray.Index
	starts  []int // of each name in the text
}

func newSearch(nodes []Node) *search {
	s := &search{nodes: nodes, byName: make(map[string]int, len(nodes))}
	for n := range nodes {
		s.byName[nodes[n].Name] = n
	}
	return s
}

// matching returns the nodes whose name has a match of the pattern.
func (s *search) matching(pattern string) ([]int, error) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, n := range s.withLiteral(literalOf(pattern)) {
		if expression.MatchString(s.nodes[n].Name) {
			found = append(found, n)
		}
	}
	return found, nil
}

// withLiteral returns the nodes whose name has a text in it.
func (s *search) withLiteral(literal string) []int {
	if literal == "" {
		all := make([]int, len(s.nodes))
		for n := range all {
			all[n] = n
		}
		return all
	}
	if s.text == nil {
		var names strings.Builder
		for n := range s.nodes {
			s.starts = append(s.starts, names.Len())
			names.WriteString(s.nodes[n].Name + "\x00")
		}
		s.text = suffixarray.New([]byte(names.String()))
	}
	var found []int
	for _, at := range s.text.Lookup([]byte(literal), -1) {
		n, exact := slices.BinarySearch(s.starts, at)
		if !exact {
			n--
		}
		found = append(found, n)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// literalOf is a text that each match of a pattern has. It is empty if none is known.
func literalOf(pattern string) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	parsed = parsed.Simplify()
	longest := ""
	parts := []*syntax.Regexp{parsed}
	if parsed.Op == syntax.OpConcat {
		parts = parsed.Sub
	}
	for _, part := range parts {
		for part.Op == syntax.OpCapture {
			part = part.Sub[0]
		}
		if part.Op == syntax.OpLiteral && part.Flags&syntax.FoldCase == 0 && len(string(part.Rune)) > len(longest) {
			longest = string(part.Rune)
		}
	}
	return longest
}

// labeled returns the nodes whose labels match. An empty selector matches no node.
func (s *search) labeled(selector labels.Selector) (found []int) {
	if selector.Empty() {
		return nil
	}
	for _, n := range s.candidates(selector) {
		if selector.Matches(labels.Set(s.nodes[n].Labels)) {
			found = append(found, n)
		}
	}
	return found
}

// candidates are nodes that may match: those with the value of the first label that must be equal, else all.
func (s *search) candidates(selector labels.Selector) []int {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Operator() != selection.Equals && r.Operator() != selection.In || r.Values().Len() != 1 {
			continue
		}
		if s.byLabel == nil {
			s.byLabel = map[string][]int{}
			for n := range s.nodes {
				for key, value := range s.nodes[n].Labels {
					s.byLabel[key+"="+value] = append(s.byLabel[key+"="+value], n)
				}
			}
		}
		value, _ := r.Values().PopAny()
		return s.byLabel[r.Key()+"="+value]
	}
	return s.withLiteral("")
}
