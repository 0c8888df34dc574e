package podgroup

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// memberCounts are the numbers of members of a PodGroup by state.
type memberCounts struct {
	// seated counts members that are bound or finished, of every incarnation, also while they terminate.
	seated int32
	// finished counts the seated ones that have succeeded or failed.
	finished int32
	// leaving counts the finished ones that are being deleted.
	leaving int32

	// ofJob: a Job controls the PodGroup.
	ofJob bool
	// mayGoOn: that Job goes on, and not all of its pods have succeeded. It may create more pods.
	mayGoOn bool
	// lost: bound members were lost lately, and not by Muster.
	lost bool

	// version is the current incarnation. It is the highest that a member belongs to, or a later one that the Job is in. The following count
	// members of it only.
	version int64

	// members counts the members that are not being deleted.
	members int
	// started counts bound and finished members, also while they terminate.
	started int32
	// running counts members whose pod phase is Running and that are not being deleted.
	running int32
	// succeeded and failed count members that ended by themselves. A pod that is deleted may exit with 0, though its work is not done.
	// Members that have succeeded and are gone stay in all counts that they were in.
	succeeded, failed int32
	// gone counts the succeeded members that are gone.
	gone int32
	// waiting counts members without a node.
	waiting int
	// place is where the members are that have a node, and have not finished.
	place place
	// unschedulable counts members without a node whose condition PodScheduled is False.
	unschedulable int
	// why is the most telling condition of the unschedulable ones; nil if there are none.
	why *corev1.PodCondition
}

// memory is the record of a PodGroup's pods: how many of an incarnation have succeeded. The objects of some may be gone, and the gang still
// counts on them.
type memory struct {
	version   int64
	succeeded int32
}

// count counts the members of one PodGroup. Members that have succeeded and are deleted count, too, as they are remembered.
func count(pods []*corev1.Pod, remembered memory) memberCounts {
	t := memberCounts{version: max(currentVersion(pods), remembered.version)}
	for _, pod := range pods {
		t.countSeat(pod)
		if v, versioned := versionOf(pod); !versioned || v == t.version {
			t.countCurrent(pod)
		}
	}
	if remembered.version == t.version {
		t.countGone(remembered.succeeded)
	}
	return t
}

// countGone adds succeeded members that are gone, from the recorded number of succeeded ones.
func (t *memberCounts) countGone(remembered int32) {
	gone := max(0, remembered-t.succeeded)
	t.gone = gone
	t.seated += gone
	t.finished += gone
	t.members += int(gone)
	t.started += gone
	t.succeeded += gone
}

func (t *memberCounts) countSeat(pod *corev1.Pod) {
	finished := gang.IsFinished(pod)
	if finished || pod.Spec.NodeName != "" {
		t.seated++
	}
	if finished {
		t.finished++
		if pod.DeletionTimestamp != nil {
			t.leaving++
		}
	}
}

func (t *memberCounts) countCurrent(pod *corev1.Pod) {
	if gang.IsFinished(pod) || pod.Spec.NodeName != "" {
		t.started++
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		if policy.HasSucceeded(pod) {
			t.succeeded++
		}
	case corev1.PodFailed:
		t.failed++
	}
	if pod.DeletionTimestamp != nil {
		return
	}
	t.members++
	if pod.Status.Phase == corev1.PodRunning {
		t.running++
	}
	switch {
	case gang.IsFinished(pod):
		return
	case pod.Spec.NodeName != "":
		t.place.add(pod)
		return
	}
	t.waiting++
	if condition := gang.ScheduledCondition(pod); condition != nil && condition.Status == corev1.ConditionFalse {
		t.unschedulable++
		if t.why == nil || moreRelevant(condition, t.why) {
			t.why = condition
		}
	}
}

// unfinished says whether any member is still to run or running. Members without a node are not in seated.
func (t *memberCounts) unfinished() bool {
	return t.seated > t.finished || t.waiting > 0
}

// moreRelevant says whether a explains the wait better than b. Lack of room comes first, as only the member that was tried says it, and
// gates come last. Then the longer message, then the alphabet, so that the choice does not depend on any order.
func moreRelevant(a, b *corev1.PodCondition) bool {
	if ra, rb := reasonRank(a.Reason), reasonRank(b.Reason); ra != rb {
		return ra > rb
	}
	if len(a.Message) != len(b.Message) {
		return len(a.Message) > len(b.Message)
	}
	return a.Message < b.Message
}

// gated says whether all that is known of the wait is that scheduling gates hold the pods. The scheduler does not see them.
func (t *memberCounts) gated() bool {
	return t.why != nil && t.why.Reason == corev1.PodReasonSchedulingGated
}

func reasonRank(reason string) int {
	switch reason {
	case corev1.PodReasonUnschedulable:
		return 2
	case corev1.PodReasonSchedulingGated, "":
		return 0
	}
	return 1
}

// currentVersion is the highest incarnation that a member belongs to.
func currentVersion(pods []*corev1.Pod) int64 {
	var highest int64
	for _, pod := range pods {
		if version, ok := versionOf(pod); ok && version > highest {
			highest = version
		}
	}
	return highest
}

// versionOf is the incarnation that a Job's pod belongs to; false for pods of other owners, which have none.
func versionOf(pod *corev1.Pod) (int64, bool) {
	version, err := strconv.ParseInt(pod.Annotations[batchv1alpha1.JobVersionKey], 10, 64)
	return version, err == nil
}
