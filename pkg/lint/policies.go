package lint

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// policy is a ValidatingAdmissionPolicy with its bindings.
type policy struct {
	*admissionv1.ValidatingAdmissionPolicy
	bindings  []*admissionv1.ValidatingAdmissionPolicyBinding
	evaluator validating.Validator
	// needs are what its match conditions and each of its validations ask for.
	needs needs
}

// needs says what a policy asks for besides the object.
type needs struct {
	always []Need
	each   [][]Need
}

// add takes an object of the manifests.
func (r *Rules) add(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := convert(object, crd); err != nil {
			return err
		}
		kinds, err := newKinds(crd)
		for _, k := range kinds {
			r.kinds[k.gvk] = k
		}
		return err
	case "ValidatingAdmissionPolicy":
		p := &policy{ValidatingAdmissionPolicy: &admissionv1.ValidatingAdmissionPolicy{}}
		r.policies = append(r.policies, p)
		if err := convert(object, p.ValidatingAdmissionPolicy); err != nil {
			return err
		}
		return p.compile()
	case "MutatingAdmissionPolicy":
		m := &mutation{MutatingAdmissionPolicy: &admissionv1.MutatingAdmissionPolicy{}}
		r.mutations = append(r.mutations, m)
		if err := convert(object, m.MutatingAdmissionPolicy); err != nil {
			return err
		}
		return m.compile()
	case "ValidatingAdmissionPolicyBinding":
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		if err := convert(object, binding); err != nil {
			return err
		}
		return r.bind(binding)
	case "MutatingAdmissionPolicyBinding":
		binding := &admissionv1.MutatingAdmissionPolicyBinding{}
		if err := convert(object, binding); err != nil {
			return err
		}
		return r.bindMutation(binding)
	default: // what policies compare with
		r.shipped = append(r.shipped, object)
		return nil
	}
}

// convert reads a manifest, with no other fields than its type has.
func convert(object *unstructured.Unstructured, into runtime.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)
}

// bind gives a policy its binding, which stands behind it.
func (r *Rules) bind(binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	for _, p := range r.policies {
		if p.Name == binding.Spec.PolicyName {
			fillIn(binding.Spec.MatchResources)
			p.bindings = append(p.bindings, binding)
			return nil
		}
	}
	return fmt.Errorf("no policy %s stands before it", binding.Spec.PolicyName)
}

// bindMutation does the same for a policy that writes defaults.
func (r *Rules) bindMutation(binding *admissionv1.MutatingAdmissionPolicyBinding) error {
	for _, m := range r.mutations {
		if m.Name == binding.Spec.PolicyName {
			fillIn(binding.Spec.MatchResources)
			m.bindings = append(m.bindings, binding)
			return nil
		}
	}
	return fmt.Errorf("no policy %s stands before it", binding.Spec.PolicyName)
}

// compile makes a policy ready to be evaluated.
func (p *policy) compile() error {
	fillIn(p.Spec.MatchConstraints)
	p.needs = needsOf(p.ValidatingAdmissionPolicy)
	p.evaluator = compileValidations(p.ValidatingAdmissionPolicy)
	return p.evaluator.CompileError()
}

// isFor says whether a policy has rules for a resource.
func (p *policy) isFor(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(rule admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, resource.Group) && slices.Contains(rule.Resources, resource.Resource)
	})
}

// fillIn gives selectors the defaults of the API.
func fillIn(match *admissionv1.MatchResources) {
	if match == nil {
		return
	}
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	if match.MatchPolicy == nil {
		equivalent := admissionv1.Equivalent
		match.MatchPolicy = &equivalent
	}
}

var variableName = regexp.MustCompile(`\bvariables\.(\w+)`)

// mentions are the names by which CEL asks for what only some callers know.
var mentions = map[Need]*regexp.Regexp{
	NeedNamespace:  regexp.MustCompile(`\bnamespaceObject\b`),
	NeedAuthorizer: regexp.MustCompile(`\bauthorizer\b`),
	NeedUser:       regexp.MustCompile(`\brequest\.userInfo\b`),
}

// NeedsOf says what each validation of a policy asks for besides the object.
func NeedsOf(p *admissionv1.ValidatingAdmissionPolicy) [][]Need {
	var common []Need
	if p.Spec.ParamKind != nil && p.Spec.ParamKind.Kind != "ConfigMap" { // ConfigMaps ship with the policies
		common = append(common, NeedParams)
	}
	on := func(operation admissionv1.OperationType) bool {
		return slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(rule admissionv1.NamedRuleWithOperations) bool {
			return slices.Contains(rule.Operations, operation)
		})
	}
	switch {
	case on(admissionv1.Create):
	case on(admissionv1.Update):
		common = append(common, NeedOld)
	default:
		common = append(common, NeedDeletion)
	}
	found := needsOf(p)
	all := make([][]Need, len(found.each))
	for i, needs := range found.each {
		for _, need := range slices.Concat(common, found.always, needs) {
			if !slices.Contains(all[i], need) {
				all[i] = append(all[i], need)
			}
		}
	}
	return all
}

