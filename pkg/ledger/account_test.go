package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

func TestChargedTo(t *testing.T) {
	const none = "none"
	for name, c := range map[string]struct {
		written  string
		accounts Accounts
		want     string
	}{
		"the binding's account stays":               {"a", Accounts{HasGroup: true, Group: "b", Last: "c", Named: "d"}, "a"},
		"it stays when the PodGroup is deleted":     {"a/bob", Accounts{Last: "c", Named: "d"}, "a/bob"},
		"a pod that was bound without an account":   {"", Accounts{HasGroup: true, Group: "b", Last: "c", Named: "d"}, ""},
		"bound by another: its PodGroup's":          {none, Accounts{HasGroup: true, Group: "b", Last: "c", Named: "d"}, "b"},
		"bound by another: its PodGroup names none": {none, Accounts{HasGroup: true, Last: "c", Named: "d"}, "d"},
		"bound by another: its PodGroup is deleted": {none, Accounts{Last: "c", Named: "d"}, "c"},
		"bound by another: it has no PodGroup":      {none, Accounts{Named: "d"}, "d"},
		"bound by another: it names nothing":        {none, Accounts{}, ""},
	} {
		pod := &corev1.Pod{}
		if c.written != none {
			pod.Annotations = map[string]string{schedulingv1beta1.ChargedToAnnotation: c.written}
		}
		assert.Equal(t, c.want, ChargedTo(pod, c.accounts), name)
	}
}

// TestAPodIsChargedOnceItsKubeletHasTakenIt: who may create pods can name any node and any amount.
func TestAPodIsChargedOnceItsKubeletHasTakenIt(t *testing.T) {
	scheduled := func(status corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: status}}
	}
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		account map[string]string
		want    string
	}{
		"created with a node":            {corev1.PodStatus{Phase: corev1.PodPending}, nil, ""},
		"it was gated or waited before":  {corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(corev1.ConditionFalse)}, nil, ""},
		"its kubelet has taken it":       {corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(corev1.ConditionTrue)}, nil, "q"},
		"it runs":                        {corev1.PodStatus{Phase: corev1.PodRunning}, nil, "q"},
		"its node does not answer":       {corev1.PodStatus{Phase: corev1.PodUnknown}, nil, "q"},
		"a scheduler of ours charged it": {corev1.PodStatus{Phase: corev1.PodPending}, map[string]string{schedulingv1beta1.ChargedToAnnotation: "r"}, "r"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: c.status}
		pod.Annotations = c.account
		assert.Equal(t, c.want, ChargedTo(pod, Accounts{HasGroup: true, Group: "q"}), name)
	}
}
