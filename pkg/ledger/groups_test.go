package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func groupQueue(name, group string) *schedulingv1beta1.Queue {
	queue := mustertesting.MakeQueue(name).Obj()
	if group != "" {
		queue.Labels = map[string]string{primehubv1alpha1.GroupNameLabel: group}
	}
	return queue
}

// TestAccountOf is what controllers and scheduler charge for a pod without a PodGroup.
func TestAccountOf(t *testing.T) {
	g := &Groups{}
	g.Set(groupQueue("phusers", "phusers"))
	g.Set(groupQueue("mail", "escaped-a-40b"))
	g.Set(groupQueue("one", "twice"))
	g.Set(groupQueue("two", "twice"))
	g.Set(groupQueue("plain", ""))
	for name, c := range map[string]struct {
		group, user, queue, musterUser, want string
	}{
		"no label":                          {"", "", "", "", ""},
		"a user without a group":            {"", "escaped-bob", "", "", ""},
		"a group":                           {"escaped-phusers", "", "", "", "phusers"},
		"a group and a user":                {"escaped-phusers", "escaped-bob", "", "", "phusers/bob"},
		"names that labels cannot have":     {"escaped-a-40b", "escaped-c-40d", "", "", "mail/escaped-c-40d"},
		"a group without a queue":           {"escaped-others", "escaped-bob", "", "", ""},
		"a group with two queues":           {"escaped-twice", "escaped-bob", "", "", ""},
		"a group that is not escaped":       {"phusers", "escaped-bob", "", "", ""},
		"a group that is escaped wrongly":   {"escaped-phusers-zz", "escaped-bob", "", "", ""},
		"a user that is not escaped":        {"escaped-phusers", "bob", "", "", "phusers"},
		"a queue":                           {"", "", "q", "", "q"},
		"a queue and its user":              {"", "", "q", "bob", "q/bob"},
		"a queue goes before a group":       {"escaped-phusers", "escaped-ann", "q", "bob", "q/bob"},
		"the name of a queue that is none":  {"", "", "a/b", "bob", ""},
		"a queue whose name is not a group": {"escaped-plain", "escaped-bob", "", "", ""},
	} {
		pod := &corev1.Pod{}
		pod.Labels = map[string]string{primehubv1alpha1.PodGroupLabel: c.group, primehubv1alpha1.PodUserLabel: c.user, schedulingv1beta1.UserLabel: c.musterUser}
		pod.Annotations = map[string]string{schedulingv1beta1.QueueNameAnnotation: c.queue}
		assert.Equal(t, c.want, g.AccountOf(pod), name)
	}
}

// TestGroupsThatChange: pods have to be charged again whenever their queue becomes a group or stops being one.
func TestGroupsThatChange(t *testing.T) {
	g := &Groups{}
	pod := &corev1.Pod{}
	pod.Labels = map[string]string{primehubv1alpha1.PodGroupLabel: "escaped-a"}
	assert.Empty(t, g.Set(groupQueue("q", "")))
	assert.Equal(t, []string{"a"}, g.Set(groupQueue("q", "a")))
	assert.Empty(t, g.Set(groupQueue("q", "a")))
	assert.Equal(t, "q", g.AccountOf(pod))

	assert.Equal(t, []string{"a"}, g.Set(groupQueue("twin", "a")))
	assert.Empty(t, g.AccountOf(pod))
	assert.Equal(t, []string{"a", "b"}, g.Set(groupQueue("twin", "b")))
	assert.Equal(t, "q", g.AccountOf(pod))

	assert.Equal(t, []string{"a"}, g.Delete("q"))
	assert.Empty(t, g.Delete("q"))
	assert.Empty(t, g.AccountOf(pod))
}