// needsOf reads from its expressions what a policy asks for.
func needsOf(p *admissionv1.ValidatingAdmissionPolicy) needs {
	variables := map[string]string{}
	for _, v := range p.Spec.Variables {
		variables[v.Name] = v.Expression
	}
	var conditions []string
	for _, condition := range p.Spec.MatchConditions {
		conditions = append(conditions, condition.Expression)
	}
	found := needs{always: asksFor(strings.Join(conditions, "\n"), variables)}
	if selector := p.Spec.MatchConstraints.NamespaceSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		found.always = append(found.always, NeedNamespace)
	}
	for _, validation := range p.Spec.Validations {
		found.each = append(found.each, asksFor(validation.Expression, variables))
	}
	return found
}

// asksFor returns what an expression, with the variables that it uses, asks for.
func asksFor(expression string, variables map[string]string) []Need {
	variables = maps.Clone(variables)
	for { // replace the variables by what they stand for
		used := variableName.FindStringSubmatch(expression)
		if used == nil {
			break
		}
		expression = strings.ReplaceAll(expression, used[0], "") + "\n" + variables[used[1]]
		delete(variables, used[1])
	}
	var found []Need
	for _, need := range []Need{NeedNamespace, NeedAuthorizer, NeedUser} {
		if mentions[need].MatchString(expression) {
			found = append(found, need)
		}
	}
	return found
}

// missing returns the first need that is not met.
func (q *request) missing(needs []Need) (Need, bool) {
	for _, need := range needs {
		if need != NeedNamespace || !q.knowsNamespace() {
			return need, true
		}
	}
	return "", false
}

// knowsNamespace says whether the namespace of the request is known, or needed by nothing.
func (q *request) knowsNamespace() bool {
	return q.namespace == "" || slices.ContainsFunc(q.known.Namespaces, func(n *corev1.Namespace) bool { return n.Name == q.namespace })
}

// namespaceObject is the namespace of the request: as known, or only its name.
func (q *request) namespaceObject() *corev1.Namespace {
	if q.namespace == "" {
		return nil
	}
	for _, namespace := range q.known.Namespaces {
		if namespace.Name == q.namespace {
			return namespace
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.namespace, Labels: map[string]string{corev1.LabelMetadataName: q.namespace}}}
}

// matcher tells which policies a request is for.
func (q *request) matcher() generic.PolicyMatcher {
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if namespace := q.namespaceObject(); namespace != nil {
		_ = namespaces.Add(namespace) // fails only for what has no name
	}
	return generic.NewPolicyMatcher(matching.NewMatcher(corelisters.NewNamespaceLister(namespaces), nil))
}

// forms tells the libraries of the API server that objects need no conversion.
var forms = admission.NewObjectInterfacesFromScheme(runtime.NewScheme())

// attributes describe the request to policies.
func (q *request) attributes(operation admission.Operation) admission.Attributes {
	var old runtime.Object
	var options runtime.Object = &metav1.CreateOptions{}
	if operation == admission.Update {
		options = &metav1.UpdateOptions{}
	}
	if q.old != nil {
		old = q.old
	}
	return admission.NewAttributesRecord(q.object, old, q.of.gvk, q.namespace, q.object.GetName(), q.of.resource, "", operation, options, false,
		&user.DefaultInfo{})
}

// operation is what the request asks for.
func (q *request) operation() admission.Operation {
	if q.old != nil {
		return admission.Update
	}
	return admission.Create
}

// ask has all policies judge a request.
func (r *Rules) ask(ctx context.Context, q *request, told *answer) error {
	for _, p := range r.policies {
		if err := p.judge(ctx, q, r.shipped, told); err != nil {
			return fmt.Errorf("asking policy %s: %w", p.Name, err)
		}
	}
	return nil
}

