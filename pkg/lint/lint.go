// Package lint asks, without a cluster, what the API server would say of objects. It evaluates the schemas and the admission policies that
// Muster ships with the libraries of the API server. No rule is written down here a second time.
package lint

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Finding is one thing that is wrong with an object.
type Finding struct {
	// File and Line (from 1) say where the field stands. For a missing field they name the place of its parent.
	File string `json:"file"`
	Line int    `json:"line"`
	// Kind, Namespace and Name are the object's, as written.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Field is its path in the object; empty if the rule is about the whole object.
	Field string `json:"field,omitempty"`
	// Rule is "schema", or the name of a policy.
	Rule string `json:"rule"`
	// Message is what the API server would say.
	Message string `json:"message"`
}

// Unchecked is a rule that applies to objects and needs more than them.
type Unchecked struct {
	// Rule is "schema of KIND", or the name of a policy.
	Rule string `json:"rule"`
	// Needs says what is missing.
	Needs Need `json:"needs"`
	// Part: only a part of the policy needs that, and the rest was checked.
	Part bool `json:"part,omitempty"`
	// Objects is the number of objects that were not held against the rule.
	Objects int `json:"objects"`
}

// Need is what a rule asks for besides the object.
type Need string

// Needs of rules. Only an API server knows the author, and sees deletions.
const (
	NeedOld        Need = "the object as it was (--old)"
	NeedParams     Need = "the queues of the cluster (--queues)"
	NeedNamespace  Need = "the namespace (--namespace)"
	NeedAuthorizer Need = "the rights of its author"
	NeedUser       Need = "the name of its author"
	NeedDeletion   Need = "a deletion, which only a cluster sees"
)

// Known is what is known of the cluster besides the objects.
type Known struct {
	// Params are the objects that policies compare with: queues, and objects that replace Muster's own of the same name. Without an object
	// of its kind here, a parameter is not known.
	Params []*unstructured.Unstructured
	// Namespaces are where objects go. The first is for objects that name none.
	Namespaces []*corev1.Namespace
	// Old are the objects that exist: an object that is among them is updated, and any other is created. None are known if it is nil.
	Old []*unstructured.Unstructured
}

// Report is the answer for some files.
type Report struct {
	// Findings in the order of the files and of the lines.
	Findings []Finding `json:"findings"`
	// Warnings are what the API server takes and warns of, in the same order.
	Warnings []Finding `json:"warnings"`
	// NotChecked are the rules that need more than is known.
	NotChecked []Unchecked `json:"notChecked"`
	// Checked is the number of objects that rules apply to.
	Checked int `json:"checked"`
	// PassedOver counts the objects that no rule is for, by kind.
	PassedOver map[string]int `json:"passedOver"`
}

// Rules are the schemas and policies of a set of manifests, ready to be evaluated. They may be used by one goroutine at a time.
type Rules struct {
	kinds     map[schema.GroupVersionKind]*kind
	mutations []*mutation // they write defaults, in order
	policies  []*policy
	shipped   []*unstructured.Unstructured // what policies compare with
}

