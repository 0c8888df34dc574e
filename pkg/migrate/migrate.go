// Package migrate says what a move from Volcano does to each object. It names what is kept, what differs, what has no effect, and what is refused.
// The judges are those of pkg/lint, or the API server itself, and the rules of pkg/job. Only what Volcano does otherwise is written here.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/pkg/lint"
)

// Result says what becomes of an object or a part of it.
type Result string

// Results, from the lightest to the gravest.
const (
	// Kept means the same as in Volcano.
	Kept Result = "kept"
	// Differs works, and not in every respect as in Volcano.
	Differs Result = "differs"
	// Ignored is taken without effect, or dropped.
	Ignored Result = "ignored"
	// Waits means that the API server takes the object, and that its pods never start.
	Waits Result = "waits"
	// Refused means that the API server does not take the object.
	Refused Result = "refused"
)

// gravity orders results.
var gravity = []Result{Kept, Differs, Ignored, Waits, Refused}

// Remark is about one field of an object.
type Remark struct {
	Result Result `json:"result"`
	// Field is its path; empty for the whole object.
	Field string `json:"field,omitempty"`
	// Message says what happens.
	Message string `json:"message"`
	// Remedy says what to do. It is empty if the message says it.
	Remedy string `json:"remedy,omitempty"`
	// Lost says that something works in Volcano and not in Muster.
	Lost bool `json:"lost"`
}

// Object is what becomes of one object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// File is where the object was read; empty if it is of a cluster.
	File string `json:"file,omitempty"`
	// Result is the gravest of the remarks.
	Result Result `json:"result"`
	// Lost says that a remark is about something that is lost.
	Lost bool `json:"lost"`
	// Kept are the fields that no remark is about.
	Kept []string `json:"kept"`
	// Remarks are in the order of fields.
	Remarks []Remark `json:"remarks"`
}

// Report is about all objects.
type Report struct {
	Objects []Object `json:"objects"`
	// Lost is the number of objects that lose something.
	Lost int `json:"lost"`
	// NotRead are the kinds that the user may not read, each with the right that is missing.
	NotRead []string `json:"notRead"`
}

// Judge says whether the API server takes an object.
type Judge interface {
	// Judge returns what is refused, and what the API server warns of.
	Judge(ctx context.Context, object lint.Object) (refused, warnings []Remark, err error)
}

// Check says what becomes of each object.
func Check(ctx context.Context, judge Judge, objects []lint.Object) (Report, error) {
	report := Report{Objects: []Object{}, NotRead: []string{}}
	known := queuesOf(objects)
	for _, object := range objects {
		remarks, isOurs, err := remarksOn(ctx, judge, object, known)
		if err != nil {
			return report, fmt.Errorf("%s %s: %w", object.Content.GetKind(), object.Content.GetName(), err)
		}
		if !isOurs {
			continue
		}
		answer := summarize(object, remarks)
		if answer.Lost {
			report.Lost++
		}
		report.Objects = append(report.Objects, answer)
	}
	return report, nil
}

// queuesOf are the names of the queues among the objects. It is nil if there is none: then no queue is known to be missing.
func queuesOf(objects []lint.Object) map[string]bool {
	var names map[string]bool
	for _, object := range objects {
		if object.Content.GroupVersionKind().GroupKind() == queueKind {
			if names == nil {
				names = map[string]bool{"default": true}
			}
			names[object.Content.GetName()] = true
		}
	}
	return names
}

// summarize makes the answer of the remarks.
func summarize(object lint.Object, remarks []Remark) Object {
	slices.SortStableFunc(remarks, func(a, b Remark) int { return cmp.Compare(a.Field, b.Field) })
	content := object.Content
	answer := Object{
		APIVersion: content.GetAPIVersion(), Kind: content.GetKind(), Namespace: content.GetNamespace(), Name: content.GetName(), File: object.File,
		Result: Kept, Kept: []string{}, Remarks: append([]Remark{}, remarks...),
	}
	for _, remark := range remarks {
		if slices.Index(gravity, remark.Result) > slices.Index(gravity, answer.Result) {
			answer.Result = remark.Result
		}
		answer.Lost = answer.Lost || remark.Lost
	}
	for _, field := range fieldsOf(content) {
		isNamed := func(r Remark) bool { return r.Field == "" || within(r.Field, field) || within(field, r.Field) }
		if !slices.ContainsFunc(remarks, isNamed) {
			answer.Kept = append(answer.Kept, field)
		}
	}
	return answer
}

// within says whether a path is another one, or below it.
func within(path, other string) bool {
	rest, below := strings.CutPrefix(path, other)
	return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// fieldsOf lists the fields of a spec, and those of each task.
func fieldsOf(object *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		tasks, isList := spec[name].([]any)
		if name != "tasks" || !isList {
			fields = append(fields, "spec."+name)
			continue
		}
		for i, task := range tasks {
			parts, _ := task.(map[string]any)
			for _, part := range slices.Sorted(maps.Keys(parts)) {
				fields = append(fields, fmt.Sprintf("spec.tasks[%d].%s", i, part))
			}
		}
	}
	return fields
}
