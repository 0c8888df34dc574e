package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
)

// foreign are the fields whose own fields belong to other APIs, with the place of their description.
var foreign = map[string]string{
	"template":      "PodTemplateSpec (core/v1)",
	"volumeClaim":   "PersistentVolumeClaimSpec (core/v1)",
	"labelSelector": "LabelSelector (meta/v1)",
}

// skipped are fields that every Kubernetes object has.
var skipped = []string{"apiVersion", "kind", "metadata"}

// apiPage describes every field of every kind.
func apiPage() (string, error) {
	paths, err := fs.Glob(manifests.FS, "crds/*.yaml")
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString(generatedBy + "# The API, field by field\n\n*Reference*\n\n" +
		"`kubectl explain vcjob.spec` shows the same on a cluster. The schema fills in the defaults in the column of that name.\n" +
		"[Admission policies](defaults.md) fill in the defaults that only a description mentions.\n")
	for _, path := range paths {
		text, err := manifests.FS.ReadFile(path)
		if err != nil {
			return "", err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		describeKind(page, crd)
	}
	return page.String(), nil
}

func describeKind(page *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition) {
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "\n## %s\n\n`apiVersion: %s/%s`", crd.Spec.Names.Kind, crd.Spec.Group, version.Name)
	if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
		page.WriteString(", for the whole cluster")
	}
	if len(crd.Spec.Names.ShortNames) > 0 {
		fmt.Fprintf(page, ", short names `%s`", strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	}
	fmt.Fprintf(page, "\n\n%s\n\n| field | type | default | meaning |\n|---|---|---|---|\n", prose(schema.Description))
	describeFields(page, schema, "")

	var rules []string
	collectRules(schema, "", &rules)
	if len(rules) > 0 {
		fmt.Fprintf(page, "\nThe API server also checks:\n\n%s\n", strings.Join(rules, "\n"))
	}
}

// describeFields writes a row for each field below a schema, parents before children.
func describeFields(page *strings.Builder, schema *apiextensionsv1.JSONSchemaProps, path string) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if path == "" && slices.Contains(skipped, name) {
			continue
		}
		field := schema.Properties[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		kind, isForeign := foreign[name]
		if !isForeign {
			kind = typeOf(&field)
		}
		meaning := prose(field.Description)
		if slices.Contains(schema.Required, name) {
			meaning = "Required. " + meaning
		}
		if limits := limitsOf(&field); limits != "" {
			meaning += " " + limits
		}
		fallback := ""
		if field.Default != nil {
			fallback = "`" + strings.Trim(string(field.Default.Raw), `"`) + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", at, kind, fallback, strings.ReplaceAll(strings.TrimSpace(meaning), "|", `\|`))
		if isForeign {
			continue
		}
		inner, suffix := contents(&field)
		describeFields(page, inner, at+suffix)
	}
}

// contents returns the schema whose fields are the field's, and how a path writes that.
func contents(field *apiextensionsv1.JSONSchemaProps) (inner *apiextensionsv1.JSONSchemaProps, suffix string) {
	switch {
	case field.Items != nil:
		return field.Items.Schema, "[]"
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return field.AdditionalProperties.Schema, "{}"
	default:
		return field, ""
	}
}

func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "quantity"
	case field.Items != nil:
		return "list of " + typeOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(field.AdditionalProperties.Schema)
	case field.Format == "date-time":
		return "time"
	default:
		return field.Type
	}
}

// limitsOf says which values a field takes.
func limitsOf(field *apiextensionsv1.JSONSchemaProps) string {
	var limits []string
	// The ends of 32 bits say nothing to users.
	from := field.Minimum != nil && *field.Minimum != math.MinInt32
	to := field.Maximum != nil && *field.Maximum != math.MaxInt32
	switch {
	case from && to:
		limits = append(limits, fmt.Sprintf("From %v to %v.", int64(*field.Minimum), int64(*field.Maximum)))
	case from:
		limits = append(limits, fmt.Sprintf("At least %v.", int64(*field.Minimum)))
	}
	if field.MaxLength != nil {
		limits = append(limits, fmt.Sprintf("At most %d characters.", *field.MaxLength))
	}
	if field.Items != nil && field.MaxItems != nil {
		limits = append(limits, fmt.Sprintf("At most %d items.", *field.MaxItems))
	}
	if field.MaxProperties != nil {
		limits = append(limits, fmt.Sprintf("At most %d entries.", *field.MaxProperties))
	}
	if values := enumOf(field); len(values) > 0 {
		limits = append(limits, "One of `"+strings.Join(values, "`, `")+"`.")
	}
	return strings.Join(limits, " ")
}

// enumOf returns the values of an enumeration, without the empty one.
func enumOf(field *apiextensionsv1.JSONSchemaProps) []string {
	if field.Items != nil {
		return enumOf(field.Items.Schema)
	}
	var values []string
	for _, value := range field.Enum {
		if text := strings.Trim(string(value.Raw), `"`); text != "" {
			values = append(values, text)
		}
	}
	return values
}

// collectRules gathers what the CEL rules say, as a list.
func collectRules(schema *apiextensionsv1.JSONSchemaProps, path string, rules *[]string) {
	for _, rule := range schema.XValidations {
		at := strings.TrimPrefix(path+rule.FieldPath, ".")
		line := fmt.Sprintf("- `%s`: %s.", at, rule.Message)
		if at == "" {
			line = fmt.Sprintf("- %s.", rule.Message)
		}
		if !slices.Contains(*rules, line) {
			*rules = append(*rules, line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if _, isForeign := foreign[name]; isForeign {
			continue
		}
		field := schema.Properties[name]
		inner, suffix := contents(&field)
		at := strings.TrimPrefix(path+"."+name, ".")
		if inner != &field {
			collectRules(&apiextensionsv1.JSONSchemaProps{XValidations: field.XValidations}, at, rules)
		}
		collectRules(inner, at+suffix, rules)
	}
}

// prose puts a description on one line.
func prose(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