// Load reads the folders crds and admission. It fails if they contain what an API server would not take.
func Load(manifests fs.FS) (*Rules, error) {
	rules := &Rules{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, folder := range []string{"crds", "admission"} {
		objects, err := readFolder(manifests, folder)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if err := rules.add(object); err != nil {
				return nil, fmt.Errorf("loading %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return rules, nil
}

// Check holds objects against all rules.
func (r *Rules) Check(ctx context.Context, objects []Object, known Known) (Report, error) {
	report := Report{Findings: []Finding{}, Warnings: []Finding{}, NotChecked: []Unchecked{}, PassedOver: map[string]int{}}
	for _, object := range objects {
		answer, err := r.check(ctx, object, known)
		if err != nil {
			return report, fmt.Errorf("%s:%d: %w", object.File, object.Line(""), err)
		}
		if !answer.known {
			report.PassedOver[object.Content.GetKind()]++
			continue
		}
		report.Checked++
		for i := range answer.problems {
			answer.problems[i] = hint(answer.problems[i])
		}
		report.Findings = append(report.Findings, object.findings(answer.problems)...)
		report.Warnings = append(report.Warnings, object.findings(answer.warnings)...)
		for _, u := range answer.unchecked {
			report.addUnchecked(u)
		}
	}
	return report, nil
}

// addUnchecked counts a rule that one object was not held against.
func (r *Report) addUnchecked(u Unchecked) {
	same := func(other Unchecked) bool {
		return other.Rule == u.Rule && other.Needs == u.Needs && other.Part == u.Part
	}
	if i := slices.IndexFunc(r.NotChecked, same); i >= 0 {
		r.NotChecked[i].Objects++
		return
	}
	u.Objects = 1
	r.NotChecked = append(r.NotChecked, u)
}

// problem is what is wrong with a field.
type problem struct {
	rule, field, message string
	line                 int // in the document; 0 if the field tells it
}

// schemaRule is what findings name that no policy made.
const schemaRule = "schema"

// answer is what the rules say of one object.
type answer struct {
	known     bool // rules for its kind exist
	problems  []problem
	warnings  []problem // of policies that refuse nothing
	unchecked []Unchecked
}

// check does with one object what the API server does: decode, default, validate, ask the policies. As there, policies see only what the
// schema takes.
func (r *Rules) check(ctx context.Context, object Object, known Known) (answer, error) {
	gvk := object.Content.GroupVersionKind()
	of, served := r.kindOf(gvk)
	if len(served) > 0 {
		message := fmt.Sprintf("no kind %s in %s: Muster has %s", gvk.Kind, gvk.GroupVersion(), strings.Join(served, ", "))
		return answer{known: true, problems: []problem{{rule: schemaRule, field: "kind", message: message}}}, nil
	}
	if of == nil {
		return answer{}, nil
	}
	told := answer{known: true, problems: object.duplicates()}
	asked, problems := newRequest(of, object.Content, known)
	told.problems = append(told.problems, problems...)
	if asked == nil {
		return told, nil
	}
	if err := r.store(ctx, asked); err != nil {
		return answer{}, err
	}
	if err := r.applyDefaults(ctx, asked, &told); err != nil {
		return answer{}, err
	}
	if problems := asked.validate(ctx); len(problems) > 0 {
		told.problems = append(told.problems, problems...)
		return told, nil
	}
	if known.Old == nil && of.comparesWithOld {
		told.unchecked = append(told.unchecked, Unchecked{Rule: schemaRule + " of " + gvk.Kind, Needs: NeedOld})
	}
	return told, r.ask(ctx, asked, &told)
}

// kindOf returns the kind that rules are for; nil if there are none. If the group is Muster's and the kind is not, it returns what the group
// has.
func (r *Rules) kindOf(gvk schema.GroupVersionKind) (of *kind, served []string) {
	if known := r.kinds[gvk]; known != nil {
		return known, nil
	}
	for known := range r.kinds {
		if known.Group == gvk.Group {
			served = append(served, known.Kind+" of "+known.GroupVersion().String())
		}
	}
	if len(served) > 0 {
		slices.Sort(served)
		return nil, served
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	for _, p := range r.policies {
		if p.isFor(resource) {
			return &kind{gvk: gvk, resource: resource, namespaced: true}, nil
		}
	}
	return nil, nil
}

// store gives the object as it was the form that the API server has stored, if it is a manifest. That form has defaults and a version.
func (r *Rules) store(ctx context.Context, q *request) error {
	if q.old == nil || q.old.GetResourceVersion() != "" {
		return nil
	}
	created := &request{of: q.of, object: q.old, namespace: q.namespace, known: q.known}
	if err := r.applyDefaults(ctx, created, &answer{}); err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(created.object)
	created.object.SetResourceVersion("1")
	q.old = created.object
	return nil
}
