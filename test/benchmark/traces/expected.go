package main

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plan"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// Expected says how right the scheduler was about starts.
type Expected struct {
	Ranges, Held    int           // expected ranges that were written, and those in which the gang did start
	Width           float64       // of a range, as a part of the wait from then on; the median
	Reserved, Moved int           // gangs that had a reservation with a start, and times that a start moved to later by more than planEvery
	Plans           int           // plans of the gangs that wait
	PlanTime        time.Duration // real time of all plans together
}

// held is the share of the expected ranges in which the gang did start.
func (e Expected) held() float64 { return float64(e.Held) / float64(max(e.Ranges, 1)) }

// planEvery is the pause between two plans, and two looks at the reservations. The scheduler makes plans more often. A plan has to be cheap beside jobs
// of hours.
const planEvery = 5 * time.Minute

// said is an expected range of a start that was written.
type said struct {
	job                    int
	made, earliest, latest time.Duration // since the trace began
}

// expect makes plans, and looks at the reservations, until the context ends.
func (r *replay) expect(ctx context.Context, handle fwk.Handle, tracker *gangs.Tracker) {
	room, starts := plan.Of(handle, tracker), map[state.Key]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(planEvery):
		}
		if !r.lookAtReservations(tracker, starts) {
			continue
		}
		begun := realTime()
		room.Look(ctx)
		r.expected.PlanTime += realTime() - begun
		r.expected.Plans++
	}
}

// lookAtReservations counts the starts that have moved to later since the last look. It says whether a gang waits.
func (r *replay) lookAtReservations(tracker *gangs.Tracker, starts map[state.Key]time.Time) (isAnyWaiting bool) {
	tracker.Lock()
	defer tracker.Unlock()
	for key, g := range tracker.Gangs {
		isAnyWaiting = isAnyWaiting || !g.Seated()
		reserved := tracker.WaitList.Book.ReservedFor(key)
		if reserved == nil || reserved.Start.IsZero() {
			continue
		}
		last, known := starts[key]
		switch {
		case !known:
			r.expected.Reserved++
		case reserved.Start.Sub(last) > planEvery:
			r.expected.Moved++
		}
		starts[key] = reserved.Start
	}
	return isAnyWaiting
}

// realTime is the time of the machine. In a bubble, package time has another one.
func realTime() time.Duration {
	var now syscall.Timeval
	if err := syscall.Gettimeofday(&now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// hear notes an expected range that is written. It is not stored: nothing reads it, and each would be an event of the PodGroup.
func (r *replay) hear(patch clienttesting.PatchAction) (bool, runtime.Object, error) {
	var body struct {
		Status map[string]*schedulingv1beta1.PodGroupPlan
	}
	if patch.GetPatchType() != types.MergePatchType || json.Unmarshal(patch.GetPatch(), &body) != nil {
		return false, nil, nil
	}
	written, isPlan := body.Status["plan"]
	if !isPlan || len(body.Status) != 1 {
		return false, nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if gang := r.gangs[patch.GetName()]; gang != nil && written != nil && written.ExpectedStart != nil {
		r.said = append(r.said, said{gang.job, time.Since(r.began), written.ExpectedStart.Earliest.Sub(r.began), written.ExpectedStart.Latest.Sub(r.began)})
	}
	group := &schedulingv1beta1.PodGroup{}
	group.Status.Plan = written
	return true, group, nil
}

// judge counts the ranges that held. Times in the API are in seconds.
func (r *replay) judge() Expected {
	var widths []float64
	for _, s := range r.said {
		r.expected.Ranges++
		start := r.ran[s.job].Start
		if start > s.earliest-time.Second && start < s.latest+time.Second {
			r.expected.Held++
		}
		widths = append(widths, (s.latest-s.earliest).Seconds()/max(start-s.made, time.Second).Seconds())
	}
	if len(widths) > 0 {
		r.expected.Width = report.Median(widths)
	}
	return r.expected
}
