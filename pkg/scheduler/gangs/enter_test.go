package gangs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// role is what a pod is in its scheduling cycle.
type role string

// The roles.
const (
	isSingle role = "single, or surplus of a gang that runs"
	isChosen role = "chosen: a decision has found a place for it"
	isScout  role = "the scout, with which the gang is decided"
	isHeld   role = "held: it must not be tried now"
)

// enter begins the scheduling cycle of a pod.
func enter(tr *gangs.Tracker, pod *corev1.Pod) role { return roleOf(tr, pod, tr.Enter(pod)) }

// roleOf is the role of a pod whose scheduling cycle has just begun.
func roleOf(tr *gangs.Tracker, pod *corev1.Pod, entry state.Entry) role {
	g, _ := tr.Find(pod.UID)
	switch {
	case entry.Reason != "":
		return isHeld
	case entry.Scout:
		return isScout
	case g != nil && g.Attempt != nil:
		return isChosen
	}
	return isSingle
}

// assertChosen begins the scheduling cycle of a chosen pod, which is held to what an entry says.
func assertChosen(t *testing.T, tr *gangs.Tracker, pod *corev1.Pod, want state.Entry) {
	t.Helper()
	entry := tr.Enter(pod)
	assert.Equal(t, isChosen, roleOf(tr, pod, entry))
	assert.Equal(t, want, entry)
}
