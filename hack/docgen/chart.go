package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chartFolder is the Helm chart. Its schema is the source of its values and of the page about them.
const chartFolder = "manifests/charts/muster"

const chartValuesIntro = `# Values of the Helm chart

*Reference*

All values of ` + "`manifests/charts/muster`" + `, with their defaults. [Install](../install.md#with-helm) shows how to use them.
A name that is not in this list, or a value of another type, is an error. Where there is no default, the description names
the one of the program.

| value | type | default | meaning |
|---|---|---|---|
`

// chartValue is a value of the chart, or a group of values.
type chartValue struct {
	// path has its name last.
	path        []string
	kind        string
	description string
	// value is the default; nil of a group, and of a value without one.
	value *yaml.Node
	// below are the values of a group.
	below []*chartValue
}

// chartValuesPage lists all values of the chart.
func chartValuesPage() (string, error) {
	root, err := readChartValues()
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString(generatedBy + chartValuesIntro)
	err = describeValues(page, root.below)
	return page.String(), err
}

func describeValues(page *strings.Builder, values []*chartValue) error {
	for _, v := range values {
		name := strings.Join(v.path, ".")
		if v.value != nil || len(v.below) == 0 {
			text, err := onOneLine(v.value)
			if err != nil {
				return fmt.Errorf("the default of %s: %w", name, err)
			}
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", name, v.kind, text, v.description)
		}
		if err := describeValues(page, v.below); err != nil {
			return err
		}
	}
	return nil
}

// onOneLine is a default as the page shows it.
func onOneLine(node *yaml.Node) (string, error) {
	if node == nil {
		return "", nil
	}
	setStyle(node, yaml.FlowStyle)
	text, err := yaml.Marshal(node)
	return "`" + strings.TrimSpace(strings.ReplaceAll(string(text), "\n", "")) + "`", err
}

// writeChartValues writes the file of the chart's defaults.
func writeChartValues() error {
	root, err := readChartValues()
	if err != nil {
		return err
	}
	text := &strings.Builder{}
	text.WriteString("# Made from values.schema.json by hack/docgen (make update). Do not edit.\n")
	if err := printDefaults(text, root.below, ""); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(chartFolder, "values.yaml"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the values of the chart: %w", err)
	}
	return nil
}

// printDefaults prints each value that has a default, below its description.
func printDefaults(text *strings.Builder, values []*chartValue, indent string) error {
	for _, v := range values {
		if v.value == nil && !v.hasDefaults() {
			continue
		}
		name := v.path[len(v.path)-1]
		if indent == "" {
			text.WriteString("\n")
		}
		fmt.Fprintf(text, "%s# %s\n", indent, v.description)
		if v.value == nil {
			fmt.Fprintf(text, "%s%s:\n", indent, name)
			if err := printDefaults(text, v.below, indent+"  "); err != nil {
				return err
			}
			continue
		}
		setStyle(v.value, 0)
		block := &strings.Builder{}
		encoder := yaml.NewEncoder(block)
		encoder.SetIndent(2)
		if err := encoder.Encode(map[string]*yaml.Node{name: v.value}); err != nil {
			return fmt.Errorf("the default of %s: %w", name, err)
		}
		for line := range strings.Lines(block.String()) {
			text.WriteString(indent + line)
		}
	}
	return nil
}

// hasDefaults tells whether a value below this one has a default.
func (v *chartValue) hasDefaults() bool {
	for _, below := range v.below {
		if below.value != nil || below.hasDefaults() {
			return true
		}
	}
	return false
}

// setStyle gives a default, and all in it, the same style: JSON has quoted all strings.
func setStyle(node *yaml.Node, style yaml.Style) {
	node.Style = 0
	if node.Kind != yaml.ScalarNode {
		node.Style = style
	}
	for _, part := range node.Content {
		setStyle(part, style)
	}
}

// readChartValues reads the schema of the chart. JSON is YAML, whose decoder keeps the order.
func readChartValues() (*chartValue, error) {
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.schema.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the schema of the chart: %w", err)
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(text, document); err != nil {
		return nil, fmt.Errorf("reading the schema of the chart: %w", err)
	}
	root := &chartValue{}
	root.read(document.Content[0], document.Content[0], nil)
	return root, nil
}

// read takes in a schema. A default that the group of the value has for it comes before its own.
func (v *chartValue) read(root, schema, given *yaml.Node) {
	if description := field(schema, "description"); description != nil {
		v.description = description.Value
	}
	if given == nil {
		given = field(schema, "default")
	}
	parts := []*yaml.Node{schema}
	if ref := field(schema, "$ref"); ref != nil {
		parts = []*yaml.Node{field(field(root, "$defs"), strings.TrimPrefix(ref.Value, "#/$defs/")), schema}
	}
	for _, part := range parts {
		if kind := field(part, "type"); kind != nil {
			v.kind = typeName(kind)
		}
		properties := field(part, "properties")
		for i := 0; properties != nil && i < len(properties.Content); i += 2 {
			name := properties.Content[i].Value
			below := &chartValue{path: append(slices.Clone(v.path), name)}
			below.read(root, properties.Content[i+1], field(given, name))
			v.below = append(v.below, below)
		}
	}
	if len(parts) == 1 {
		v.value = given // the default of a reference is that of the values below it
	}
}

// typeName is what a schema says of its type: a name, or a list of names.
func typeName(node *yaml.Node) string {
	names := []string{node.Value}
	if node.Kind == yaml.SequenceNode {
		names = nil
		for _, name := range node.Content {
			names = append(names, name.Value)
		}
	}
	return strings.Join(names, " or ")
}

// field is the value of a field of a YAML object; nil if there is none, or no object.
func field(object *yaml.Node, name string) *yaml.Node {
	if object == nil || object.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}
