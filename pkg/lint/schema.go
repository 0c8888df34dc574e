package lint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	crdserverscheme "k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// kind is what the API server makes of one version of a CustomResourceDefinition.
type kind struct {
	gvk        schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
	structural *structuralschema.Structural
	strategy   strategy
	// comparesWithOld says that the schema has rules about changes.
	comparesWithOld bool
}

// strategy is how the API server's registry creates and updates custom resources.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// newKinds returns the versions of a definition that are served.
func newKinds(crd *apiextensionsv1.CustomResourceDefinition) ([]*kind, error) {
	var kinds []*kind
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if !version.Served {
			continue
		}
		k, err := newKind(crd, version)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", version.Name, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func newKind(crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (*kind, error) {
	group := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
	k := &kind{
		gvk:        group.WithKind(crd.Spec.Names.Kind),
		resource:   group.WithResource(crd.Spec.Names.Plural),
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	k.structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(k.structural); err != nil {
		return nil, fmt.Errorf("reading the schema's defaults: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("making a validator: %w", err)
	}
	var status *apiextensions.CustomResourceSubresourceStatus
	if version.Subresources != nil && version.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	k.strategy = customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), k.namespaced, k.gvk, validator, nil, k.structural,
		status, nil, version.SelectableFields)
	k.comparesWithOld = comparesWithOld(version.Schema.OpenAPIV3Schema)
	return k, nil
}

// comparesWithOld says whether a schema has rules about changes, which need the value as it was.
func comparesWithOld(props *apiextensionsv1.JSONSchemaProps) bool {
	found := false
	walkSchema(props, "", func(_ string, props *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range props.XValidations {
			found = found || strings.Contains(rule.Rule, "oldSelf")
		}
	})
	return found
}

// walkSchema visits all parts of a schema, with their paths.
func walkSchema(props *apiextensionsv1.JSONSchemaProps, path string, visit func(path string, props *apiextensionsv1.JSONSchemaProps)) {
	visit(path, props)
	for _, name := range slices.Sorted(maps.Keys(props.Properties)) {
		part := props.Properties[name]
		walkSchema(&part, strings.TrimPrefix(path+"."+name, "."), visit)
	}
	if props.Items != nil && props.Items.Schema != nil {
		walkSchema(props.Items.Schema, path+"[*]", visit)
	}
	if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
		walkSchema(props.AdditionalProperties.Schema, path+"[*]", visit)
	}
}

// request is an object that is sent to the API server.
type request struct {
	of          *kind
	object, old *unstructured.Unstructured // old is nil if the object is created
	namespace   string                     // "" if the kind has none
	known       Known
}

// newRequest decodes an object as the API server does. It adds defaults, and drops the fields that the schema does not have. Each of these is a
// problem, as it is for kubectl. It returns nil if the metadata are not even of the right types.
func newRequest(of *kind, content *unstructured.Unstructured, known Known) (*request, []problem) {
	asked := &request{of: of, known: known}
	var problems []problem
	if asked.object, problems = of.decode(content); asked.object == nil {
		return nil, problems
	}
	if of.namespaced {
		asked.namespace = namespaceOf(asked.object, known)
		asked.object.SetNamespace(asked.namespace)
	}
	if asked.old = of.findOld(asked, known.Old); asked.old == nil {
		rest.WipeObjectMetaSystemFields(asked.object)
	}
	return asked, problems
}

// namespaceOf returns where an object goes.
func namespaceOf(object *unstructured.Unstructured, known Known) string {
	switch {
	case object.GetNamespace() != "":
		return object.GetNamespace()
	case len(known.Namespaces) > 0:
		return known.Namespaces[0].Name
	}
	return metav1.NamespaceDefault
}

// findOld returns the object that a request changes; nil if there is none.
func (k *kind) findOld(asked *request, all []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, old := range all {
		if old.GroupVersionKind() != k.gvk || text(old, "name") != asked.object.GetName() {
			continue
		}
		decoded, _ := k.decode(old)
		if decoded == nil || k.namespaced && namespaceOf(decoded, asked.known) != asked.namespace {
			continue
		}
		decoded.SetNamespace(asked.namespace)
		return decoded
	}
	return nil
}

// decode returns an object as the API server reads it, and what is wrong with its form. A kind without a schema is taken as it is.
func (k *kind) decode(content *unstructured.Unstructured) (*unstructured.Unstructured, []problem) {
	object := content.DeepCopy()
	if k.structural == nil {
		return object, nil
	}
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(object.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, []problem{{rule: schemaRule, field: "metadata", message: err.Error()}}
	}
	track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(object.Object, k.structural, true, track)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, k.structural)
	fieldError, more := objectmeta.CoerceWithOptions(nil, object.Object, k.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if fieldError != nil {
		return nil, []problem{{rule: schemaRule, field: fieldError.Field, message: fieldError.ErrorBody()}}
	}
	object.SetGroupVersionKind(k.gvk)
	if hasMeta {
		if err := objectmeta.SetObjectMeta(object.Object, meta); err != nil {
			return nil, []problem{{rule: schemaRule, field: "metadata", message: err.Error()}}
		}
	}
	defaulting.Default(object.Object, k.structural)
	var problems []problem
	for _, field := range append(unknown, more...) {
		problems = append(problems, problem{rule: schemaRule, field: field, message: fmt.Sprintf("unknown field %q: remove it, or correct its name", field)})
	}
	return object, problems
}

// validate does what the registry does before it stores the object.
func (q *request) validate(ctx context.Context) []problem {
	if q.of.structural == nil {
		return nil
	}
	ctx = genericapirequest.WithNamespace(ctx, q.namespace)
	if q.old != nil {
		q.object.SetResourceVersion(q.old.GetResourceVersion())
		return problemsOf(rest.BeforeUpdate(q.of.strategy, ctx, q.object, q.old))
	}
	rest.FillObjectMetaSystemFields(q.object)
	if q.object.GetName() == "" && q.object.GetGenerateName() != "" {
		q.object.SetName(q.of.strategy.GenerateName(q.object.GetGenerateName()))
	}
	return problemsOf(rest.BeforeCreate(q.of.strategy, ctx, q.object))
}

// problemsOf returns what an answer of the registry objects to.
func problemsOf(err error) []problem {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []problem{{rule: schemaRule, field: "", message: err.Error()}}
	}
	var problems []problem
	for _, cause := range status.Status().Details.Causes {
		field := cause.Field
		if field == "<nil>" { // how the API server names the whole object
			field = ""
		}
		problems = append(problems, problem{rule: schemaRule, field: field, message: cause.Message})
	}
	return problems
}
