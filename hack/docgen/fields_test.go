package main

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// TestEveryFieldHasAState: a field that is added to the types needs a row, and so does each that was forgotten.
func TestEveryFieldHasAState(t *testing.T) {
	want, err := fieldsPage()
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/reference/fields.md")
	require.NoError(t, err)
	assert.Equal(t, want, string(page), "run make update")

	fields := fieldsOf(reflect.TypeFor[schedulingv1beta1.Queue](), "")
	assert.Contains(t, fields, "spec.extendClusters[*].capacity", "fields below lists are found")
	assert.Contains(t, fields, "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution", "and below pointers")
}

func TestAFieldWithoutAStateIsAnError(t *testing.T) {
	kind := fieldKind{works: []string{"spec.a", "spec.list"}, states: map[string]fieldState{"spec.list[*].b": {noEffect, "why"}}}
	rows, err := kind.rows([]string{"spec.a", "spec.list[*].b", "spec.list[*].c.d"})
	require.NoError(t, err)
	assert.Equal(t, []string{"| `spec.a` | works |  |\n", "| `spec.list[*].b` | no effect | why |\n", "| `spec.list[*].c.d` | works |  |\n"}, rows)
	_, err = kind.rows([]string{"spec.a", "spec.list[*].b", "spec.list[*].c", "spec.ab"})
	require.ErrorContains(t, err, "spec.ab has no state")
	_, err = kind.rows([]string{"spec.a", "spec.list[*].c"})
	assert.ErrorContains(t, err, "spec.list[*].b has a state, and there is no such field")
}
