package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/runtimes"
)

// runOf says what a job has in common with earlier ones. The traces have no names, and no users beside their queues.
func runOf(job Job) runtimes.Run {
	return runtimes.Run{Owner: queueOf(job), Queue: queueOf(job), Size: fmt.Sprintf("%dx%d", job.Members, job.Each)}
}

// fromPast is the estimate that muster-controller finds for a job from earlier runs; nil if there are none.
func fromPast(past *runtimes.Past, job Job) *schedulingv1beta1.PodGroupEstimate {
	found := past.Find(runtimes.Facts{Run: runOf(job)})
	if !found.Known() {
		return nil
	}
	return &schedulingv1beta1.PodGroupEstimate{Runtime: &metav1.Duration{Duration: found.For}, Source: schedulingv1beta1.EstimateFromHistory}
}
