package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestFindOverdue(t *testing.T) {
	now := time.Unix(10_000, 0)
	pod := func(name string, since time.Duration) *corev1.Pod {
		return mustertesting.MakePod(name).Node("n").Terminating(now.Add(-since)).Obj()
	}
	kept := pod("kept", time.Hour)
	kept.Finalizers = []string{"example.com/keep"}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
		next time.Duration
	}{
		"none":               {pods: []*corev1.Pod{mustertesting.MakePod("p").Obj()}},
		"some go":            {pods: []*corev1.Pod{pod("b", 0), pod("a", 10*time.Second)}, next: overdueAfter - 10*time.Second},
		"one has time to go": {pods: []*corev1.Pod{pod("b", -30*time.Second)}, next: overdueAfter + 30*time.Second},
		"one does not": {pods: []*corev1.Pod{pod("b", time.Minute), pod("a", 0)}, next: overdueAfter,
			want: "pod b should have ended by 1970-01-01T02:45:40Z and still exists: node n does not say that its containers have ended; " +
				"if the node is lost for good, delete it, or remove the pod with kubectl delete pod --force"},
		"several, of which one is kept": {pods: []*corev1.Pod{pod("z", time.Hour), kept},
			want: "pod kept should have ended by 1970-01-01T01:46:40Z and still exists (and 1 more): its finalizers keep it: example.com/keep"},
	} {
		t.Run(name, func(t *testing.T) {
			got, next := findOverdue(c.pods, now)
			assert.Equal(t, c.next, next)
			if c.want == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, c.want, got.message)
		})
	}
}

// TestAPodThatDoesNotGoIsNamed (issue 25, 10): its node is dead. The Job says so without an event of the pod, whatever its phase.
func TestAPodThatDoesNotGoIsNamed(t *testing.T) {
	const told = "pod j-a-0 should have ended by"
	for name, p := range map[string]batchv1alpha1.JobPhase{"it runs": batchv1alpha1.Running, "it is aborted": batchv1alpha1.Aborting} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), p, 0, 1)
			pod, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-0", metav1.GetOptions{})
			require.NoError(t, err)
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: d.time.Now()}, []string{"test/keeps"}
			d.shows(pod)
			after, err := d.looks()
			require.NoError(t, err)
			assert.NotContains(t, d.job().Status.State.Message, told)
			require.Positive(t, after)
			require.LessOrEqual(t, after, overdueAfter)
			d.time.SetTime(d.time.Now().Add(overdueAfter))
			require.NoError(t, d.settles())
			state := d.job().Status.State
			assert.Contains(t, state.Message, told)
			assert.Equal(t, p == batchv1alpha1.Running, state.Reason == reasonPodOverdue)

			require.NoError(t, d.podIndex.Delete(pod))
			require.NoError(t, d.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name))
			require.NoError(t, d.settles())
			assert.NotContains(t, d.job().Status.State.Message, told)
		})
	}
}
