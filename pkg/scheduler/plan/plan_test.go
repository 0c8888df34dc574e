package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"pgregory.net/rapid"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/timeline"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a plan that was made so long ago, and expects a start in so long; 0 for none.
func at(ago, in time.Duration) *schedulingv1beta1.PodGroupPlan {
	plan := &schedulingv1beta1.PodGroupPlan{ComputedAt: metav1.NewTime(now.Add(-ago)), Message: "no start is known"}
	if in > 0 {
		plan.ExpectedStart = &schedulingv1beta1.ExpectedStart{At: metav1.NewTime(now.Add(in))}
	}
	return plan
}

func TestWhenAPlanIsWritten(t *testing.T) {
	tests := map[string]struct {
		last, next *schedulingv1beta1.PodGroupPlan
		waits      time.Duration
		want       bool
	}{
		"it has just come":               {nil, at(0, time.Hour), 2 * time.Second, false},
		"it waits":                       {nil, at(0, time.Hour), 3 * time.Second, true},
		"moved by little":                {at(time.Hour, time.Hour), at(0, 65*time.Minute), time.Hour, false},
		"moved by a tenth":               {at(time.Hour, time.Hour), at(0, 67*time.Minute), time.Hour, true},
		"sooner":                         {at(time.Hour, time.Hour), at(0, 50*time.Minute), time.Hour, true},
		"moved, and just written":        {at(59*time.Second, time.Hour), at(0, 2*time.Hour), time.Hour, false},
		"some seconds of a short wait":   {at(time.Hour, 9*time.Second), at(0, 15*time.Second), time.Hour, false},
		"a start becomes known":          {at(time.Hour, 0), at(0, time.Hour), time.Hour, true},
		"it is known no more":            {at(time.Hour, time.Hour), at(0, 0), time.Hour, true},
		"still not known":                {at(time.Hour, 0), at(0, 0), time.Hour, false},
		"the clock was set back":         {at(-time.Hour, time.Hour), at(0, 2*time.Hour), time.Hour, true},
		"clocks differ by a little":      {at(-time.Second, time.Hour), at(0, 2*time.Hour), time.Hour, false},
		"it was created an hour ahead":   {nil, at(0, time.Hour), -time.Hour, true},
		"it was created just now, ahead": {nil, at(0, time.Hour), -time.Second, false},
		"a start becomes known too soon": {at(time.Second, 0), at(0, time.Hour), time.Hour, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.last != nil && test.last.ExpectedStart != nil {
				test.last.Message = "expected"
			}
			if test.next.ExpectedStart != nil {
				test.next.Message = "expected"
			}
			assert.Equal(t, test.want, isDue(test.last, test.next, now.Add(-test.waits), now))
		})
	}
}

func TestThePauseAfterAPlanIsBounded(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: period, time.Second: 20 * time.Second, 76 * time.Second: 30 * time.Second} {
		assert.Equal(t, want, restAfter(took))
	}
}

func TestStartReviewsWaitForTheNextPlanIfOneTakesLong(t *testing.T) {
	for each, want := range map[time.Duration]int{0: 20, 50 * time.Millisecond: 20, 250 * time.Millisecond: 5, time.Second: 1, time.Minute: 1} {
		assert.Equal(t, want, answersIn(each), "%s each", each)
	}
}

// expects is a gang that is expected to wait for some time from now on.
func (r *ranges) expects(queue string, wait time.Duration) *firsts {
	low, high := r.spread(queue, wait)
	of := &firsts{}
	e := &of[horizonOf(wait)]
	e.made, e.At, e.Earliest, e.Latest = now, inSeconds(now.Add(wait)), inSeconds(now.Add(low)), inSeconds(now.Add(high))
	return of
}

func TestTheRangeFollowsTheErrors(t *testing.T) {
	r := newRanges()
	low, high := r.spread("q", time.Hour)
	assert.Equal(t, 6*time.Minute, low)
	assert.Equal(t, 10*time.Hour, high)
	for i := range 100 {
		r.started("q", r.expects("q", time.Hour), now.Add(time.Duration(i*37%100+30)*time.Minute)) // from 0.5 to 2.15
	}
	low, high = r.spread("q", 50*time.Minute)
	assert.InDelta(t, 50*40/60, low.Minutes(), 3, "a tenth is sooner")
	assert.InDelta(t, 50*119/60, high.Minutes(), 6, "a tenth is later")
	other, _ := r.spread("other", 50*time.Minute)
	assert.Equal(t, low, other, "other queues learn of it")
	_, high = r.spread("q", 10*time.Hour)
	assert.Equal(t, 100*time.Hour, high, "not for longer waits")
	for range 1000 {
		r.started("q", r.expects("q", time.Hour), now.Add(time.Hour))
	}
	low, high = r.spread("q", time.Hour)
	assert.Equal(t, low, high, "what is long ago is forgotten")
}

