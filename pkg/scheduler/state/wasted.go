package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// useWithin is how long after its victims' grace periods a preemptor may take to be bound until their evictions count as wasted.
const useWithin = time.Minute

// sacrifice is how many pods were evicted for a pod that is not bound yet, and what for.
type sacrifice struct {
	node  string // where the pod was to go
	count int
	until time.Time // by then it should be bound
}

// Evicting notes that a pod is about to be evicted for one that is to be bound to a node. What was evicted for it elsewhere before was in
// vain.
func (s *Store) Evicting(preemptor types.UID, node string, victim *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.sacrifices[preemptor]
	if made.node != node {
		s.waste(preemptor)
		made = sacrifice{node: node}
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if seconds := victim.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = *seconds
	}
	if until := s.clock.Now().Add(time.Duration(grace)*time.Second + useWithin); until.After(made.until) {
		made.until = until
	}
	made.count++
	s.sacrifices[preemptor] = made
}

// NotEvicted takes back what Evicting has noted: the eviction has failed, or took nothing that is in the API.
func (s *Store) NotEvicted(preemptor types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.sacrifices[preemptor]
	if made.count--; made.count <= 0 {
		delete(s.sacrifices, preemptor)
	} else if ok {
		s.sacrifices[preemptor] = made
	}
}

// useEvictions is called when a pod is seen bound, or gone: either it was bound where others were evicted for it, or they were in vain.
func (s *Store) useEvictions(pod *corev1.Pod) {
	if made, ok := s.sacrifices[pod.UID]; ok && made.node == pod.Spec.NodeName {
		delete(s.sacrifices, pod.UID)
	} else if ok {
		s.waste(pod.UID)
	}
}

// sweepEvictions counts what was evicted for pods that have not come in time.
func (s *Store) sweepEvictions() {
	for preemptor, made := range s.sacrifices {
		if s.clock.Now().After(made.until) {
			s.waste(preemptor)
		}
	}
}

func (s *Store) waste(preemptor types.UID) {
	s.metrics.wasted.Add(float64(s.sacrifices[preemptor].count))
	delete(s.sacrifices, preemptor)
}
