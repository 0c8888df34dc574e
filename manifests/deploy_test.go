package manifests_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// decode reads the single object of a file.
func decode[T any](t *testing.T, path string) *T {
	t.Helper()
	found := documents(t, path)
	require.Len(t, found, 1, path)
	object := new(T)
	require.NoError(t, yaml.UnmarshalStrict(found[0], object), path)
	return object
}

// deployments are the folders that have a Deployment.
var deployments = []string{"deploy/controller", "deploy/second-scheduler"}

func TestEachFileOfADeploymentIsApplied(t *testing.T) {
	for _, folder := range deployments {
		kustomization := decode[struct {
			metav1.TypeMeta `json:",inline"`
			Resources       []string `json:"resources"`
			Patches         []any    `json:"patches"`
		}](t, folder+"/kustomization.yml")
		paths, err := filepath.Glob(folder + "/*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			assert.Contains(t, kustomization.Resources, filepath.Base(path), folder)
		}
	}
}

// The root file system is read-only, and the kubelet knows how the program is. Pod Security asks for neither.
func TestContainersAreReadOnlyAndProbed(t *testing.T) {
	for _, folder := range deployments {
		deployment := decode[appsv1.Deployment](t, folder+"/deployment.yaml")
		for _, container := range deployment.Spec.Template.Spec.Containers {
			name := folder + "/" + container.Name
			readOnly := container.SecurityContext.ReadOnlyRootFilesystem
			assert.True(t, readOnly != nil && *readOnly, "%s: the root file system", name)
			for probe, path := range map[*corev1.Probe]string{
				container.StartupProbe: "/livez", container.LivenessProbe: "/livez", container.ReadinessProbe: "/readyz",
			} {
				require.NotNil(t, probe, name)
				require.NotNil(t, probe.HTTPGet, name)
				assert.Equal(t, path, probe.HTTPGet.Path, name)
				assert.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme, name)
				assert.Equal(t, "https", probe.HTTPGet.Port.StrVal, name)
			}
			assert.NotEmpty(t, container.Resources.Requests, name)
		}
	}
}

// A drain leaves a replica. The selector of a Deployment's pods selects all of them and no other pods.
func TestBudgetsAndNetworkPoliciesSelectTheirPods(t *testing.T) {
	for _, folder := range deployments {
		deployment := decode[appsv1.Deployment](t, folder+"/deployment.yaml")
		require.NotNil(t, deployment.Spec.Replicas)
		assert.EqualValues(t, 2, *deployment.Spec.Replicas, folder)
		require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels, folder)

		budget := decode[policyv1.PodDisruptionBudget](t, folder+"/availability.yaml")
		assert.Equal(t, deployment.Namespace, budget.Namespace, folder)
		assert.Equal(t, deployment.Spec.Selector, budget.Spec.Selector, folder)
		require.NotNil(t, budget.Spec.MaxUnavailable, folder)
		assert.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue(), folder)

		network := decode[networkingv1.NetworkPolicy](t, folder+"/network.yaml")
		assert.Equal(t, deployment.Namespace, network.Namespace, folder)
		assert.Equal(t, *deployment.Spec.Selector, network.Spec.PodSelector, folder)
		assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, network.Spec.PolicyTypes, folder)
		var open, served []int32
		for _, rule := range network.Spec.Ingress {
			for _, port := range rule.Ports {
				open = append(open, port.Port.IntVal)
			}
		}
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			served = append(served, port.ContainerPort)
		}
		assert.Equal(t, served, open, folder)
	}
}
