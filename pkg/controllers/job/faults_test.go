package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// fault is what goes wrong with a request.
type fault string

const (
	refused fault = "refused"  // the API server does nothing
	changed fault = "conflict" // another writer was faster
	lost    fault = "lost"     // it is done, and the answer is lost on its way
)

// breaks lets one request of a kind go wrong, after that many that go well. It returns whether that has come about.
func breaks(client *clienttesting.Fake, tracker clienttesting.ObjectTracker, f fault, verb, resource, subresource string, after int) (hasBroken func() bool) {
	seen := 0
	client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != subresource {
			return false, nil, nil
		}
		seen++
		if seen != after+1 {
			return false, nil, nil
		}
		gr := schema.GroupResource{Resource: resource}
		switch f {
		case refused:
			return true, nil, apierrors.NewForbidden(gr, "it", errors.New("not today"))
		case changed:
			return true, nil, apierrors.NewConflict(gr, "it", errors.New("it has changed"))
		default:
			if _, _, err := clienttesting.ObjectReaction(tracker)(action); err != nil {
				return true, nil, err
			}
			return true, nil, apierrors.NewTimeoutError("the answer is lost", 1)
		}
	})
	return func() bool { return seen > after }
}

// mirrors has the informers show what the clients have, and plays podgroup controller, scheduler and kubelet.
func (d *desk) mirrors() {
	d.t.Helper()
	ctx, all := d.t.Context(), metav1.ListOptions{}
	groups, err := d.muster.SchedulingV1beta1().PodGroups("").List(ctx, all)
	require.NoError(d.t, err)
	for i := range groups.Items {
		groups.Items[i].Status.Phase = schedulingv1beta1.PodGroupInqueue
	}
	pods, err := d.kube.CoreV1().Pods("").List(ctx, all)
	require.NoError(d.t, err)
	for i := range pods.Items {
		pods.Items[i].Status.Phase, pods.Items[i].Spec.NodeName = corev1.PodRunning, "n"
	}
	commands, err := d.muster.BusV1alpha1().Commands("").List(ctx, all)
	require.NoError(d.t, err)
	replace(d.t, d.groups, groups)
	replace(d.t, d.pods.index, pods)
	replace(d.t, d.commands.index, commands)
	services, err := d.kube.CoreV1().Services("").List(ctx, all)
	require.NoError(d.t, err)
	replace(d.t, d.objects.kinds.services.informer.GetIndexer(), services)
	configMaps, err := d.kube.CoreV1().ConfigMaps("").List(ctx, all)
	require.NoError(d.t, err)
	replace(d.t, d.objects.kinds.configMaps.informer.GetIndexer(), configMaps)
	claims, err := d.kube.CoreV1().PersistentVolumeClaims("").List(ctx, all)
	require.NoError(d.t, err)
	replace(d.t, d.objects.kinds.claims.informer.GetIndexer(), claims)
}

func replace(t *testing.T, index cache.Indexer, list runtime.Object) {
	t.Helper()
	found, err := meta.ExtractList(list)
	require.NoError(t, err)
	items := make([]any, 0, len(found))
	for _, item := range found {
		items = append(items, item)
	}
	require.NoError(t, index.Replace(items, ""))
}

// namesAll gives what is created a UID, as the API server does.
func namesAll(client *clienttesting.Fake) {
	made := 0
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if object, err := meta.Accessor(action.(clienttesting.CreateAction).GetObject()); err == nil && object.GetUID() == "" {
			made++
			object.SetUID(types.UID(fmt.Sprint("made-", made)))
		}
		return false, nil, nil
	})
}

// TestWhateverRequestGoesWrong (issue 25, 10): a Job has a claim and objects of plugins. It gets its pods, runs, and is aborted by a
// Command. One request of each kind is refused, or meets another writer, or is done and its answer is lost. The Job goes through the same
// phases. Each thing is made once and goes, and the Command is executed once.
func TestWhateverRequestGoesWrong(t *testing.T) {
	for _, c := range []struct {
		verb, resource, subresource string
		requests                    int // of this kind that a life has at least
	}{
		{"update", "jobs", "status", 4}, {"patch", "jobs", "", 1}, {"create", "podgroups", "", 1}, {"delete", "podgroups", "", 1},
		{"create", "pods", "", 2}, {"delete", "pods", "", 2}, {"create", "services", "", 1}, {"create", "configmaps", "", 1},
		{"create", "persistentvolumeclaims", "", 1}, {"delete", "commands", "", 1}, {"get", "commands", "", 1},
	} {
		faults := []fault{refused, changed, lost}
		if c.verb == "delete" { // the precondition is the UID: a conflict says that another object has its name
			faults = []fault{refused, lost}
		}
		for _, f := range faults {
			for after := range c.requests {
				t.Run(fmt.Sprintf("%s %s %s, the one after %d is %s", c.verb, c.resource, c.subresource, after, f), func(t *testing.T) {
					d := newDesk(t)
					client, tracker := &d.kube.Fake, d.kube.Tracker()
					if slices.Contains([]string{"jobs", "podgroups", "commands"}, c.resource) {
						client, tracker = &d.muster.Fake, d.muster.Tracker()
					}
					hasBroken := breaks(client, tracker, f, c.verb, c.resource, c.subresource, after)
					namesAll(&d.kube.Fake)
					namesAll(&d.muster.Fake)
					d.livesAndIsAborted()
					assert.True(t, hasBroken())
				})
			}
		}
	}
}

// livesAndIsAborted leads a Job through its life and checks it.
func (d *desk) livesAndIsAborted() {
	d.t.Helper()
	job := mustertesting.MakeJob("j").UID("u").Plugin("svc").Task(mustertesting.MakeTask("a", 2)).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}).Obj()
	job.Generation = 1
	d.shows(job)
	var phases []batchv1alpha1.JobPhase
	var told []string
	goesTo := func(p batchv1alpha1.JobPhase) {
		d.t.Helper()
		for range 15 {
			_, _ = d.looks()
			if now := plan.OrPending(d.job().Status.State.Phase); len(phases) == 0 || phases[len(phases)-1] != now {
				phases = append(phases, now)
			}
			told = append(told, d.told()...)
			d.mirrors()
			d.time.SetTime(d.time.Now().Add(messageInterval))
		}
		require.Equal(d.t, p, d.job().Status.State.Phase, "%v, %v", d.job().Status.State, told)
	}
	goesTo(batchv1alpha1.Running)
	assert.Len(d.t, d.pods.index.List(), 2)
	assert.Len(d.t, d.groups.List(), 1)
	assert.Len(d.t, d.objects.kinds.claims.informer.GetIndexer().List(), 1)
	d.shows(commandFor(d.job(), "abort", busv1alpha1.AbortJobAction))
	goesTo(batchv1alpha1.Aborted)
	assert.Equal(d.t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting, batchv1alpha1.Aborted}, phases)
	assert.Empty(d.t, d.pods.index.List())
	assert.Empty(d.t, d.groups.List())
	assert.Empty(d.t, d.commands.index.List())
	executed := slices.DeleteFunc(told, func(event string) bool { return !strings.Contains(event, "Start to execute command AbortJob") })
	assert.LessOrEqual(d.t, len(executed), 1, "none where the answer to the status was lost")
}
