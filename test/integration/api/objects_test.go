package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// parse reads a YAML object.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	return object
}

// merge returns a copy of base with the fields of a YAML patch. Maps are merged, null removes, all else replaces.
func merge(t *testing.T, base map[string]any, patch string) map[string]any {
	t.Helper()
	merged := runtime.DeepCopyJSON(normal(t, base))
	mergeInto(merged, normal(t, parse(t, patch)))
	return merged
}

func mergeInto(into, patch map[string]any) {
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isMap && wasMap:
			mergeInto(old, inner)
		default:
			into[name] = value
		}
	}
}

// normal gives numbers the types that unstructured objects have.
func normal(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(object)
	require.NoError(t, err)
	normalized := map[string]any{}
	require.NoError(t, yaml.Unmarshal(text, &normalized))
	return integers(normalized).(map[string]any)
}

func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			value[name] = integers(value[name])
		}
	case []any:
		for i := range value {
			value[i] = integers(value[i])
		}
	case float64:
		return int64(value)
	}
	return value
}

// causes returns what the API server objected to; none if it took the object.
func causes(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	if err == nil {
		return nil
	}
	var status *apierrors.StatusError
	require.ErrorAs(t, err, &status, "not an answer of the API server")
	require.True(t, apierrors.IsInvalid(err), "refused, but not as invalid: %v", err)
	return status.ErrStatus.Details.Causes
}

// requireRefused checks that the API server refused an object because of a field, with words that contain the text.
func requireRefused(t *testing.T, err error, field, text string) {
	t.Helper()
	require.Error(t, err, "taken, but %s should be refused", field)
	found := causes(t, err)
	for _, cause := range found {
		if cause.Field == field && containsFold(cause.Message, text) {
			return
		}
	}
	require.Failf(t, "refused for other reasons", "wanted %s: ...%s..., got %+v", field, text, found)
}
