// Package hooks connects the Store with those ends of an upstream scheduler that plugins cannot reach: its queue, what it does with
// pods that could not be scheduled, the moment when it begins to lead, whom it has nominated to a node, and how it finds nodes for pods
// that are alike.
package hooks

import (
	"sync"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/scheduler/batching"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Install connects a Store with a scheduler that does not run yet. From then on gangs that have waited for a while leave the
// scheduling queue, and it is left to the Store to say why members of gangs wait. Who leads takes pods from the queue: so the
// Store learns it. The first pod is taken when the Store knows what there is. Pods that are alike find their nodes by package batching.
func Install(s *scheduler.Scheduler, store *state.Store) {
	installQueue(s, store)
	InstallNominator(s)
	next := s.NextEntity
	var begin sync.Once
	s.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		store.Lead()
		begin.Do(func() { store.AwaitRead(logger) })
		return next(logger)
	}
	s.FailureHandler = store.HandleFailures(s.FailureHandler)
	batching.Install(s)
}
