package phjob_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// runs are the PhJobs that a PhSchedule has created.
func (w *world) runs(schedule string) []primehubv1alpha1.PhJob {
	w.Helper()
	list, err := muster.PrimehubV1alpha1().PhJobs(w.namespace).List(w.Context(), metav1.ListOptions{
		LabelSelector: primehubv1alpha1.ScheduledByLabel + "=" + schedule})
	require.NoError(w, err)
	return list.Items
}

func (w *world) schedule(name string) *primehubv1alpha1.PhSchedule {
	w.Helper()
	schedule, err := muster.PrimehubV1alpha1().PhSchedules(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	return schedule
}

// TestASchedule creates a job each day, unless an earlier one has not ended.
func TestASchedule(t *testing.T) {
	w := newWorld(t, "8", "8")
	s := &primehubv1alpha1.PhSchedule{ObjectMeta: metav1.ObjectMeta{Name: "daily"}}
	s.Spec.Recurrence.Type = primehubv1alpha1.RecurrenceDaily
	s.Spec.JobTemplate.Spec = primehubv1alpha1.PhJobSpec{
		DisplayName: "d", UserID: "u", UserName: "bob", GroupID: w.group + "-id", GroupName: w.group, Image: "base", InstanceType: "cpu-1", Command: "echo",
	}
	_, err := muster.PrimehubV1alpha1().PhSchedules(w.namespace).Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	announced := func() time.Time {
		if next := w.schedule("daily").Status.NextRunTime; next != nil {
			return next.Time
		}
		return time.Time{}
	}
	w.eventually("its first run is announced", func() bool { return !announced().IsZero() })
	assert.Equal(t, 4, announced().UTC().Hour())
	assert.Empty(t, w.runs("daily"))

	first := announced()
	w.later(24 * time.Hour)
	w.eventually("its second run is announced", func() bool { return announced().Equal(first.Add(24 * time.Hour)) })
	require.Len(t, w.runs("daily"), 1)
	job := w.runs("daily")[0].Name
	w.phase(job, preparing)

	w.later(24 * time.Hour)
	w.eventually("its third run is announced", func() bool { return announced().Equal(first.Add(48 * time.Hour)) })
	assert.Len(t, w.runs("daily"), 1, "the first has not ended")

	w.change(job, cancel)
	w.phase(job, cancelled)
	w.later(24 * time.Hour)
	w.eventually("its fourth run is announced", func() bool { return announced().Equal(first.Add(72 * time.Hour)) })
	assert.Len(t, w.runs("daily"), 2)
}

// TestAnInvalidSchedule says so, and is none once it is right.
func TestAnInvalidSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "8", "8")
	s := &primehubv1alpha1.PhSchedule{ObjectMeta: metav1.ObjectMeta{Name: "odd"}}
	s.Spec.Recurrence = primehubv1alpha1.Recurrence{Type: primehubv1alpha1.RecurrenceCustom, Cron: "at noon"}
	s.Spec.JobTemplate.Spec = primehubv1alpha1.PhJobSpec{DisplayName: "d", UserID: "u", GroupID: "g", GroupName: "g", Image: "i", InstanceType: "t"}
	_, err := muster.PrimehubV1alpha1().PhSchedules(w.namespace).Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	w.eventually("it is invalid", func() bool { return w.schedule("odd").Status.Invalid })
	assert.Contains(t, w.schedule("odd").Status.Message, "phSchedule recurrence format invalid")
	schedules := muster.PrimehubV1alpha1().PhSchedules(w.namespace)
	require.NoError(t, clients.Change(t.Context(), "odd", schedules.Get, schedules.Update, func(right *primehubv1alpha1.PhSchedule) {
		right.Spec.Recurrence.Cron = "0 12 * * *"
	}))
	w.eventually("it is valid", func() bool {
		status := w.schedule("odd").Status
		return !status.Invalid && status.NextRunTime != nil && status.Message == ""
	})
}
