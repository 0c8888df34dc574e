package phjob

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	primehublisters "github.com/muster-sched/muster/pkg/client/listers/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/text"
)

// bySchedule is the index of PhJobs by the PhSchedule that created them.
const bySchedule = "controllers/phjob/schedule"

// Schedules creates the PhJobs of PhSchedules.
type Schedules struct {
	muster    versioned.Interface
	clock     clock.PassiveClock
	timezone  *time.Location
	schedules primehublisters.PhScheduleLister
	jobIndex  cache.Indexer
	synced    []cache.InformerSynced
	worker    *worker.Worker
	written   worker.Written[*primehubv1alpha1.PhSchedule]
}

// NewSchedules makes the Schedules and registers them with the informers.
func NewSchedules(cfg Config) (*Schedules, error) {
	primehub := cfg.MusterInformers.Primehub().V1alpha1()
	timezone, err := time.LoadLocation(cfg.Settings.Timezone)
	if err != nil {
		return nil, fmt.Errorf("finding the time zone: %w", err)
	}
	s := &Schedules{
		muster: cfg.Muster, clock: cfg.Clock, timezone: timezone,
		schedules: primehub.PhSchedules().Lister(), jobIndex: primehub.PhJobs().Informer().GetIndexer(),
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	s.worker = worker.New("phschedule", s)
	if err := primehub.PhJobs().Informer().AddIndexers(cache.Indexers{bySchedule: scheduleOf}); err != nil {
		return nil, fmt.Errorf("indexing by PhSchedule: %w", err)
	}
	registration, err := primehub.PhSchedules().Informer().AddEventHandler(keyHandler(s.worker))
	if err != nil {
		return nil, fmt.Errorf("adding an event handler: %w", err)
	}
	s.synced = []cache.InformerSynced{registration.HasSynced, primehub.PhJobs().Informer().HasSynced}
	return s, nil
}

// Run creates PhJobs until the context ends.
func (s *Schedules) Run(ctx context.Context) {
	if cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		s.worker.Run(ctx, 1)
	}
}

// Sync creates the PhJob of a PhSchedule whose time has come, and announces the next. It implements worker.Syncer. The PhJob comes first. If
// the status cannot be written it is not made again, as it has its name by its time.
func (s *Schedules) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key %q: %w", key, err)
	}
	cached, err := s.schedules.PhSchedules(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		s.written.Forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the PhSchedule: %w", err)
	}
	schedule := s.written.Latest(key, cached)
	if schedule.DeletionTimestamp != nil {
		return 0, nil
	}
	next, run, after := phjob.DecideSchedule(&phjob.ScheduleFacts{Schedule: schedule, Runs: s.runsOf(key), Timezone: s.timezone, Now: s.clock.Now()})
	if run != nil {
		if _, err := s.muster.PrimehubV1alpha1().PhJobs(namespace).Create(ctx, run, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("creating PhJob %s: %w", run.Name, err)
		}
		klog.FromContext(ctx).V(2).Info("Created the PhJob of a PhSchedule", "phSchedule", klog.KObj(schedule), "phJob", klog.KObj(run))
	}
	return after, s.write(ctx, key, schedule, next)
}

// write writes the status if it has changed.
func (s *Schedules) write(ctx context.Context, key string, schedule *primehubv1alpha1.PhSchedule, next *primehubv1alpha1.PhScheduleStatus) error {
	next.Message = text.Cut(next.Message, text.MaxMessage)
	if apiequality.Semantic.DeepEqual(&schedule.Status, next) {
		return nil
	}
	changed := schedule.DeepCopy()
	changed.Status = *next
	updated, err := s.muster.PrimehubV1alpha1().PhSchedules(schedule.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // the informer will say so
	case err != nil:
		s.written.Forget(key)
		return fmt.Errorf("writing the status: %w", err)
	}
	s.written.Put(key, updated)
	return nil
}

// runsOf are the PhJobs that a PhSchedule has created.
func (s *Schedules) runsOf(key string) []*primehubv1alpha1.PhJob {
	found, _ := s.jobIndex.ByIndex(bySchedule, key) // fails only for an unknown index
	jobs := make([]*primehubv1alpha1.PhJob, 0, len(found))
	for _, obj := range found {
		jobs = append(jobs, obj.(*primehubv1alpha1.PhJob))
	}
	return jobs
}

func scheduleOf(obj any) ([]string, error) {
	job := obj.(*primehubv1alpha1.PhJob)
	if name := job.Labels[primehubv1alpha1.ScheduledByLabel]; name != "" {
		return []string{job.Namespace + "/" + name}, nil
	}
	return nil, nil
}
