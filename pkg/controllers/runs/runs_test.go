package runs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/runtimes"
)

var run = runtimes.Run{Owner: "user ada", Queue: "q", Name: "train-1", Size: "worker=2"}

// leader is a history that was read.
func leader(t *testing.T, kube *kubefake.Clientset) *Runs {
	t.Helper()
	r := New(kube.CoreV1().ConfigMaps("muster-system"), clock.RealClock{})
	r.Read(t.Context())
	return r
}

func mean(r *Runs) time.Duration { return r.Find(runtimes.Facts{Run: run}).For }

// writes counts the requests that write.
func writes(kube *kubefake.Clientset) (n int) {
	for _, action := range kube.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestTheNextLeaderKnowsTheRunsOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		r := leader(t, kube)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Zero(t, writes(kube), "nothing has changed")

		for range 1000 {
			r.Ended(run, time.Hour, 0)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.LessOrEqual(t, writes(kube), 1000/60+2, "once a minute, and the first write makes it")

		r.Ended(run, 2*time.Hour, 0)
		stop()
		<-ended
		assert.Equal(t, 90*time.Minute, mean(leader(t, kube)), "it is written at the end")
	})
}

// TestAStandbyNotesNothing: the leader does.
func TestAStandbyNotesNothing(t *testing.T) {
	kube := kubefake.NewClientset()
	r := New(kube.CoreV1().ConfigMaps("muster-system"), clock.RealClock{})
	r.Ended(run, time.Hour, 0)
	assert.Zero(t, mean(r))
	r.writeIfChanged(t.Context())
	assert.Zero(t, writes(kube))
	inMemory := New(nil, clock.RealClock{})
	inMemory.Read(t.Context())
	inMemory.Ended(run, time.Hour, 0)
	assert.Equal(t, time.Hour, mean(inMemory))
	inMemory.Run(t.Context())
}

// TestABrokenConfigMapIsReplaced: what can be read of it counts.
func TestABrokenConfigMapIsReplaced(t *testing.T) {
	var good runtimes.Past
	good.Ended(run, time.Hour, 0)
	for name, data := range map[string]map[string]string{
		"nothing": nil, "another key": {"x": "y"}, "rubbish": {Key: "rubbish"}, "a part": {Key: "rubbish\n" + good.String()},
		"large": {Key: strings.Repeat("rubbish\n", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			kube := kubefake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: Name}, Data: data})
			r := leader(t, kube)
			if name == "a part" {
				assert.Equal(t, time.Hour, mean(r))
			}
			r.Ended(run, time.Hour, 0)
			r.writeIfChanged(t.Context())
			found, err := kube.CoreV1().ConfigMaps("muster-system").Get(t.Context(), Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.NotContains(t, found.Data[Key], "rubbish")
			_, broken := runtimes.Read(found.Data[Key])
			assert.Zero(t, broken)
		})
	}
}

// TestAFailedRequestIsTriedAgain, and one that is forbidden keeps no replica from leading.
func TestAFailedRequestIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good runtimes.Past
		good.Ended(run, time.Hour, 0)
		kube := kubefake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: Name}, Data: map[string]string{Key: good.String()}})
		failures := 3
		kube.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("no answer")
		})
		r := leader(t, kube)
		assert.Equal(t, time.Hour, mean(r))
		r.Ended(run, 2*time.Hour, 0)
		failures = 1
		r.writeIfChanged(t.Context())
		r.writeIfChanged(t.Context())
		assert.Equal(t, 90*time.Minute, mean(leader(t, kube)))

		refused := kubefake.NewClientset()
		refused.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), Name, errors.New("no right"))
		})
		began := time.Now()
		r = leader(t, refused)
		assert.Less(t, time.Since(began), readPause)
		r.Ended(run, time.Hour, 0)
		assert.Equal(t, time.Hour, mean(r), "it is kept in memory")
	})
}
