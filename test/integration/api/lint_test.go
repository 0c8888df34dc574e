package api_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-sched/muster/pkg/lint"
	"github.com/muster-sched/muster/test/integration/harness"
)

var linter = sync.OnceValues(func() (*harness.Linter, error) { return harness.NewLinter(config) })

// lintOf asks lint about an object that replaces an old one, or is created if old is nil.
func lintOf(t *testing.T, object, old map[string]any) lint.Report {
	t.Helper()
	l, err := linter()
	require.NoError(t, err)
	report, err := l.Ask(t.Context(), object, old)
	require.NoError(t, err)
	return report
}

// requireLintAgrees compares the API server's answer about an object with lint's answer, given the same facts.
func requireLintAgrees(t *testing.T, object, old map[string]any, said error) {
	t.Helper()
	assert.Empty(t, harness.Disagreement(lintOf(t, object, old), said))
}

// requireLintAgreesOnUpdate does the same for a change of an object that is stored.
func requireLintAgreesOnUpdate(t *testing.T, gvr schema.GroupVersionResource, object map[string]any, said error) {
	t.Helper()
	name, _, err := unstructured.NestedString(object, "metadata", "name")
	require.NoError(t, err)
	stored, err := resource(gvr).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	requireLintAgrees(t, object, stored.Object, said)
}

// The comparison itself sees a difference.
func TestLintAndTheAPIServerAreCompared(t *testing.T) {
	good, bad := parse(t, smallJob), merge(t, parse(t, smallJob), `spec: {minAvailable: 3}`)
	refused := tryCreate(t, jobs, bad)
	require.Error(t, refused)
	assert.Empty(t, harness.Disagreement(lintOf(t, good, nil), nil))
	assert.Empty(t, harness.Disagreement(lintOf(t, bad, nil), refused))
	assert.NotEmpty(t, harness.Disagreement(lintOf(t, bad, nil), nil), "lint refuses more")
	assert.NotEmpty(t, harness.Disagreement(lintOf(t, good, nil), refused), "lint refuses less")
	other := tryCreate(t, jobs, merge(t, parse(t, smallJob), `spec: {minSuccess: 3}`))
	assert.NotEmpty(t, harness.Disagreement(lintOf(t, bad, nil), other), "lint refuses for another reason")
}
