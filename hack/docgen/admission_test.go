package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/muster-sched/muster/pkg/lint"
)

func TestTheAdmissionPageHasAllRules(t *testing.T) {
	page, err := admissionPage()
	require.NoError(t, err)
	count := 0
	for _, folder := range []string{"admission", "tenancy"} {
		policies, err := readAll[admissionv1.ValidatingAdmissionPolicy](folder, "ValidatingAdmissionPolicy")
		require.NoError(t, err)
		for _, policy := range policies {
			for _, validation := range policy.Spec.Validations {
				_, message := lint.FieldOf(validation.Message)
				assert.Contains(t, page, prose(message), policy.Name)
				count++
			}
		}
	}
	crds, err := readAll[apiextensionsv1.CustomResourceDefinition]("crds", "CustomResourceDefinition")
	require.NoError(t, err)
	for i := range crds {
		visitFields(crds[i].Spec.Versions[0].Schema.OpenAPIV3Schema, "", false, func(at string, _ bool, field *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range field.XValidations {
				assert.Contains(t, page, rule.Message, at)
				count++
			}
		})
	}
	assert.Greater(t, count, 40)
}
