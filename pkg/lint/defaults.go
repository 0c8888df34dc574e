package lint

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// mutation is a MutatingAdmissionPolicy with its bindings: it writes defaults into objects.
type mutation struct {
	*admissionv1.MutatingAdmissionPolicy
	bindings   []*admissionv1.MutatingAdmissionPolicyBinding
	compiler   compiler
	conditions matchconditions.Matcher
	patchers   []patch.Patcher
	needs      []Need
}

// compile makes a policy ready. JSON patches are the only form that is known here.
func (m *mutation) compile() error {
	fillIn(m.Spec.MatchConstraints)
	var err error
	if m.compiler, err = newCompiler(m.Spec.ParamKind != nil, m.Spec.Variables); err != nil {
		return err
	}
	m.conditions = m.compiler.conditions(m.Name, m.Spec.MatchConditions, m.Spec.FailurePolicy)
	m.patchers = m.compiler.compileMutations(m.Spec.Mutations)
	for i, patcher := range m.patchers {
		if patcher == nil {
			return fmt.Errorf("mutation %d is no JSONPatch: lint knows no other", i)
		}
	}
	variables := map[string]string{}
	for _, v := range m.Spec.Variables {
		variables[v.Name] = v.Expression
	}
	for _, mutation := range m.Spec.Mutations {
		m.needs = append(m.needs, asksFor(mutation.JSONPatch.Expression, variables)...)
	}
	return nil
}

// applyDefaults has the policies write their defaults into an object. Unknown values are left out, and reported.
func (r *Rules) applyDefaults(ctx context.Context, q *request, told *answer) error {
	for _, m := range r.mutations {
		if err := m.apply(ctx, q, r.shipped, told); err != nil {
			return fmt.Errorf("asking policy %s: %w", m.Name, err)
		}
	}
	return nil
}

func (m *mutation) apply(ctx context.Context, q *request, shipped []*unstructured.Unstructured, told *answer) error {
	matcher, attributes := q.matcher(), q.attributes(q.operation())
	matches, resource, gvk, err := matcher.DefinitionMatches(attributes, forms, mutating.NewMutatingAdmissionPolicyAccessor(m.MutatingAdmissionPolicy))
	if err != nil || !matches {
		return err
	}
	for _, binding := range m.bindings {
		binds, err := matcher.BindingMatches(attributes, forms, mutating.NewMutatingAdmissionPolicyBindingAccessor(binding))
		if err != nil {
			return err
		}
		if !binds {
			continue
		}
		params, known := q.params(m.Spec.ParamKind, binding.Spec.ParamRef, shipped)
		if !known {
			told.leaveOut(m.Name, NeedParams)
		}
		for _, param := range params {
			versioned, err := admission.NewVersionedAttributes(attributes, gvk, forms)
			if err != nil {
				return err
			}
			if err := m.patch(ctx, q, patch.Request{
				MatchedResource: resource, VersionedAttributes: versioned, ObjectInterfaces: forms, Namespace: q.namespaceObject(),
				OptionalVariables: cel.OptionalVariableBindings{VersionedParams: param, Authorizer: withoutRights{}},
			}, told); err != nil {
				return err
			}
		}
	}
	return nil
}

// patch makes the changes of a policy, one after the other.
func (m *mutation) patch(ctx context.Context, q *request, request patch.Request, told *answer) error {
	ctx = m.compiler.CreateContext(ctx)
	if m.conditions != nil {
		found := m.conditions.Match(ctx, request.VersionedAttributes, request.OptionalVariables.VersionedParams, withoutRights{})
		if found.Error != nil {
			m.fail(found.Error, told)
		}
		if !found.Matches {
			return nil
		}
	}
	if need, missing := q.missing(m.needs); missing {
		told.leaveOut(m.Name, need)
	}
	for _, patcher := range m.patchers {
		changed, err := patcher.Patch(ctx, request, celconfig.RuntimeCELCostBudget)
		if err != nil {
			m.fail(err, told)
			continue
		}
		object, ok := changed.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("it made a %T", changed)
		}
		if q.of.structural != nil {
			defaulting.Default(object.Object, q.of.structural)
		}
		q.object = object
		request.VersionedAttributes.UpdateObject(object)
	}
	return nil
}

// fail tells that a policy could not be evaluated, unless the API server would ignore that.
func (m *mutation) fail(err error, told *answer) {
	if m.Spec.FailurePolicy == nil || *m.Spec.FailurePolicy == admissionv1.Fail {
		object(&told.problems, m.Name, err.Error())
	}
}
