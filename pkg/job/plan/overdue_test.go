package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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
		"some go":            {pods: []*corev1.Pod{pod("b", 0), pod("a", 10*time.Second)}, next: OverdueAfter - 10*time.Second},
		"one has time to go": {pods: []*corev1.Pod{pod("b", -30*time.Second)}, next: OverdueAfter + 30*time.Second},
		"one does not": {pods: []*corev1.Pod{pod("b", time.Minute), pod("a", 0)}, next: OverdueAfter,
			want: "pod b should have ended by 1970-01-01T02:45:40Z and still exists: node n does not say that its containers have ended; " +
				"if the node is lost for good, delete it, or remove the pod with kubectl delete pod --force"},
		"several, of which one is kept": {pods: []*corev1.Pod{pod("z", time.Hour), kept},
			want: "pod kept should have ended by 1970-01-01T01:46:40Z and still exists (and 1 more): its finalizers keep it: example.com/keep"},
	} {
		t.Run(name, func(t *testing.T) {
			got, next := FindOverdue(c.pods, now)
			assert.Equal(t, c.next, next)
			if c.want == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, c.want, got.Message)
		})
	}
}
