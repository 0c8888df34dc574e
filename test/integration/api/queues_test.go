package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func queueOf(name, parent string) map[string]any {
	return map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"of": "deletion"}}, "spec": map[string]any{"parent": parent},
	}
}

// tryDelete asks whether the API server would delete a queue.
func tryDelete(t *testing.T, name string) error {
	t.Helper()
	return resource(queues).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}

// setStatus writes the status of a queue, as the queue controller does.
func setStatus(t *testing.T, name string, status map[string]any) {
	t.Helper()
	queue, err := resource(queues).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	queue.Object["status"] = status
	_, err = resource(queues).UpdateStatus(t.Context(), queue, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// TestAQueueIsNotDeletedUnderWhatIsInIt: a queue's status says what is in it.
func TestAQueueIsNotDeletedUnderWhatIsInIt(t *testing.T) {
	const pods, groups = "status.allocated: queue %s cannot be deleted because it has allocated Pods: %v; close it",
		"status: queue %s cannot be deleted because it has unfinished PodGroups: %v; close it"
	for i, c := range []struct {
		status map[string]any
		phrase string // "" if the queue may be deleted
		count  any
	}{
		{status: map[string]any{}},
		{status: map[string]any{"state": "Open"}},
		{status: map[string]any{"pending": int64(0), "inqueue": int64(0), "running": int64(0), "unknown": int64(0), "completed": int64(7)}},
		{status: map[string]any{"allocated": map[string]any{"cpu": "0", "pods": "0"}}},
		{status: map[string]any{"allocated": map[string]any{}}},
		{map[string]any{"pending": int64(1)}, groups, 1},
		{map[string]any{"inqueue": int64(2)}, groups, 2},
		{map[string]any{"running": int64(3)}, groups, 3},
		{map[string]any{"unknown": int64(4)}, groups, 4},
		{map[string]any{"pending": int64(1), "inqueue": int64(2), "running": int64(3), "unknown": int64(4), "completed": int64(5)}, groups, 10},
		{map[string]any{"state": "Closed", "running": int64(1)}, groups, 1},
		{map[string]any{"allocated": map[string]any{"pods": "1"}}, pods, 1},
		{map[string]any{"allocated": map[string]any{"pods": "2k"}, "running": int64(1)}, pods, "2k"},
		{map[string]any{"allocated": map[string]any{"pods": int64(2)}}, pods, 2},
	} {
		name := fmt.Sprintf("holds-%d", i)
		t.Run(name, func(t *testing.T) {
			create(t, queues, queueOf(name, ""))
			setStatus(t, name, c.status)
			err := tryDelete(t, name)
			setStatus(t, name, map[string]any{}) // so that it can be removed
			if c.phrase == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, fmt.Sprintf(c.phrase, name, c.count))
			require.True(t, apierrors.IsInvalid(err), "%v", err)
		})
	}
}

// TestRootAndDefaultAreNeverDeleted: two policies refuse it for a queue with children, and the API server reports one of them.
func TestRootAndDefaultAreNeverDeleted(t *testing.T) {
	for _, name := range []string{"root", "default"} {
		_, err := resource(queues).Create(t.Context(), &unstructured.Unstructured{Object: queueOf(name, "")}, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
		err = tryDelete(t, name)
		require.Error(t, err)
		require.Regexp(t, "metadata.name: `"+name+"` queue can not be deleted|spec.parent: queue "+name+" can not be deleted because", err.Error())
	}
}

// TestAQueueWithChildrenIsNotDeleted: until its children are gone or have another parent.
func TestAQueueWithChildrenIsNotDeleted(t *testing.T) {
	parent := create(t, queues, queueOf("parent", "")).GetName()
	child := create(t, queues, queueOf("child", parent)).GetName()
	eventually(t, "the child is seen", func() bool {
		err := tryDelete(t, parent)
		return err != nil && assert.ErrorContains(t, err,
			"spec.parent: queue parent can not be deleted because it has child queues, such as child; delete them first")
	})
	require.NoError(t, tryDelete(t, child))
	moved, err := resource(queues).Get(t.Context(), child, metav1.GetOptions{})
	require.NoError(t, err)
	moved.Object["spec"] = map[string]any{"parent": "root"}
	_, err = resource(queues).Update(t.Context(), moved, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "the parent may be deleted", func() bool { return tryDelete(t, parent) == nil })
}

// TestManyQueuesAreDeletedOneByOne: a request that deletes a collection is judged for each queue of it.
func TestManyQueuesAreDeletedOneByOne(t *testing.T) {
	create(t, queues, queueOf("busy", ""))
	setStatus(t, "busy", map[string]any{"running": int64(1)})
	create(t, queues, queueOf("idle", ""))
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	deleteAll := func(name string) error {
		return resource(queues).DeleteCollection(t.Context(), dryRun, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	}
	require.NoError(t, deleteAll("idle"))
	require.ErrorContains(t, deleteAll("busy"), "it has unfinished PodGroups: 1")
	setStatus(t, "busy", map[string]any{})
}

// TestTheStateOfAQueueIsNotForged: a user who writes a queue, on creation or later, does not write its status with it.
func TestTheStateOfAQueueIsNotForged(t *testing.T) {
	forged := queueOf("forged", "")
	forged["status"] = map[string]any{"state": "Closed", "running": int64(0)}
	created := create(t, queues, forged)
	assert.NotContains(t, created.Object, "status")
	setStatus(t, "forged", map[string]any{"state": "Open", "running": int64(1)})
	stored, err := resource(queues).Get(t.Context(), "forged", metav1.GetOptions{})
	require.NoError(t, err)
	stored.Object["status"] = map[string]any{"state": "Closed", "running": int64(0)}
	updated, err := resource(queues).Update(t.Context(), stored, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"state": "Open", "running": int64(1)}, updated.Object["status"])
	setStatus(t, "forged", map[string]any{})
}