// TestARangeIsMissedBeforeItsGangStarts: gangs that wait for ever make the ranges of others longer. Each counts once.
func TestARangeIsMissedBeforeItsGangStarts(t *testing.T) {
	r := newRanges()
	for i := range 100 {
		r.started("q", r.expects("q", time.Hour), now.Add(time.Duration(i*37%100)*time.Minute))
	}
	_, high := r.spread("q", time.Hour)
	for range 5 {
		of := r.expects("q", time.Hour)
		e := &of[horizonOf(time.Hour)]
		r.waits("q", of, e.Latest.Time)
		assert.False(t, e.outlived)
		for range 3 {
			r.waits("q", of, e.Latest.Add(2*time.Second))
		}
		assert.True(t, e.outlived)
	}
	_, longer := r.spread("q", time.Hour)
	assert.InDelta(t, (high + 2*time.Minute).Minutes(), longer.Minutes(), 1.1, "five hundredths, less five times a fifth of one, at two ends")
}

// TestRangesHoldInFourOfFiveCases, whatever the starts do: some are later than expected by half, some by a hundred times, and that changes. Several gangs
// wait at the same time.
func TestRangesHoldInFourOfFiveCases(t *testing.T) {
	mustertesting.Histories(t, 20, func(rt *rapid.T) {
		source := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		r, known := newRanges(), []*firsts{}
		bias, width, held := 0., 1., 0
		const starts, last, together = 3000, 2000, 5
		for i := range starts {
			if i%400 == 0 {
				bias, width = 4*source.Float64()-1, 2*source.Float64()
			}
			wait := time.Duration(11+source.IntN(49)) * time.Minute
			known = append(known, r.expects("q", wait))
			if len(known) < together {
				continue
			}
			of, e := known[0], known[0][horizonOf(time.Hour)]
			known = known[1:]
			at := e.made.Add(time.Duration(float64(e.At.Sub(e.made)) * math.Exp(bias+width*source.NormFloat64())))
			const second = time.Second // the API has whole seconds
			if i >= starts-last && !at.Before(e.Earliest.Add(-second)) && !at.After(e.Latest.Add(second)) {
				held++
			}
			r.started("q", of, at)
		}
		assert.InDelta(rt, 0.80, float64(held)/last, 0.05)
	})
}

func TestWhatAPlanSays(t *testing.T) {
	s := &Snapshot{
		Cluster: timeline.Cluster{Now: now, Runs: make([]timeline.Run, 4)},
		Waiting: []Waiting{{Key: state.Key{Namespace: "team", Name: "wide"}, position: 1}, {Key: state.Key{Namespace: "other", Name: "narrow"}, position: 2}},
		Runs:    []Owner{{"team", "train-7"}, {"team", "train-7"}, {"other", "secret"}, {"team", "train-1"}},
	}
	plan := s.planOf(0, &timeline.Start{At: now.Add(90 * time.Minute), Runs: []int{0, 1, 2, 3}, Gangs: []int{1}}, newRanges())
	assert.Equal(t, []string{"train-1", "train-7"}, plan.WaitsFor)
	assert.EqualValues(t, 2, plan.WaitsForOthers, "names of other namespaces are not told")
	assert.Equal(t, "expected to start about 13:30:00 UTC on January 1, when train-1, train-7 and 2 others end", plan.Message)
	assert.Equal(t, now.Add(9*time.Minute), plan.ExpectedStart.Earliest.Time)

	plan = s.planOf(1, &timeline.Start{At: now.Add(time.Hour), Runs: []int{2}}, newRanges())
	assert.Equal(t, "expected to start about 13:00:00 UTC on January 1, when secret ends", plan.Message)
	assert.EqualValues(t, 2, plan.Position)

	plan = s.planOf(0, &timeline.Start{Why: timeline.NoEnd}, newRanges())
	assert.Nil(t, plan.ExpectedStart)
	assert.Equal(t, reasons[timeline.NoEnd], plan.Message)
}

// TestWaitingGangsAreCounted: gangs of StartReviews do not count, also if the plan leaves them out. Nor do gangs that are gone.
func TestWaitingGangsAreCounted(t *testing.T) {
	w := newWorld(t)
	metrics.NewKubeRegistry().MustRegister(w.tr.Metrics.PlanGangs) // else it counts nothing
	planned := func() int {
		w.look(t)
		planned, err := testutil.GetGaugeMetricValue(w.tr.Metrics.PlanGangs)
		require.NoError(t, err)
		return int(planned)
	}
	first := w.create(t, jobOf(1).UID("first").Obj())
	assert.Equal(t, 1, planned())
	w.ask(t, "team", "one", jobOf(1).Obj())
	w.ask(t, "team", "two", jobOf(1).Obj())
	assert.Equal(t, 1, planned())
	assert.Equal(t, 2, w.count(t, "team", musterv1alpha1.StartsLater))

	w.clock.Step(time.Second)
	for i := range mostGangs {
		w.tr.SetPodGroup(mustertesting.MakePodGroup(fmt.Sprintf("waits%d", i)).UID(fmt.Sprintf("waits%d", i)).MinMember(1).MinResources("cpu", "4").
			Queue("q").Phase(schedulingv1beta1.PodGroupPending).Created(w.clock.Now()).Obj())
	}
	w.clock.Step(time.Second)
	w.ask(t, "team", "three", jobOf(1).Obj())
	assert.Equal(t, mostGangs, planned())
	assert.Equal(t, 1, w.count(t, "team", musterv1alpha1.StartUnknown))

	w.tr.DeletePodGroup(first)
	for i := range mostGangs {
		w.tr.DeletePodGroup(mustertesting.MakePodGroup(fmt.Sprintf("waits%d", i)).UID(fmt.Sprintf("waits%d", i)).Obj())
	}
	assert.Zero(t, planned())
}
