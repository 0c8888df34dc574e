package watchlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAPodIsGoneWhoseNameAnotherHas: the first was deleted, and the second created, while the API server was away.
func TestAPodIsGoneWhoseNameAnotherHas(t *testing.T) {
	l := New(time.Now)
	h := handle(l.RecordPod, l.RecordPodGone)
	pod := func(uid types.UID, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}, Spec: corev1.PodSpec{NodeName: node}}
	}
	h.OnAdd(pod("1", ""), false)
	h.OnUpdate(pod("1", ""), pod("1", "n"))
	require.True(t, l.pods["1"].Live())
	h.OnUpdate(pod("1", "n"), pod("2", ""))
	assert.False(t, l.pods["1"].Gone.IsZero())
	assert.True(t, l.pods["2"].Live())
}
