package main

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
)

const admissionIntro = `# What the API server refuses

*Reference*

All rules of Muster's schemas and admission policies, kind by kind, with the messages that users get. The API server evaluates them by
itself, without a webhook or a program of Muster. [` + "`muster lint`" + `](../lint.md) evaluates the same rules without a cluster; the column
"needs" says what it has to know besides the object.

Muster's controllers find what these rules cannot check. They report it with [reasons and events](reasons.md).
`

// warnings is the policy whose binding only warns.
const warnings = "muster-warnings"

// inTenancy follows the name of a policy that is not part of an installation by itself.
const inTenancy = ", off by default ([tenancy](../security.md))"

// admissionPage lists the rules of all kinds.
func admissionPage() (string, error) {
	crds, err := readAll[apiextensionsv1.CustomResourceDefinition]("crds", "CustomResourceDefinition")
	if err != nil {
		return "", err
	}
	policies, err := readAll[admissionv1.ValidatingAdmissionPolicy]("admission", "ValidatingAdmissionPolicy")
	if err != nil {
		return "", err
	}
	tenancy, err := readAll[admissionv1.ValidatingAdmissionPolicy]("tenancy", "ValidatingAdmissionPolicy")
	if err != nil {
		return "", err
	}
	defaults, err := readAll[admissionv1.MutatingAdmissionPolicy]("admission", "MutatingAdmissionPolicy")
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString(generatedBy + admissionIntro)
	for i := range crds {
		names := crds[i].Spec.Names
		fmt.Fprintf(page, "\n## %s\n", names.Kind)
		describeSchema(page, crds[i].Spec.Versions[0].Schema.OpenAPIV3Schema)
		describeDefaults(page, defaults, names.Plural)
		describePolicies(page, policies, names.Plural, "")
		describePolicies(page, tenancy, names.Plural, inTenancy)
	}
	page.WriteString("\n## Pod\n\nBesides the rules of Kubernetes:\n")
	describePolicies(page, policies, "pods", "")
	describePolicies(page, tenancy, "pods", inTenancy)
	return page.String(), nil
}

