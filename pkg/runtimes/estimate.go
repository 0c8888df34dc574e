// Package runtimes says how long gangs and pods are expected to run. It is pure: no lock, no client, no clock.
package runtimes

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Source says where an estimate comes from.
type Source string

// The sources, the first that is known counts.
const (
	// Unknown: how long it runs is not known.
	Unknown Source = ""
	// User: the user says so.
	User Source = "user"
	// History: earlier runs took as long.
	History Source = "history"
	// Limit: it is ended then.
	Limit Source = "limit"
	// Queue: its queue has a default.
	Queue Source = "queue"
)

const (
	// growth is by what an estimate is multiplied that a run has outlived.
	growth = 1.5
	// leastGrowth is the least that is added then.
	leastGrowth = time.Minute
	// Longest is the longest estimate that counts.
	Longest = 365 * 24 * time.Hour
	// forever is longer than anything runs. It leaves room for growth.
	forever = 100 * Longest
)

// Estimate is how long something is expected to run. It is no limit: nothing is ended for it. The zero value knows nothing.
type Estimate struct {
	// For is how long the run is expected to take. It is 0 if that is not known.
	For time.Duration
	// Source of For.
	Source Source
	// Limit is after how long it is ended, 0 for never.
	Limit time.Duration
}

// Of is what the user says of a PodGroup, or of a pod without one. It is unknown if the user says nothing, or nothing that counts.
func Of(object metav1.Object) Estimate {
	length, err := Stated(object)
	if err != nil || length == 0 {
		return Estimate{}
	}
	return Estimate{For: length, Source: User}
}

// Stated is how long an object runs by the word of its user; 0 for no word. The error names the annotation and the valid values.
func Stated(object metav1.Object) (time.Duration, error) {
	text, written := object.GetAnnotations()[schedulingv1beta1.RunningEstimateAnnotation]
	if !written {
		return 0, nil
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 || length > Longest {
		return 0, fmt.Errorf("annotation %s is %.40q and is ignored: it must be a duration above 0 and of at most %.0fh, such as \"1h30m\"",
			schedulingv1beta1.RunningEstimateAnnotation, text, Longest.Hours())
	}
	return length, nil
}

// OfGroup is what is known of a PodGroup: what muster-controller has found, or else what its user says.
func OfGroup(group *schedulingv1beta1.PodGroup) Estimate {
	found := group.Status.Estimate
	if found == nil {
		return Of(group)
	}
	estimate := Estimate{Limit: within(found.Limit)}
	if estimate.For = within(found.Runtime); estimate.For > 0 {
		estimate.Source = Source(strings.ToLower(string(found.Source)))
	}
	return estimate
}

// within is a duration of the API as far as it counts, 0 for none.
func within(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return min(max(d.Duration, 0), Longest)
}

// Known says whether there is an estimate.
func (e Estimate) Known() bool { return e.For > 0 }

// End is when a run that began at a time is expected to end, as seen now. A run that has outlived its estimate gets longer ones. Each is 1.5
// times the one before and at least a minute more, but none is beyond its limit. So the end changes seldom, and lies in the future until the
// limit. It is false if nothing is known.
//
// Tsafrir, Etsion and Feitelson: Backfilling Using System-Generated Predictions Rather Than User Runtime Estimates (2007) correct estimates so.
func (e Estimate) End(began, now time.Time) (time.Time, bool) {
	if !e.Known() {
		return time.Time{}, false
	}
	length, ran := e.For, min(now.Sub(began), forever)
	for length <= ran && (e.Limit <= 0 || length < e.Limit) {
		length = max(time.Duration(float64(length)*growth), length+leastGrowth)
	}
	if e.Limit > 0 {
		length = min(length, e.Limit)
	}
	return began.Add(length), true
}
