package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestWhatAPodGroupWaitsFor: for its queue, or for room once its queue has let it in.
func TestWhatAPodGroupWaitsFor(t *testing.T) {
	out := mustertesting.MakePodGroup("g").Phase(schedulingv1beta1.PodGroupPending).Obj()
	out.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, Message: "the queue is full"}}
	in := out.DeepCopy()
	in.Status.Phase = schedulingv1beta1.PodGroupInqueue
	assert.Equal(t, &plan.Finding{Reason: plan.ReasonPodGroupPending, Message: "the queue is full"}, plan.GroupFinding(out))
	assert.Equal(t, &plan.Finding{Reason: plan.ReasonUnschedulable, Message: "the queue is full"}, plan.GroupFinding(in))
	for _, group := range []*schedulingv1beta1.PodGroup{out, in} {
		group.Status.Conditions[0].Reason = "QuotaExceeded"
		assert.Equal(t, &plan.Finding{Reason: "QuotaExceeded", Message: "the queue is full"}, plan.GroupFinding(group), group.Status.Phase)
	}
}

func TestReport(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	ending := apierrors.NewForbidden(pods, "p", errors.New("the namespace ends"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	refused := apierrors.NewForbidden(pods, "p", errors.New("exceeded quota"))
	for name, c := range map[string]struct {
		err   error
		again bool // it is tried again after a pause
		event string
	}{
		"a refused pod": {createError.of(fmt.Errorf("creating pod p: %w", refused)), true,
			`Warning FailedCreate Error creating pods: creating pod p: pods "p" is forbidden: exceeded quota`},
		"a name that is taken": {createError.of(fmt.Errorf("creating pod p: %w", errNameTaken)), true,
			"Warning FailedCreate Error creating pods: creating pod p: the name is taken by a pod of another owner"},
		"a namespace that ends": {createError.of(ending), false, ""},
		"a PodGroup that has changed": {groupError.of(apierrors.NewConflict(schema.GroupResource{Resource: "podgroups"}, "g", errors.New("changed"))),
			true, ""},
		"a key that is being made":     {pluginError.of(fmt.Errorf("making objects: %w", &plugin.SlowSecret{})), false, ""},
		"a pod that cannot be deleted": {deleteError.of(errors.New("no")), true, "Warning FailedDelete Error deleting pods: no"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := record.NewFakeRecorder(1)
			controller := &Controller{cfg: Config{Recorder: recorder}, instruments: newInstruments()}
			n := &localState{}
			for range 2 {
				err := controller.report(mustertesting.MakeJob("j").Obj(), c.err, n)
				assert.Equal(t, c.again, err != nil)
			}
			got := ""
			if len(recorder.Events) > 0 {
				got = <-recorder.Events
			}
			assert.Equal(t, c.event, got)
			assert.Empty(t, recorder.Events, "the same is said once")
			assert.Equal(t, c.event != "", n.lastError != nil)
		})
	}
}

// TestANameThatIsTakenIsTriedEverMoreSeldom: another owner may keep it for good.
func TestANameThatIsTakenIsTriedEverMoreSeldom(t *testing.T) {
	controller := &Controller{cfg: Config{Recorder: record.NewFakeRecorder(10)}, instruments: newInstruments()}
	n, clock := &localState{}, testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	controller.cfg.Clock = clock
	var pauses []string
	for range 7 {
		err := controller.report(mustertesting.MakeJob("j").Obj(), createError.of(fmt.Errorf("creating pod p: %w", errNameTaken)), n)
		early := (*staleError)(nil)
		require.ErrorAs(t, err, &early)
		pause := controller.again(t.Context(), mustertesting.MakeJob("j").Obj(), early, &n.retries)
		pauses = append(pauses, pause.String())
		clock.SetTime(clock.Now().Add(pause))
	}
	assert.Equal(t, []string{"1s", "2s", "4s", "8s", "16s", "30s", "30s"}, pauses)
}

// TestEarlierPodsAreWaitedForQuietly: a Job that is deleted and created anew finds pods of the earlier one. Whether the informer shows them
// or not, it says so, and that is no problem.
func TestEarlierPodsAreWaitedForQuietly(t *testing.T) {
	for name, isSeen := range map[string]bool{"seen": true, "not seen yet": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			earlier := mustertesting.MakeJob("j").UID("earlier").Obj()
			d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
			held := mustertesting.MakePod("j-a-0").UID("held").Owner(earlier).Terminating(d.time.Now()).Obj()
			d.shows(held)
			if !isSeen {
				require.NoError(t, d.pods.index.Delete(held))
			}
			require.NoError(t, d.settles())
			state := d.job().Status.State
			assert.Equal(t, plan.ReasonEarlierPods, state.Reason)
			assert.Equal(t, "pod j-a-0 of an earlier Job of this name has not gone yet", state.Message)
			assert.Empty(t, d.told())
			for _, action := range d.kube.Actions() {
				assert.False(t, isSeen && action.Matches("create", "pods"), "what is seen need not be tried")
			}

			require.NoError(t, d.pods.index.Delete(held))
			require.NoError(t, d.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), held.Namespace, held.Name))
			_, err := d.looks()
			require.NoError(t, err)
			pod, err := d.kube.CoreV1().Pods(held.Namespace).Get(t.Context(), held.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.True(t, metav1.IsControlledBy(pod, d.job()))
		})
	}
}

func TestReportUnwritten(t *testing.T) {
	recorder := record.NewFakeRecorder(5)
	controller := &statusWriter{recorder: recorder, instruments: newInstruments()}
	n := &localState{}
	job := mustertesting.MakeJob("j").Obj()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "j", errors.New("not today"))
	for range 3 {
		controller.reportUnwritten(job, refused, n)
	}
	controller.reportUnwritten(job, errors.New("connection refused"), n)
	job.Status.State.Phase = "Running"
	n.writeError = ""
	controller.reportUnwritten(job, refused, n)
	require.Len(t, recorder.Events, 2)
	const why = ` job status, err: jobs "j" is forbidden: not today`
	assert.Equal(t, "Warning JobStatusError Failed to initialize"+why, <-recorder.Events)
	assert.Equal(t, "Warning JobStatusError Failed to update"+why, <-recorder.Events)
}

// Every reason for a Job to wait, and every problem, stands on the page about reasons, in the Job's part.
func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "reasons.md"))
	require.NoError(t, err)
	state, _, found := strings.Cut(string(page), "## Conditions of a PodGroup")
	require.True(t, found)
	for _, kind := range []problemKind{deleteError, createError, groupError, claimError, pluginError} {
		assert.Contains(t, state, kind.reason)
	}
	for _, reason := range []string{
		plan.ReasonInvalid, plan.ReasonQueueNotFound, plan.ReasonQueueIsRoot, plan.ReasonQueueHasChildren, plan.ReasonQueueNotOpen,
		plan.ReasonPodGroupNameTaken, plan.ReasonSchedulerNotServed, plan.ReasonPodGroupPending, plan.ReasonQuotaExceeded, plan.ReasonUnschedulable, plan.ReasonClaimNotFound,
		plan.ReasonClaimNameTaken, plan.ReasonObjectNameTaken, plan.ReasonSuspended, plan.ReasonResumed, plan.ReasonDeadlineExceeded, plan.ReasonDeleted, plan.ReasonPodOverdue, plan.ReasonPodNotStarted,
	} {
		assert.Contains(t, state, reason)
	}
}
