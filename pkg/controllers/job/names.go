package job

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Resources whose own writes the controller waits to see in the informers.
var (
	podResource   = schema.GroupResource{Resource: "pods"}
	groupResource = schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"}
)

// Indexes of the informers that the controller looks things up by.
const (
	byOwningJob = "controllers/job/owner-uid"
	byQueue     = "controllers/job/queue"
	byParent    = "controllers/job/parent-queue"
	byTargetJob = "controllers/job/target"
	byClaim     = "controllers/job/claim"
)

// indexed returns the objects that an index has under a value. The indexes are made with the controller, so a missing one is a mistake in the code.
func indexed[T any](index cache.Indexer, name, value string) []T {
	found, err := index.ByIndex(name, value)
	must(err)
	return worker.All[T](found)
}

// indexBy makes an index of the objects of a type.
func indexBy[T any](name string, valuesOf func(T) []string) cache.Indexers {
	return cache.Indexers{name: func(obj any) ([]string, error) {
		if object, ok := obj.(T); ok {
			return valuesOf(object), nil
		}
		return nil, nil
	}}
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("setting up the job controller: %v", err))
	}
}

func nameOf(job *batchv1alpha1.Job) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
}

func keyOf(job *batchv1alpha1.Job) string { return job.Namespace + "/" + job.Name }

// staleError is why a sync of a Job had no effect although nothing is wrong. An informer is behind, or another client has changed the Job.
type staleError struct {
	why   string
	pause time.Duration // before the next sync, if no event causes one earlier
}

func (e *staleError) Error() string { return e.why }

// errEnough ends a sync that has done what it can.
var errEnough = errors.New("nothing more is to do")

// metaOf is the metadata of an object that belongs to a Job and goes with it.
func metaOf(job *batchv1alpha1.Job, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: job.Namespace, Name: name, Labels: plugin.PodsOf(job),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}}
}

// Reasons of events on Jobs, beside the reasons to wait.
const (
	eventExecuteAction    = "ExecuteAction"
	eventFailedDelete     = "FailedDelete"
	eventPodGroupError    = "PodGroupError"
	eventClaimError       = "PVCError"
	eventPluginError      = "PluginError"
	eventStatusError      = "JobStatusError"
	eventPolicyNeverFires = "PolicyNeverFires"
	// The outcome of a policy whose action is not executed.
	eventPolicyIgnored   = "PolicyIgnored"
	eventActionCancelled = "ActionCancelled"
	// The progress of a Job. The reasons of its ends are the names of their phases.
	eventAdmitted = "Admitted"
	eventRunning  = "Running"
	// The outcome of a Command.
	eventCommandIssued  = "CommandIssued"
	eventCommandIgnored = "CommandIgnored"
)
