package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// mostReplicas is how many replicas the API server has ever taken for a task.
const mostReplicas = 1_000_000

// FuzzTaskRecord: reading a status, writing it and reading it again gives the same for any content. So a change of leader changes nothing;
// and no index counts that the task does not have.
func FuzzTaskRecord(f *testing.F) {
	f.Add("0-2,5", "1", "2", true, "0-1", int32(3), "5", int32(7), "", "", int32(5))
	f.Add("base64://///w", "base64:AQAAgA", "", false, "", int32(0), "0", int32(0), "", "", int32(40))
	f.Add("", "", "", false, "", int32(0), "", int32(0), "1", "uid-2", int32(3))
	f.Add("5-1", "0,0", "-", false, "0-2147483647", int32(-1), "1", int32(2147483647), "-1", "", int32(0))
	f.Fuzz(func(t *testing.T, created, succeeded, failed string, completed bool, replaced string, generation int32,
		older string, olderGeneration int32, handledIndex, handledUID string, replicas int32,
	) {
		replicas %= mostReplicas
		status := batchv1alpha1.TaskRecord{Name: "a", Created: created, Succeeded: succeeded, Failed: failed, Completed: completed}
		if replaced != "" {
			status.Replaced = append(status.Replaced, batchv1alpha1.ReplacedPods{Generation: generation, Indexes: replaced})
		}
		if older != "" {
			status.Replaced = append(status.Replaced, batchv1alpha1.ReplacedPods{Generation: olderGeneration, Indexes: older})
		}
		if handledIndex != "" {
			status.Handled = map[string]string{handledIndex: handledUID}
		}
		record := ReadRecord([]batchv1alpha1.TaskRecord{{Name: "b", Created: "0"}, status}, "a", replicas)
		for _, set := range []interface{ Len() int32 }{&record.Created, &record.Succeeded, &record.Failed} {
			require.LessOrEqual(t, set.Len(), max(replicas, 0))
		}
		require.LessOrEqual(t, len(record.Replaced), int(max(batchv1alpha1.MaxReplicas, replicas)))

		var again Record
		if written, found := record.Write("a"); found {
			require.LessOrEqual(t, len(written.Replaced), maxGenerations)
			require.Empty(t, written.Handled, "it is written no more")
			again = ReadRecord([]batchv1alpha1.TaskRecord{written}, "a", replicas)
		} else {
			again = ReadRecord(nil, "a", replicas)
		}
		require.Equal(t, record.Created.String(), again.Created.String())
		require.Equal(t, record.Succeeded.String(), again.Succeeded.String())
		require.Equal(t, record.Failed.String(), again.Failed.String())
		require.Equal(t, record.Completed, again.Completed)
		require.Equal(t, record.Replaced, again.Replaced)

		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(handledUID)}}
		record.Seen(0, pod)
		again.Seen(0, pod)
		require.Equal(t, record.Replaced, again.Replaced, "the pod that is meant replaces none")
	})
}
