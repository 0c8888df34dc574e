// Package job is the controller that turns Jobs into PodGroups and pods and manages their life.
//
// setup.go and watch.go have the events that enqueue a Job. reconcile.go is the main part: the list of the steps of a sync. A sync takes a
// snapshot (look.go) and makes a plan (pkg/job/plan). It writes the status that announces the plan (write.go), and carries the plan out
// (act.go, pods.go, objects.go).
package job

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/controller/util/consistency"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	batchlisters "github.com/muster-sched/muster/pkg/client/listers/batch/v1alpha1"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// Config has the inputs of a Controller.
type Config struct {
	// Kube is the client for pods.
	Kube kubernetes.Interface
	// Muster is the client for Jobs, PodGroups and Commands.
	Muster versioned.Interface
	// KubeInformers and MusterInformers are shared with other controllers; the caller that made them starts them, after New.
	KubeInformers   informers.SharedInformerFactory
	MusterInformers externalversions.SharedInformerFactory
	// Recorder writes the events on Jobs.
	Recorder record.EventRecorder
	// Removals receives the UIDs of the pods that the controller deletes. It may be nil.
	Removals Removals
	// MayDelete says whether a Job may be deleted that ended at a time and whose time is up. Nil for always.
	MayDelete func(uid types.UID, ended time.Time) bool
	// Reports delays writes that only report progress while there is other work; nil writes all at once.
	Reports *worker.Reports
	// RegisterMetrics makes the controller's metrics visible. They are not counted if it is nil.
	RegisterMetrics func(...metrics.Registerable)
	// Clock is the clock; the real one if nil.
	Clock clock.PassiveClock
	// SchedulerName is the scheduler of Jobs that name none; defaults.SchedulerName if empty.
	SchedulerName string
	// DependencyCondition is the condition of tasks whose dependsOn names none; Completed if empty.
	DependencyCondition batchv1alpha1.DependencyCondition
	// RestartBackoff is how long a Job waits that is restarted for the second time in a row. Each time the pause doubles, up to 60 times
	// as long. 0 switches it off.
	RestartBackoff time.Duration
	// ServedSchedulerNames are the scheduler names behind which Muster's plugins run. A Job with another name gets a warning. Empty means
	// that this is not known.
	ServedSchedulerNames []string
}

// Controller reconciles Jobs. Its parts do not know it, nor each other.
type Controller struct {
	cfg         Config
	jobs        batchlisters.JobLister
	groups      musterlisters.PodGroupLister
	queues      musterlisters.QueueLister
	queueIndex  cache.Indexer // queues, by their parent
	synced      []cache.InformerSynced
	worker      *worker.Worker
	turns       *worker.Turns // of Jobs that have many pods to create or delete
	localStates localStates
	podTracker  *ended.Tracker
	instruments *instruments
	writtenJobs *worker.Written[*batchv1alpha1.Job]
	written     consistency.ConsistencyStore // writes that no informer shows yet
	defaults    *podDefaults
	handlers    *handlers
	commands    *commandClient
	status      *statusWriter
	objects     *objects
	pods        *pods
}
