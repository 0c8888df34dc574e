// Command crdtrim takes the descriptions out of what CRDs embed of other APIs (pod templates and claims), in place.
// With them the Job's CRD is larger than the annotation in which "kubectl apply" keeps what was applied.
package main

import (
	"fmt"
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
		trim(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, false)
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": crd.APIVersion, "kind": crd.Kind,
		"metadata": map[string]any{"name": crd.Name, "annotations": crd.Annotations},
		"spec":     crd.Spec,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o644)
}

// trim removes the descriptions below embedded properties and keeps the one of the property itself.
func trim(schema *apiextensionsv1.JSONSchemaProps, inside bool) {
	if schema == nil {
		return
	}
	if inside {
		schema.Description = ""
	}
	for name, property := range schema.Properties {
		description := property.Description
		trim(&property, inside || embedded[name])
		if !inside {
			property.Description = description
		}
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		trim(schema.Items.Schema, inside)
	}
	if schema.AdditionalProperties != nil {
		trim(schema.AdditionalProperties.Schema, inside)
	}
}
