package lint

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The plugins of the API server compile policies in functions that they keep to themselves. These make the same of the same parts.

// compiler is for the expressions of one policy.
type compiler struct {
	*cel.CompositedCompiler
	options cel.OptionalVariableDeclarations
}

func newCompiler(hasParams bool, variables []admissionv1.Variable) (compiler, error) {
	composited, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return compiler{}, err
	}
	c := compiler{composited, cel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}}
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	c.CompileAndStoreVariables(named, c.options, environment.StoredExpressions)
	return c, nil
}

// conditions returns what decides whether a policy applies; nil if it always does.
func (c compiler) conditions(policy string, conditions []admissionv1.MatchCondition, onError *admissionv1.FailurePolicyType) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	accessors := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		accessors[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	evaluator := c.CompileCondition(accessors, c.options, environment.StoredExpressions)
	return matchconditions.NewMatcher(evaluator, onError, "policy", "validate", policy)
}

// compileValidations makes a policy ready to be evaluated.
func compileValidations(p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	c, err := newCompiler(p.Spec.ParamKind != nil, p.Spec.Variables)
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	expressions := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		expressions[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	inMessages := cel.OptionalVariableDeclarations{HasParams: c.options.HasParams}
	return validating.NewValidator(
		c.CompileCondition(expressions, c.options, environment.StoredExpressions),
		c.conditions(p.Name, p.Spec.MatchConditions, p.Spec.FailurePolicy),
		c.CompileCondition(nil, c.options, environment.StoredExpressions), // audit annotations refuse nothing
		c.CompileCondition(messages, inMessages, environment.StoredExpressions),
		p.Spec.FailurePolicy, nil)
}

// compileMutations returns the patches of a policy that writes defaults.
func (c compiler) compileMutations(mutations []admissionv1.Mutation) []patch.Patcher {
	options := c.options
	options.HasPatchTypes = true
	patchers := make([]patch.Patcher, len(mutations))
	for i, m := range mutations {
		if m.JSONPatch != nil {
			condition := &patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}
			patchers[i] = patch.NewJSONPatcher(c.CompileMutatingEvaluator(condition, options, environment.StoredExpressions))
		}
	}
	return patchers
}
