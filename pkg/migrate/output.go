package migrate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// finding is a remark with the objects that it is about.
type finding struct {
	Remark
	kind    string
	objects []string
}

// index is the number of a task or a policy in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// named is how many objects a finding names.
const named = 3

// WriteText writes each remark once, with the objects that it is about, the gravest first. Then it counts.
func (r Report) WriteText(out io.Writer) error {
	var text strings.Builder
	for _, f := range r.findings() {
		fmt.Fprintf(&text, "%s: %s", f.Result, f.kind)
		if f.Field != "" {
			fmt.Fprintf(&text, " %s", f.Field)
		}
		fmt.Fprintf(&text, ": %s\n", f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(&text, "  do: %s\n", f.Remedy)
		}
		fmt.Fprintf(&text, "  in: %s\n", list(f.objects))
	}
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.counts())) {
		counts := r.counts()[kind]
		var parts []string
		for _, result := range gravity {
			if counts[result] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", counts[result], result))
			}
		}
		fmt.Fprintf(&text, "%s: %s\n", kind, strings.Join(parts, ", "))
	}
	for _, kind := range r.NotRead {
		fmt.Fprintf(&text, "not read: %s\n", kind)
	}
	fmt.Fprintf(&text, "objects: %d, of which %d would lose something\n", len(r.Objects), r.Lost)
	_, err := io.WriteString(out, text.String())
	return err
}

// findings joins equal remarks. Numbers of tasks and policies do not tell remarks apart.
func (r Report) findings() []finding {
	var all []finding
	known := map[Remark]map[string]int{}
	for _, object := range r.Objects {
		for _, remark := range object.Remarks {
			remark.Field = index.ReplaceAllString(remark.Field, "[*]")
			if known[remark] == nil {
				known[remark] = map[string]int{}
			}
			i, isKnown := known[remark][object.Kind]
			if !isKnown {
				i = len(all)
				known[remark][object.Kind] = i
				all = append(all, finding{Remark: remark, kind: object.Kind})
			}
			name := strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")
			if !slices.Contains(all[i].objects, name) {
				all[i].objects = append(all[i].objects, name)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(slices.Index(gravity, b.Result), slices.Index(gravity, a.Result)), cmp.Compare(a.kind, b.kind))
	})
	return all
}

// counts are the numbers of objects, by kind and result.
func (r Report) counts() map[string]map[Result]int {
	counts := map[string]map[Result]int{}
	for _, object := range r.Objects {
		if counts[object.Kind] == nil {
			counts[object.Kind] = map[Result]int{}
		}
		counts[object.Kind][object.Result]++
	}
	return counts
}

// list names a few objects, and counts the others.
func list(objects []string) string {
	if len(objects) <= named {
		return strings.Join(objects, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(objects[:named], ", "), len(objects)-named)
}
