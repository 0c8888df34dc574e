package gang

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestGrace: what a pod says counts up to LongestGrace where its room is not its queue's.
func TestGrace(t *testing.T) {
	for name, c := range map[string]struct {
		own, deleted *int64 // the pod's own grace period, and that of its deletion
		grace        time.Duration
		bounded      *int64
		lingers      bool
	}{
		"it says nothing":             {nil, nil, 30 * time.Second, nil, false},
		"none":                        {ptr.To[int64](0), nil, 0, nil, false},
		"at the bound":                {ptr.To[int64](600), nil, LongestGrace, nil, false},
		"above it":                    {ptr.To[int64](601), nil, 601 * time.Second, ptr.To[int64](600), false},
		"more than a time can have":   {ptr.To[int64](math.MaxInt64), nil, 100 * 365 * 24 * time.Hour, ptr.To[int64](600), false},
		"it goes soon":                {ptr.To[int64](600), ptr.To[int64](600), LongestGrace, nil, false},
		"it was deleted for a time":   {ptr.To[int64](601), ptr.To[int64](601), 601 * time.Second, ptr.To[int64](600), true},
		"only its deletion is slow":   {nil, ptr.To[int64](math.MaxInt64), 30 * time.Second, ptr.To[int64](600), true},
		"its deletion was made short": {ptr.To[int64](3600), ptr.To[int64](600), time.Hour, ptr.To[int64](600), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: c.own}}
			if c.deleted != nil {
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, c.deleted
			}
			assert.Equal(t, c.grace, GraceOf(pod))
			assert.Equal(t, c.bounded, BoundedGrace(pod))
			assert.Equal(t, c.lingers, Lingers(pod))
			assert.Equal(t, c.lingers, AsksToStay(pod), "it goes where its room is borrowed, not by priority")
			assert.Equal(t, c.deleted == nil || c.lingers, MayBeEvicted(pod))
		})
	}
}
