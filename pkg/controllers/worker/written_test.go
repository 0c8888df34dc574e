package worker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestLatest(t *testing.T) {
	object := func(uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	written, cached := object("a", "10"), object("a", "9")

	var w Written[*corev1.Pod]
	assert.Same(t, cached, w.Latest("key", cached), "nothing written yet")
	w.Put("key", written)
	assert.Same(t, written, w.Latest("key", cached), "the informer lags")
	assert.Same(t, cached, w.Latest("other", cached))

	caughtUp := object("a", "10")
	assert.Same(t, caughtUp, w.Latest("key", caughtUp))
	assert.Same(t, cached, w.Latest("key", cached), "forgotten once the informer has caught up")

	w.Put("key", written)
	namesake := object("b", "8")
	assert.Same(t, namesake, w.Latest("key", namesake), "another object of the same name")
	w.Put("key", written)
	w.Forget("key")
	assert.Same(t, cached, w.Latest("key", cached))
}