// judge asks one policy, once for each of its params. Missing needs are reported in place of the policy's message.
func (p *policy) judge(ctx context.Context, q *request, shipped []*unstructured.Unstructured, told *answer) error {
	matcher, accessor := q.matcher(), validating.NewValidatingAdmissionPolicyAccessor(p.ValidatingAdmissionPolicy)
	attributes := q.attributes(q.operation())
	matches, resource, gvk, err := matcher.DefinitionMatches(attributes, forms, accessor)
	if err != nil {
		return err
	}
	if !matches {
		onUpdate, _, _, err := matcher.DefinitionMatches(q.attributes(admission.Update), forms, accessor)
		if onUpdate && q.known.Old == nil {
			told.leaveOut(p.Name, NeedOld)
		}
		return err
	}
	if need, missing := q.missing(p.needs.always); missing {
		told.leaveOut(p.Name, need)
		return nil
	}
	versioned, err := admission.NewVersionedAttributes(attributes, gvk, forms)
	if err != nil {
		return err
	}
	for _, binding := range p.bindings {
		binds, err := matcher.BindingMatches(attributes, forms, validating.NewValidatingAdmissionPolicyBindingAccessor(binding))
		if err != nil {
			return err
		}
		into := told.reportsOf(binding)
		if !binds || into == nil {
			continue
		}
		params, known := q.params(p.Spec.ParamKind, binding.Spec.ParamRef, shipped)
		if !known {
			told.leaveOut(p.Name, NeedParams)
			continue
		}
		for _, param := range params {
			result := p.evaluator.Validate(ctx, resource, versioned, param, q.namespaceObject(), celconfig.RuntimeCELCostBudget, withoutRights{})
			p.note(q, result.Decisions, told, into)
		}
	}
	return nil
}

// reportsOf is where the objections of a policy go. They are problems if it refuses, and warnings if it warns.
func (a *answer) reportsOf(binding *admissionv1.ValidatingAdmissionPolicyBinding) *[]problem {
	switch actions := binding.Spec.ValidationActions; {
	case slices.Contains(actions, admissionv1.Deny):
		return &a.problems
	case slices.Contains(actions, admissionv1.Warn):
		return &a.warnings
	}
	return nil
}

// note adds the decisions of a policy to a part of the answer. There is one for each validation, or one for all.
func (p *policy) note(q *request, decisions []validating.PolicyDecision, told *answer, into *[]problem) {
	for i, decision := range decisions {
		if len(decisions) == len(p.needs.each) {
			if need, missing := q.missing(p.needs.each[i]); missing {
				told.leaveOutPart(p.Name, need, len(decisions) > 1)
				continue
			}
		}
		if decision.Action == validating.ActionDeny {
			object(into, p.Name, decision.Message)
		}
	}
}

// leaveOut notes that a rule was not asked.
func (a *answer) leaveOut(rule string, need Need) { a.leaveOutPart(rule, need, false) }

// leaveOutPart is leaveOut for a rule, or for only a part of it.
func (a *answer) leaveOutPart(rule string, need Need, part bool) {
	if left := (Unchecked{Rule: rule, Needs: need, Part: part}); !slices.Contains(a.unchecked, left) {
		a.unchecked = append(a.unchecked, left)
	}
}

// field is what the messages of policies begin with.
var field = regexp.MustCompile(`^(?:metadata|spec|status|action|target|reason|message)\b(?:\[[^\]]*\]|\.[^\s:,.\[]+)*`)

// FieldOf splits the message of a policy into the field that it begins with, and the rest. Where a sentence begins with the field, the
// message stays whole.
func FieldOf(message string) (at, rest string) {
	at = field.FindString(message)
	return at, strings.TrimPrefix(message, at+": ")
}

// object notes what a policy objects to.
func object(into *[]problem, rule, message string) {
	at, rest := FieldOf(message)
	p := problem{rule: rule, field: at, message: rest}
	if !slices.Contains(*into, p) {
		*into = append(*into, p)
	}
}

// params returns what a policy is evaluated with, as the API server would find them, and whether that is known.
func (q *request) params(of *admissionv1.ParamKind, ref *admissionv1.ParamRef, shipped []*unstructured.Unstructured) ([]runtime.Object, bool) {
	if of == nil || ref == nil {
		return []runtime.Object{nil}, true
	}
	selector := labels.Everything()
	if ref.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return nil, false
		}
	}
	known, given := false, map[string]bool{}
	var params []runtime.Object
	for _, object := range slices.Concat(q.known.Params, shipped) {
		key := object.GetNamespace() + "/" + object.GetName()
		if object.GroupVersionKind() != schema.FromAPIVersionAndKind(of.APIVersion, of.Kind) || given[key] {
			continue
		}
		known, given[key] = true, true
		if (ref.Name == "" || ref.Name == object.GetName()) && (ref.Namespace == "" || ref.Namespace == object.GetNamespace()) &&
			selector.Matches(labels.Set(object.GetLabels())) {
			params = append(params, object)
		}
	}
	return params, known
}

// withoutRights is an author without rights. No rule that asks for them is reported as checked.
type withoutRights struct{}

// Authorize grants nothing. It implements authorizer.Authorizer.
func (withoutRights) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}