// readAll returns the objects of a kind in a folder of the manifests.
func readAll[T any](folder, kind string) ([]T, error) {
	names, err := fs.Glob(manifests.FS, folder+"/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []T
	for _, name := range names {
		text, err := manifests.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		objects, err := lint.Read(name, text)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object.Content.GetKind() != kind {
				continue
			}
			var one T
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Content.Object, &one, true); err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// describeSchema lists what a schema says: its CEL rules, and what values fields take.
func describeSchema(page *strings.Builder, schema *apiextensionsv1.JSONSchemaProps) {
	var bounds, rules []string
	visitFields(schema, "", false, func(at string, required bool, field *apiextensionsv1.JSONSchemaProps) {
		if takes := takenBy(field, required); takes != "" && at != "" {
			bounds = append(bounds, row(code(at), takes))
		}
		for _, rule := range field.XValidations {
			line := row(code(strings.TrimPrefix(at+rule.FieldPath, ".")), operationsOf(rule), rule.Message)
			if !slices.Contains(rules, line) {
				rules = append(rules, line)
			}
		}
	})
	table(page, "Rules of the schema:", []string{"field", "on", "message"}, rules)
	table(page, "Values that fields take, beside their types in [the API](api.md):", []string{"field", "takes"}, bounds)
}

// visitFields visits a schema and all below it, but not what is described elsewhere.
func visitFields(schema *apiextensionsv1.JSONSchemaProps, at string, required bool, visit func(string, bool, *apiextensionsv1.JSONSchemaProps)) {
	visit(at, required, schema)
	if inner, suffix := contents(schema); inner != schema {
		visitFields(inner, at+suffix, false, visit)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		_, isForeign := foreign[name]
		if isForeign || at == "" && slices.Contains(append(skipped, "status"), name) {
			continue
		}
		field := schema.Properties[name]
		visitFields(&field, strings.TrimPrefix(at+"."+name, "."), slices.Contains(schema.Required, name), visit)
	}
}

// takenBy says which values a field takes. The values of a list's items are described where the items are.
func takenBy(field *apiextensionsv1.JSONSchemaProps, required bool) string {
	var takes []string
	if required {
		takes = append(takes, "Required.")
	}
	if field.Items == nil || len(enumOf(field)) == 0 {
		takes = append(takes, limitsOf(field))
	} else if field.MaxItems != nil {
		takes = append(takes, fmt.Sprintf("At most %d items.", *field.MaxItems))
	}
	if field.MinLength != nil && *field.MinLength > 0 {
		takes = append(takes, "Not empty.")
	}
	if field.Pattern != "" {
		takes = append(takes, "Matches "+code(field.Pattern)+".")
	}
	return strings.TrimSpace(strings.Join(takes, " "))
}

// operationsOf says when a rule of a schema is evaluated.
func operationsOf(rule apiextensionsv1.ValidationRule) string {
	if strings.Contains(rule.Rule, "oldSelf") {
		return "update"
	}
	return "create, update"
}

// describePolicies lists the validations of the policies for a resource.
func describePolicies(page *strings.Builder, policies []admissionv1.ValidatingAdmissionPolicy, resource, remark string) {
	for i := range policies {
		policy := &policies[i]
		on := operations(policy.Spec.MatchConstraints, resource)
		if on == "" {
			continue
		}
		var rows []string
		for j, needs := range lint.NeedsOf(policy) {
			validation := policy.Spec.Validations[j]
			field, message := lint.FieldOf(validation.Message)
			if validation.Message == "" {
				message = code(validation.MessageExpression)
			}
			var names []string
			for _, need := range needs {
				names = append(names, string(need))
			}
			rows = append(rows, row(code(field), message, strings.Join(names, ", ")))
		}
		if policy.Name == warnings {
			remark += ". It refuses nothing, and kubectl shows a warning"
		}
		title := fmt.Sprintf("Policy `%s`, on %s%s%s:", policy.Name, on, conditions(policy.Spec.MatchConditions), remark)
		table(page, title, []string{"field", "message", "needs"}, rows)
	}
}

// patched are the paths that the expression of a JSON patch names, in which string(i) is an index.
var patched = regexp.MustCompile(`path:\s*"((?:[^"]|" \+ string\(i\) \+ ")+)"`)

// pathNames turns such a path into the name of a field.
var pathNames = strings.NewReplacer(`/" + string(i) + "`, "[*]", "/", ".", "~1", "/")

// describeDefaults lists what is written into objects of a resource.
func describeDefaults(page *strings.Builder, policies []admissionv1.MutatingAdmissionPolicy, resource string) {
	for i := range policies {
		policy := &policies[i]
		on := operations(policy.Spec.MatchConstraints, resource)
		if on == "" {
			continue
		}
		var paths []string
		for _, mutation := range policy.Spec.Mutations {
			for _, found := range patched.FindAllStringSubmatch(mutation.JSONPatch.Expression, -1) {
				paths = append(paths, code(pathNames.Replace(strings.Trim(found[1], "/"))))
			}
		}
		slices.Sort(paths)
		fmt.Fprintf(page, "\nPolicy `%s` writes defaults on %s%s: %s.\n", policy.Name, on, conditions(policy.Spec.MatchConditions),
			strings.Join(slices.Compact(paths), ", "))
	}
}

// operations says what a policy is asked about for a resource; nothing if it is not for it.
func operations(match *admissionv1.MatchResources, resource string) string {
	var all []string
	for _, rule := range match.ResourceRules {
		if !slices.Contains(rule.Resources, resource) {
			continue
		}
		for _, operation := range rule.Operations {
			all = append(all, strings.ToLower(string(operation)))
		}
	}
	return strings.Join(all, ", ")
}

// conditions names what must be true for a policy to apply.
func conditions(all []admissionv1.MatchCondition) string {
	var names []string
	for _, condition := range all {
		names = append(names, code(condition.Name))
	}
	if len(names) == 0 {
		return ""
	}
	return " where " + strings.Join(names, " and ")
}

// table writes rows below a title; nothing if there are none.
func table(page *strings.Builder, title string, columns, rows []string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(page, "\n%s\n\n%s|%s\n%s", title, row(columns...), strings.Repeat("---|", len(columns)), strings.Join(rows, ""))
}

// row is a row of a table.
func row(cells ...string) string {
	escaped := strings.ReplaceAll(strings.Join(cells, "\x00"), "|", `\|`)
	return "| " + strings.ReplaceAll(prose(escaped), "\x00", " | ") + " |\n"
}

// code marks a text as code; an empty one stays empty.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
