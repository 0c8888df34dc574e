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
	"k8s.io/apimachinery/pkg/util/uuid"
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

// endOf is the end of another run, now.
func endOf(took time.Duration) *End {
	return &End{ID: string(uuid.NewUUID()), At: time.Now(), Run: run, Took: took, Successful: true}
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
		kube := kubefake.NewSimpleClientset()
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
			r.Note(endOf(time.Hour))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.LessOrEqual(t, writes(kube), 1000/60+2, "once a minute, and the first write makes it")

		r.Note(endOf(2 * time.Hour))
		stop()
		<-ended
		assert.Equal(t, 90*time.Minute, mean(leader(t, kube)), "it is written at the end")
	})
}

// TestTheNextLeaderNotesWhatTheLastHadNoTimeFor, and nothing twice.
func TestTheNextLeaderNotesWhatTheLastHadNoTimeFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewSimpleClientset()
		all := []*End{endOf(time.Hour)}
		all[0].At = time.Now().Add(-24 * time.Hour)
		killed := leader(t, kube)
		killed.NoteLate(all)
		assert.Equal(t, time.Hour, mean(killed), "the first leader of all notes what there is")

		next := func(end *End) time.Duration {
			all = append([]*End{end}, all...)
			r := leader(t, kube)
			r.NoteLate(all)
			mean := mean(r)
			r.NoteLate(all)
			r.Note(end)
			r.writeIfChanged(t.Context())
			again := leader(t, kube)
			again.NoteLate(all)
			for _, same := range []*Runs{r, again} {
				assert.Equal(t, mean, same.Find(runtimes.Facts{Run: run}).For, "nothing is noted twice")
			}
			return mean
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 90*time.Minute, next(endOf(2*time.Hour)), "it noted nothing that the killed one wrote")
		time.Sleep(time.Second)
		assert.Equal(t, 150*time.Minute, next(endOf(3*time.Hour)), "it ended after the last write")
		time.Sleep(time.Hour)
		assert.Equal(t, 210*time.Minute, next(endOf(4*time.Hour)), "the others ended long before the last write")
	})
}

// TestAHistoryOfAnEarlierVersion: it has no list of noted runs. All runs that ended before count as noted, so none is added twice.
func TestAHistoryOfAnEarlierVersion(t *testing.T) {
	var good runtimes.Past
	good.Ended(run, time.Hour, 0)
	kube := kubefake.NewSimpleClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: Name}, Data: map[string]string{Key: good.String()}})
	r := leader(t, kube)
	old := endOf(2 * time.Hour)
	old.At = old.At.Add(-time.Second)
	r.NoteLate([]*End{old})
	assert.Equal(t, time.Hour, mean(r))
}

// TestThousandsOfRunsInAMinute are noted once. The ConfigMap has the last of them.
func TestThousandsOfRunsInAMinute(t *testing.T) {
	kube := kubefake.NewSimpleClientset()
	r := leader(t, kube)
	var all []*End
	for i := range 3 * maxNoted {
		end := endOf(time.Hour)
		end.At = end.At.Add(-time.Duration(i%100) * time.Second)
		end.Stated = time.Minute // each is one of three that make the word of its user count no more
		all = append(all, end)
	}
	r.NoteLate(all)
	r.writeIfChanged(t.Context())
	found, err := kube.CoreV1().ConfigMaps("muster-system").Get(t.Context(), Name, metav1.GetOptions{})
	require.NoError(t, err)
	kept, ok := readNoted(found.Data[notedKey])
	assert.True(t, ok)
	assert.InDelta(t, maxNoted, len(kept.runs), 100)
	next := leader(t, kube)
	next.NoteLate(all)
	_, changed := next.take()
	assert.False(t, changed)
}

// TestRunsThatFailAreForgotten: a user whose Jobs all fail does not fill the memory of the controller.
func TestRunsThatFailAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leader(t, kubefake.NewSimpleClientset())
		for range 10 {
			failed := endOf(time.Minute)
			failed.Successful = false
			r.Note(failed)
		}
		time.Sleep(2 * late)
		_, changed := r.take()
		assert.False(t, changed)
		assert.Empty(t, r.noted.runs)
	})
}

// TestAStandbyNotesNothing: the leader does.
func TestAStandbyNotesNothing(t *testing.T) {
	kube := kubefake.NewSimpleClientset()
	r := New(kube.CoreV1().ConfigMaps("muster-system"), clock.RealClock{})
	r.Note(endOf(time.Hour))
	assert.Zero(t, mean(r))
	r.writeIfChanged(t.Context())
	assert.Zero(t, writes(kube))
	inMemory := New(nil, clock.RealClock{})
	inMemory.Read(t.Context())
	inMemory.Note(endOf(time.Hour))
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
			kube := kubefake.NewSimpleClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: Name}, Data: data})
			r := leader(t, kube)
			if name == "a part" {
				assert.Equal(t, time.Hour, mean(r))
			}
			r.Note(endOf(time.Hour))
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
		kube := kubefake.NewSimpleClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: Name}, Data: map[string]string{Key: good.String()}})
		failures := 3
		kube.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("no answer")
		})
		r := leader(t, kube)
		assert.Equal(t, time.Hour, mean(r))
		r.Note(endOf(2 * time.Hour))
		failures = 1
		r.writeIfChanged(t.Context())
		r.writeIfChanged(t.Context())
		assert.Equal(t, 90*time.Minute, mean(leader(t, kube)))

		refused := kubefake.NewSimpleClientset()
		refused.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), Name, errors.New("no right"))
		})
		began := time.Now()
		r = leader(t, refused)
		assert.Less(t, time.Since(began), readPause)
		r.Note(endOf(time.Hour))
		assert.Equal(t, time.Hour, mean(r), "it is kept in memory")
	})
}
