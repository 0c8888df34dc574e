package state

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/resources"
)

// TryNative sets aside the quota of a pod of a native pod group that names a queue, until EndTryOfNative. Upstream tries all pods of such
// a group first, takes everything back, and then reserves for those that found a place, without asking the plugins again whether there is
// room: so the pods of the group must see each other's part of the queue in the trial. It is a promise, not a charge: nothing is
// bound, and a charge of the same pod that comes from the API meanwhile must stay.
func (s *Store) TryNative(pod *corev1.Pod) {
	if queue := pod.Annotations[queueNameAnnotation]; queue != "" {
		s.ledger.Promise(trialOf(pod.UID), queue, resources.PodRequests(pod))
	}
}

// EndTryOfNative gives back what TryNative has set aside. Nobody is woken: who is judged while a group is tried is of that group, and
// nobody else has seen the promise.
func (s *Store) EndTryOfNative(pod *corev1.Pod) {
	s.ledger.DropPromise(trialOf(pod.UID))
}

// trialOf is the holder of the promise. It cannot be a gang's, whose key has a slash.
func trialOf(pod types.UID) string { return "trial:" + string(pod) }
