package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

// expects has the scheduler write when the PodGroup of the Job j is expected to start.
func (d *desk) expects(plan *schedulingv1beta1.PodGroupPlan) {
	d.t.Helper()
	group, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(d.t.Context(), "j-u", metav1.GetOptions{})
	require.NoError(d.t, err)
	group = group.DeepCopy()
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
		Type: schedulingv1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: schedulingv1beta1.NotEnoughResourcesReason, Message: "0 of 1 pods fit",
	}}
	group.Status.Plan = plan
	d.shows(group)
}

// writes counts the writes of the status while the Job settles.
func (d *desk) writes() (n int) {
	d.t.Helper()
	d.muster.ClearActions()
	require.NoError(d.t, d.settles())
	for _, action := range d.muster.Actions() {
		if action.Matches("update", "jobs") && action.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// TestAJobSaysWhenItStarts: in its status, for the column START, and in its message. It costs a write when what a person sees changes, and no other.
func TestAJobSaysWhenItStarts(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
	starts := func(minute int) *schedulingv1beta1.PodGroupPlan {
		at := metav1.NewTime(time.Unix(20_000, 0).Add(time.Duration(minute) * time.Minute))
		return &schedulingv1beta1.PodGroupPlan{
			Position: 1, ExpectedStart: &schedulingv1beta1.ExpectedStart{At: at, Earliest: at, Latest: at}, Message: text.StartsAbout + at.UTC().Format("15:04:05"),
		}
	}
	d.expects(nil)
	require.NoError(t, d.settles())
	assert.Equal(t, "0 of 1 pods fit", d.job().Status.State.Message)

	d.expects(starts(0))
	assert.Equal(t, 1, d.writes())
	status := d.job().Status
	require.NotNil(t, status.ExpectedStart)
	assert.Equal(t, time.Unix(20_000, 0).UTC(), status.ExpectedStart.UTC())
	assert.Equal(t, "0 of 1 pods fit; expected to start about 05:33:20", status.State.Message)

	same := starts(0)
	same.Position, same.ComputedAt, same.ExpectedStart.Latest = 7, metav1.NewTime(time.Unix(19_000, 0)), metav1.NewTime(time.Unix(30_000, 0))
	d.expects(same)
	assert.Zero(t, d.writes(), "nothing that the Job says has changed")
	d.expects(starts(10))
	assert.Equal(t, 1, d.writes())

	d.expects(&schedulingv1beta1.PodGroupPlan{Position: 1, Message: text.NoStart + ": it asks for more"})
	assert.Equal(t, 1, d.writes())
	assert.Nil(t, d.job().Status.ExpectedStart)
	assert.Equal(t, "0 of 1 pods fit; no start is known: it asks for more", d.job().Status.State.Message)

	d.expects(starts(20))
	require.NoError(t, d.settles())
	require.NotNil(t, d.job().Status.ExpectedStart)
	for _, event := range d.told() {
		assert.NotContains(t, event, text.StartsAbout, "no event repeats what changes each minute")
	}
	d.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = new(true) })
	require.NoError(t, d.settles())
	assert.Nil(t, d.job().Status.ExpectedStart, "it waits no more")
}

// TestAFailureIsNotWhatEnds: what hinders a Job that its start does not end stands alone in the message.
func TestAFailureIsNotWhatEnds(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Queue("gone"), batchv1alpha1.Pending)
	group, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
	require.NoError(t, err)
	group.Status.Phase = schedulingv1beta1.PodGroupPending
	d.shows(group)
	d.expects(&schedulingv1beta1.PodGroupPlan{Position: 1, Message: text.NoStart + ": it asks for more"})
	require.NoError(t, d.settles())
	assert.Contains(t, d.job().Status.State.Message, "unable to find job queue")
	assert.NotContains(t, d.job().Status.State.Message, text.NoStart)
}
