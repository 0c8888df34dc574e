package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPrimeHubManifestsApply: the example of PrimeHub's documentation, and images and instance types as PrimeHub writes them.
func TestPrimeHubManifestsApply(t *testing.T) {
	out, err := kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", "testdata/primehub")
	assert.NoError(t, err, out)
}

// TestUnknownFieldsOfPresetsAreKept: PrimeHub's own programs read more of images and instance types than Muster does.
func TestUnknownFieldsOfPresetsAreKept(t *testing.T) {
	image := create(t, images, normal(t, parse(t, fullObjects[images])))
	assert.Equal(t, map[string]any{"baseImage": "base"}, image.Object["spec"].(map[string]any)["imageSpec"])
	instanceType := create(t, instanceTypes, normal(t, parse(t, fullObjects[instanceTypes])))
	assert.Equal(t, map[string]any{"kept": true}, instanceType.Object["spec"].(map[string]any)["monitoring"])
}

// TestAnInstanceTypeHasFractionsOfCPUs: PrimeHub writes them as JSON numbers.
func TestAnInstanceTypeHasFractionsOfCPUs(t *testing.T) {
	small := parse(t, "{apiVersion: primehub.io/v1alpha1, kind: InstanceType, metadata: {name: half}, spec: {limits.cpu: 0.5, limits.memory: 512M}}")
	created := create(t, instanceTypes, small)
	assert.InDelta(t, 0.5, created.Object["spec"].(map[string]any)["limits.cpu"], 0)
}

// TestWhatAPhJobRunsIsFixed: its pod may run already. Fields for how long it runs, and whether at all, may change.
func TestWhatAPhJobRunsIsFixed(t *testing.T) {
	created := create(t, phJobs, merge(t, parse(t, smallPhJob), "metadata: {name: fixed}"))
	for patch, refused := range map[string]bool{
		"spec: {command: other}": true, "spec: {image: other}": true, "spec: {instanceType: other}": true,
		"spec: {groupId: other}": true, "spec: {groupName: other}": true, "spec: {userId: other}": true, "spec: {userName: other}": true,
		"spec: {displayName: other}": false, "spec: {cancel: true}": false, "spec: {requeueLimit: 1}": false,
		"spec: {activeDeadlineSeconds: 1}": false, "spec: {ttlSecondsAfterFinished: 1}": false,
	} {
		changed := &unstructured.Unstructured{Object: merge(t, created.Object, patch)}
		_, err := resource(phJobs).Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if refused {
			requireRefused(t, err, "spec", "what a PhJob runs, and for whom, cannot be changed: create another PhJob")
			continue
		}
		require.NoError(t, err, patch)
	}
}

// TestALongCommandIsRefused: a command of 1 MiB is refused when it is submitted, with the most that it may have.
func TestALongCommandIsRefused(t *testing.T) {
	long := merge(t, parse(t, smallPhJob), "spec: {command: "+strings.Repeat("x", 1<<20)+"}")
	requireRefused(t, tryCreate(t, phJobs, long), "spec.command", "may not be more than 131071 bytes")
}
