package runtimes

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

func TestTheWordOfAUser(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "1s": time.Second, "8760h": Longest, "0s": 0, "-1h": 0, "": 0, "soon": 0, "1d": 0, "87600h": 0, "9999999999h": 0,
	} {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"muster.sh/running-estimate": text}}}
		stated, err := Stated(group)
		assert.Equal(t, want, stated, text)
		assert.Equal(t, want == 0, err != nil, text)
		assert.Equal(t, want > 0, OfGroup(group).Known(), text)
	}
	stated, err := Stated(&schedulingv1beta1.PodGroup{})
	require.NoError(t, err)
	assert.Zero(t, stated)
}

// TestWhatTheControllerHasFoundCounts: also where it has found that the word of the user is not used.
func TestWhatTheControllerHasFoundCounts(t *testing.T) {
	hours := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Hour} }
	for name, test := range map[string]struct {
		found *schedulingv1beta1.PodGroupEstimate
		want  Estimate
	}{
		"nothing yet":      {nil, Estimate{time.Hour, User, 0}},
		"history":          {&schedulingv1beta1.PodGroupEstimate{Runtime: hours(2), Source: schedulingv1beta1.EstimateFromHistory}, Estimate{2 * time.Hour, History, 0}},
		"a limit":          {&schedulingv1beta1.PodGroupEstimate{Runtime: hours(2), Source: schedulingv1beta1.EstimateFromLimit, Limit: hours(2)}, Estimate{2 * time.Hour, Limit, 2 * time.Hour}},
		"a queue":          {&schedulingv1beta1.PodGroupEstimate{Runtime: hours(2), Source: schedulingv1beta1.EstimateFromQueue}, Estimate{2 * time.Hour, Queue, 0}},
		"nothing":          {&schedulingv1beta1.PodGroupEstimate{Message: "not used"}, Estimate{}},
		"nothing real":     {&schedulingv1beta1.PodGroupEstimate{Runtime: hours(-2), Source: schedulingv1beta1.EstimateFromUser, Limit: hours(-3)}, Estimate{}},
		"something absurd": {&schedulingv1beta1.PodGroupEstimate{Runtime: hours(2_000_000), Source: schedulingv1beta1.EstimateFromUser}, Estimate{Longest, User, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"muster.sh/running-estimate": "1h"}}}
			group.Status.Estimate = test.found
			assert.Equal(t, test.want, OfGroup(group))
		})
	}
}

// TestAnEndIsFoundForAnyTime: whatever the estimate, the limit and the clock are. Without a limit it lies in the future, unless a run is a
// hundred years old.
func TestAnEndIsFoundForAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		estimate := Estimate{For: time.Duration(rapid.Int64().Draw(t, "for")), Limit: time.Duration(rapid.Int64().Draw(t, "limit"))}
		now := time.Unix(rapid.Int64Range(0, math.MaxInt32).Draw(t, "now"), 0)
		began := now.Add(-time.Duration(rapid.Int64().Draw(t, "ran")))
		if rapid.Bool().Draw(t, "no start") {
			began = time.Time{}
		}
		end, known := estimate.End(began, now)
		require.Equal(t, estimate.For > 0, known)
		switch {
		case !known:
		case estimate.Limit > 0:
			require.LessOrEqual(t, end.Sub(began), estimate.Limit)
		case now.Sub(began) < forever:
			require.True(t, end.After(now), "%s is not after %s", end, now)
		}
	})
}
