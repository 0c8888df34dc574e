package clients

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Refusal is a write that the API server is to refuse in one namespace.
type Refusal struct {
	Namespace string
	// Group, Version and Resource of what is written; a subresource follows after a slash.
	Group, Version, Resource string
	Operation                admissionregistrationv1.OperationType
	// Name of the only object that it is about; empty stands for all.
	Name string
	// Message is what the API server says.
	Message string
}

// Refuse has the API server refuse a write, until allow is called or the test ends. It takes a moment to learn of both. There is one
// refusal at a time in a namespace.
func Refuse(t testing.TB, kube kubernetes.Interface, r Refusal) (allow func()) {
	t.Helper()
	policies, bindings := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(), kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	concerned := fmt.Sprintf("object.metadata.namespace == %q", r.Namespace)
	if r.Name != "" {
		concerned += fmt.Sprintf(" && object.metadata.name == %q", r.Name)
	}
	_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{r.Operation},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{r.Group}, APIVersions: []string{r.Version}, Resources: []string{r.Resource},
					},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "!(" + concerned + ")", Message: r.Message}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: r.Namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	allow = sync.OnceFunc(func() {
		// The test's own context has ended where this cleans up after it.
		ctx := context.Background()
		require.NoError(t, bindings.Delete(ctx, r.Namespace, metav1.DeleteOptions{}))
		require.NoError(t, policies.Delete(ctx, r.Namespace, metav1.DeleteOptions{}))
	})
	t.Cleanup(allow)
	return allow
}
