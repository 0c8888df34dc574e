package phjob

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/phjob/phase"
)

// Messages of PhSchedules that PrimeHub's clients know.
const (
	messageInvalid  = "phSchedule recurrence format invalid"
	messageInactive = "This phSchedule is inactive"
)

// crons are the cron expressions of recurrences that have none of their own.
var crons = map[primehubv1alpha1.RecurrenceType]string{
	primehubv1alpha1.RecurrenceDaily:   "0 4 * * *",
	primehubv1alpha1.RecurrenceWeekly:  "0 4 * * 0",
	primehubv1alpha1.RecurrenceMonthly: "0 4 1 * *",
}

// errNeverRuns says that no time fits a cron expression.
var errNeverRuns = errors.New("no date fits it")

// nextRun returns the first time after another at which a recurrence creates a PhJob.
func nextRun(recurrence primehubv1alpha1.Recurrence, timezone *time.Location, after time.Time) (time.Time, error) {
	expression := crons[recurrence.Type]
	if recurrence.Type == primehubv1alpha1.RecurrenceCustom {
		expression = recurrence.Cron
	}
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return time.Time{}, err
	}
	next := schedule.Next(after.In(timezone))
	if next.IsZero() {
		return next, errNeverRuns
	}
	return next, nil
}

// ScheduleFacts are what is known of a PhSchedule.
type ScheduleFacts struct {
	// Schedule as it is now.
	Schedule *primehubv1alpha1.PhSchedule
	// Runs are the PhJobs that it has created.
	Runs []*primehubv1alpha1.PhJob
	// Timezone is the one in which its times are meant.
	Timezone *time.Location
	// Now is the time.
	Now time.Time
}

// DecideSchedule returns the next status of a PhSchedule, the PhJob to create now or nil, and when to look again. 0 means never. A run is
// left out while an earlier one is active. If several runs were missed, one is made up for.
func DecideSchedule(f *ScheduleFacts) (*primehubv1alpha1.PhScheduleStatus, *primehubv1alpha1.PhJob, time.Duration) {
	recurrence := f.Schedule.Spec.Recurrence
	if recurrence.Type == primehubv1alpha1.RecurrenceInactive {
		return &primehubv1alpha1.PhScheduleStatus{Message: messageInactive}, nil, 0
	}
	next, err := nextRun(recurrence, f.Timezone, f.Now)
	if err != nil {
		return &primehubv1alpha1.PhScheduleStatus{Invalid: true, Message: fmt.Sprintf("%s: %q: %v", messageInvalid, recurrence.Cron, err)}, nil, 0
	}
	status := &primehubv1alpha1.PhScheduleStatus{NextRunTime: new(metav1.NewTime(next.UTC()))}
	if !f.isDue() || f.isActive() {
		return status, nil, next.Sub(f.Now)
	}
	return status, f.run(f.Schedule.Status.NextRunTime.Time), next.Sub(f.Now)
}

// isDue tells whether the time has come that the status announces. A time that an earlier recurrence announced does not count.
func (f *ScheduleFacts) isDue() bool {
	announced := f.Schedule.Status.NextRunTime
	if announced == nil || announced.After(f.Now) {
		return false
	}
	at, err := nextRun(f.Schedule.Spec.Recurrence, f.Timezone, announced.Add(-time.Second))
	return err == nil && at.Equal(announced.Time)
}

func (f *ScheduleFacts) isActive() bool {
	for _, job := range f.Runs {
		if !phase.IsFinal(job.Status.Phase) {
			return true
		}
	}
	return false
}

// run makes the PhJob of a time. It has the same name whenever it is made.
func (f *ScheduleFacts) run(at time.Time) *primehubv1alpha1.PhJob {
	template := &f.Schedule.Spec.JobTemplate
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, f.Schedule.UID, at.Unix()) // a hash takes all
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[primehubv1alpha1.ScheduledByLabel] = f.Schedule.Name
	return &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("job-%s-%06x", at.UTC().Format("200601021504"), hash.Sum32()&0xffffff),
			Namespace: f.Schedule.Namespace, Labels: labels, Annotations: maps.Clone(template.Annotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
}
