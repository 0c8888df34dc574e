package phjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

func schedule(kind primehubv1alpha1.RecurrenceType, cron string) *ScheduleFacts {
	s := &primehubv1alpha1.PhSchedule{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "hub", UID: "uid"}}
	s.Spec.Recurrence = primehubv1alpha1.Recurrence{Type: kind, Cron: cron}
	s.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
	s.Spec.JobTemplate.Spec = job().Spec
	return &ScheduleFacts{Schedule: s, Timezone: time.UTC, Now: now} // noon of Thursday, January 1st
}

// TestWhenSchedulesRun: as PrimeHub's recurrences do, in the administrator's time zone.
func TestWhenSchedulesRun(t *testing.T) {
	taipei, err := time.LoadLocation("Asia/Taipei") // eight hours ahead
	require.NoError(t, err)
	for name, c := range map[string]struct {
		facts    *ScheduleFacts
		timezone *time.Location
		want     string // in UTC
	}{
		"daily":               {schedule(primehubv1alpha1.RecurrenceDaily, ""), time.UTC, "2026-01-02T04:00:00Z"},
		"daily, in Taipei":    {schedule(primehubv1alpha1.RecurrenceDaily, ""), taipei, "2026-01-01T20:00:00Z"},
		"weekly":              {schedule(primehubv1alpha1.RecurrenceWeekly, "ignored"), time.UTC, "2026-01-04T04:00:00Z"},
		"monthly":             {schedule(primehubv1alpha1.RecurrenceMonthly, ""), time.UTC, "2026-02-01T04:00:00Z"},
		"each five minutes":   {schedule(primehubv1alpha1.RecurrenceCustom, "*/5 * * * *"), time.UTC, "2026-01-01T12:05:00Z"},
		"in its own zone":     {schedule(primehubv1alpha1.RecurrenceCustom, "CRON_TZ=Asia/Taipei 0 4 * * *"), time.UTC, "2026-01-01T20:00:00Z"},
		"on the 29th of Feb.": {schedule(primehubv1alpha1.RecurrenceCustom, "0 0 29 2 *"), time.UTC, "2028-02-29T00:00:00Z"},
	} {
		c.facts.Timezone = c.timezone
		status, run, after := DecideSchedule(c.facts)
		assert.Nil(t, run, name)
		assert.False(t, status.Invalid, name)
		require.NotNil(t, status.NextRunTime, name)
		assert.Equal(t, c.want, status.NextRunTime.Format(time.RFC3339), name)
		assert.Equal(t, status.NextRunTime.Sub(now), after, name)
	}
}

func TestSchedulesThatDoNotRun(t *testing.T) {
	status, run, after := DecideSchedule(schedule(primehubv1alpha1.RecurrenceInactive, "* * * * *"))
	assert.Equal(t, &primehubv1alpha1.PhScheduleStatus{Message: "This phSchedule is inactive"}, status)
	assert.Nil(t, run)
	assert.Zero(t, after)
	for _, cron := range []string{"", "x", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "CRON_TZ=Nowhere * * * * *"} {
		status, run, after := DecideSchedule(schedule(primehubv1alpha1.RecurrenceCustom, cron))
		assert.True(t, status.Invalid, cron)
		assert.Contains(t, status.Message, "phSchedule recurrence format invalid", cron)
		assert.Nil(t, status.NextRunTime)
		assert.Nil(t, run)
		assert.Zero(t, after)
	}
}

// TestARun: it is made when its time has come, with one name, however often it is decided about.
func TestARun(t *testing.T) {
	f := schedule(primehubv1alpha1.RecurrenceCustom, "*/5 * * * *")
	announced := metav1.NewTime(now)
	f.Schedule.Status.NextRunTime = &announced
	status, run, _ := DecideSchedule(f)
	require.NotNil(t, run)
	assert.Regexp(t, "^job-202601011200-[0-9a-f]{6}$", run.Name)
	assert.Equal(t, "hub", run.Namespace)
	assert.Equal(t, map[string]string{"a": "b", "phjob.primehub.io/scheduledBy": "s"}, run.Labels)
	assert.Equal(t, job().Spec, run.Spec)
	assert.Equal(t, now.Add(5*time.Minute), status.NextRunTime.Time)

	f.Now = now.Add(time.Second)
	_, again, _ := DecideSchedule(f)
	require.NotNil(t, again)
	assert.Equal(t, run.Name, again.Name)
	f.Now = now.Add(time.Hour)
	status, late, _ := DecideSchedule(f)
	require.NotNil(t, late, "one run is made up for")
	assert.Equal(t, now.Add(65*time.Minute), status.NextRunTime.Time)

	active := job()
	for phase, skips := range map[primehubv1alpha1.PhJobPhase]bool{
		"": true, primehubv1alpha1.PhJobPending: true, primehubv1alpha1.PhJobPreparing: true, primehubv1alpha1.PhJobRunning: true,
		primehubv1alpha1.PhJobSucceeded: false, primehubv1alpha1.PhJobFailed: false, primehubv1alpha1.PhJobCancelled: false,
	} {
		active.Status.Phase = phase
		f.Runs = []*primehubv1alpha1.PhJob{active}
		_, run, _ := DecideSchedule(f)
		assert.Equal(t, skips, run == nil, phase)
	}

	f.Runs = nil
	f.Schedule.Spec.Recurrence = primehubv1alpha1.Recurrence{Type: primehubv1alpha1.RecurrenceDaily}
	_, run, _ = DecideSchedule(f)
	assert.Nil(t, run, "the earlier recurrence announced it")
}
