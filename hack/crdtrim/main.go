// Command crdtrim removes parts of CRDs, in place:
//   - descriptions of embedded types of other APIs (pod templates and claims). With them the Job's CRD is larger than the annotation in
//     which "kubectl apply" keeps what was applied.
//   - the values of Kubernetes' own types that Go cannot read. One object with such a value ends every list and watch of its kind. Then
//     nothing is done for all other objects.
//
// It also bounds the arguments of job plugins: no marker can, as they are lists in a map.
package main

import (
	"cmp"
	"fmt"
	"math"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// embedded are the properties whose schemas belong to other APIs.
var embedded = map[string]bool{"template": true, "volumeClaim": true}

func main() {
	for _, path := range os.Args[1:] {
		if err := trimFile(path); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func trimFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return err
	}
	for i := range crd.Spec.Versions {
		schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		trim(schema, false)
		narrow(schema)
		boundPlugins(schema)
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": crd.APIVersion, "kind": crd.Kind,
		"metadata": map[string]any{"name": crd.Name, "annotations": crd.Annotations, "labels": crd.Labels},
		"spec":     crd.Spec,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o644)
}

// trim removes the descriptions below embedded properties and keeps the one of the property itself.
func trim(schema *apiextensionsv1.JSONSchemaProps, inside bool) {
	each(schema, func(name string, part *apiextensionsv1.JSONSchemaProps) {
		if inside {
			part.Description = ""
		}
		trim(part, inside || embedded[name])
	})
}

const (
	// quantityPattern is that of controller-gen but for exponents. A resource.Quantity takes no fractions there, and needs minutes and
	// gigabytes to read a number of a thousand million digits.
	quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$`
	// timePattern is what metav1.Time reads of RFC 3339. The format "date-time" knows the calendar, and takes more.
	timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
)

// narrow makes a schema refuse what quantities, numbers that may be strings, and times cannot be. Durations look like any string:
// their fields have rules.
func narrow(schema *apiextensionsv1.JSONSchemaProps) {
	switch {
	case schema.XIntOrString && schema.Pattern != "":
		schema.Pattern = quantityPattern
	case schema.XIntOrString: // an intstr.IntOrString
		schema.Minimum, schema.Maximum = new(float64(math.MinInt32)), new(float64(math.MaxInt32))
	case schema.Format == "int32": // API servers before 1.36 do not know the format
		schema.Minimum = cmp.Or(schema.Minimum, new(float64(math.MinInt32)))
		schema.Maximum = cmp.Or(schema.Maximum, new(float64(math.MaxInt32)))
	case schema.Format == "date-time":
		schema.Pattern = timePattern
		// API servers take lists for strings with a format: no list has these lengths.
		schema.MinItems, schema.MaxItems = new(int64(1)), new(int64(0))
	}
	each(schema, func(_ string, part *apiextensionsv1.JSONSchemaProps) { narrow(part) })
}

// Bounds of the arguments of a job plugin. The longest is a private key: a key of 16384 bits takes 13 KiB.
const (
	maxArguments     = 64
	maxArgumentBytes = 64 << 10
)

// boundPlugins bounds the arguments in the "plugins" of a Job's spec.
func boundPlugins(schema *apiextensionsv1.JSONSchemaProps) {
	plugins := schema.Properties["spec"].Properties["plugins"].AdditionalProperties
	if plugins == nil {
		return
	}
	plugins.Schema.MaxItems = new(int64(maxArguments))
	plugins.Schema.Items.Schema.MaxLength = new(int64(maxArgumentBytes))
}

// each lets f change the schemas that a schema consists of. name is that of a property, and empty for items and values.
func each(schema *apiextensionsv1.JSONSchemaProps, f func(name string, part *apiextensionsv1.JSONSchemaProps)) {
	for name, property := range schema.Properties {
		f(name, &property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		f("", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		f("", schema.AdditionalProperties.Schema)
	}
}
