package podgroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// told returns the events since the last call.
func (s *stage) told() []string {
	var told []string
	for len(s.events.Events) > 0 {
		told = append(told, <-s.events.Events)
	}
	return told
}

// started is a group of two members that run, and whose status does not tell so yet.
func (s *stage) started() *schedulingv1beta1.PodGroup {
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).Phase(inqueue).Obj()
	group.ResourceVersion = "1"
	s.serve(group)
	s.cache(group)
	for _, name := range []string{"a", "b"} {
		s.cache(mustertesting.MakePod(name).UID(name).Group("g").Node("n").Phase(corev1.PodRunning).Obj())
	}
	return group
}

// TestAStatusIsWrittenOnce: the informer shows the write late. Until then the status is not written again.
func TestAStatusIsWrittenOnce(t *testing.T) {
	s := newStage(t)
	s.started()
	var writes []schedulingv1beta1.PodGroupStatus
	s.muster.PrependReactor("update", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		group := action.(clienttesting.UpdateAction).GetObject().(*schedulingv1beta1.PodGroup).DeepCopy()
		writes = append(writes, group.Status)
		group.ResourceVersion = "2"
		return true, group, nil
	})
	for range 3 {
		_, err := s.Sync(t.Context(), "default/g")
		require.NoError(t, err)
		s.time.Step(time.Hour)
	}
	require.Len(t, writes, 1)
	assert.Equal(t, schedulingv1beta1.PodGroupRunning, writes[0].Phase)
	assert.EqualValues(t, 2, writes[0].Running)
	assert.Equal(t, []string{"Normal Scheduled pod group is ready"}, s.told())
}

// TestTheLogHasALineForAnAdmission: at -v=1, and none for the other phases.
func TestTheLogHasALineForAnAdmission(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	ctx := klog.NewContext(t.Context(), logger)
	group := mustertesting.MakePodGroup("g").Queue("q").Obj()
	for _, phase := range []schedulingv1beta1.PodGroupPhase{schedulingv1beta1.PodGroupPending, inqueue, schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupCompleted} {
		logPhase(ctx, group, phase)
		group.Status.Phase = phase
	}
	text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	assert.Equal(t, 1, strings.Count(text, "\n"), text)
	assert.Contains(t, text, `PodGroup admitted podGroup="default/g" queue="q"`)
}

// TestNoEventWithoutAStatus: a status that the API server refuses has no event.
func TestNoEventWithoutAStatus(t *testing.T) {
	resource := schema.GroupResource{Resource: "podgroups"}
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{
		"it was changed meanwhile": {apierrors.NewConflict(resource, "g", errors.New("changed")), true},
		"it is gone":               {apierrors.NewNotFound(resource, "g"), false},
		"it is refused":            {apierrors.NewForbidden(resource, "g", errors.New("not today")), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.started()
			refuse := true
			s.muster.PrependReactor("update", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
				return refuse, nil, c.err
			})
			_, err := s.Sync(t.Context(), "default/g")
			assert.Equal(t, c.fails, err != nil)
			assert.Empty(t, s.told())

			refuse = false
			_, err = s.Sync(t.Context(), "default/g")
			require.NoError(t, err)
			assert.Equal(t, schedulingv1beta1.PodGroupRunning, s.group("g").Status.Phase)
			assert.Len(t, s.told(), 1)
		})
	}
}

// TestAnUrgentStatusIsWrittenAtOnce: counts wait until the last write is long enough ago, a new phase does not.
func TestAnUrgentStatusIsWrittenAtOnce(t *testing.T) {
	s := newStage(t)
	group := s.started()
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	require.Equal(t, schedulingv1beta1.PodGroupRunning, s.group("g").Status.Phase)
	group.Status = s.group("g").Status
	s.cache(group)

	s.cache(mustertesting.MakePod("c").UID("c").Group("g").Node("n").Phase(corev1.PodRunning).Obj())
	after, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Positive(t, after, "the count of running members waits")
	assert.EqualValues(t, 2, s.group("g").Status.Running)
	s.time.Step(after)
	_, err = s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.EqualValues(t, 3, s.group("g").Status.Running)
	group.Status = s.group("g").Status
	s.cache(group)

	for _, name := range []string{"a", "b", "c"} {
		s.cache(mustertesting.MakePod(name).UID(name).Group("g").Node("n").Phase(corev1.PodSucceeded).Obj())
	}
	_, err = s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Equal(t, schedulingv1beta1.PodGroupCompleted, s.group("g").Status.Phase)
}

// TestADecisionIsKeptUntilTheStatusHasIt: after that it would only take memory, and stand in for a status that says otherwise.
func TestADecisionIsKeptUntilTheStatusHasIt(t *testing.T) {
	s := newStage(t)
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(1).Obj()
	s.serve(group)
	s.cache(group)
	s.admission.observe(group)
	require.True(t, s.admission.record(admitted(group)))
	for range 2 {
		_, err := s.Sync(t.Context(), "default/g")
		require.NoError(t, err)
		assert.True(t, s.isIn(group), "the informer does not show the status yet")
	}
	require.Equal(t, inqueue, s.group("g").Status.Phase)
	s.cache(s.group("g"))
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Empty(t, s.admission.decisions)
}

// isIn says whether admission has decided to admit a PodGroup.
func (s *stage) isIn(group *schedulingv1beta1.PodGroup) bool {
	return s.admission.decision(group.Namespace+"/"+group.Name, group.UID).Admitted
}

// TestADeletedGroupKeepsNoRoom: it was admitted, and is gone before it started.
func TestADeletedGroupKeepsNoRoom(t *testing.T) {
	s := newStage(t)
	s.usage.Ledger().SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "3").Phase(inqueue).Obj()
	s.serve(group)
	s.cache(group)
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	want := resources.List{corev1.ResourceCPU: 2000}
	require.NotNil(t, s.usage.Ledger().Room("q", want))
	require.NoError(t, s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Delete(group))
	_, err = s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Nil(t, s.usage.Ledger().Room("q", want))
}

// TestRecallIsOfTheOwningJob: a Job that was deleted and created anew has the name, and not the UID, of the owner.
func TestRecallIsOfTheOwningJob(t *testing.T) {
	status := batchv1alpha1.JobStatus{Version: 3, Succeeded: 2}
	owner := mustertesting.MakeJob("j").UID("u").Status(status).Obj()
	for name, c := range map[string]struct {
		shown *batchv1alpha1.Job
		group *mustertesting.PodGroupWrapper
		want  memory
	}{
		"the owner":                 {owner, mustertesting.MakePodGroup("g").Owner(owner), memory{version: 3, succeeded: 2}},
		"a namesake of the owner":   {mustertesting.MakeJob("j").UID("v").Status(status).Obj(), mustertesting.MakePodGroup("g").Owner(owner), memory{}},
		"an owner that is not seen": {nil, mustertesting.MakePodGroup("g").Owner(owner), memory{}},
		"no owner":                  {owner, mustertesting.MakePodGroup("j"), memory{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if c.shown != nil {
				s.cache(c.shown)
			}
			_, remembered := s.recall(c.group.Obj())
			assert.Equal(t, c.want, remembered)
		})
	}
}

// TestRoomIsKeptForAGroupUntilItHasStartedOrWaitedTooLong has a queue of 4 cores, of which a group wants 3.
func TestRoomIsKeptForAGroupUntilItHasStartedOrWaitedTooLong(t *testing.T) {
	s := newStage(t)
	s.usage.Ledger().SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	group := func(phase schedulingv1beta1.PodGroupPhase) *schedulingv1beta1.PodGroup {
		return mustertesting.MakePodGroup("g").UID("g").Queue("q").MinMember(2).MinResources("cpu", "3").Phase(phase).Obj()
	}
	settle := func(phase schedulingv1beta1.PodGroupPhase) time.Duration {
		return s.settleHold(group(phase), nil, 0, &group(phase).Status)
	}
	kept := func() bool { return s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 2000}) != nil }

	assert.Equal(t, time.Minute, settle(inqueue))
	assert.True(t, kept())
	s.time.Step(40 * time.Second)
	assert.Equal(t, 20*time.Second, settle(inqueue))
	assert.True(t, kept())
	s.time.Step(20 * time.Second)
	assert.Zero(t, settle(inqueue))
	assert.False(t, kept(), "it has waited too long")

	assert.Zero(t, settle(schedulingv1beta1.PodGroupRunning))
	assert.False(t, kept(), "the members take up what they need")
	assert.Equal(t, time.Minute, settle(schedulingv1beta1.PodGroupUnknown))
	assert.True(t, kept(), "some members run, so the room for the rest is kept")
	s.time.Step(time.Minute)
	assert.Zero(t, settle(schedulingv1beta1.PodGroupUnknown))
	assert.False(t, kept(), "the rest may be one that no node has, as that of a minimum that was raised")
	assert.Zero(t, settle(schedulingv1beta1.PodGroupRunning))
	assert.Equal(t, time.Minute, settle(inqueue), "it waits anew")
	assert.True(t, kept())
	assert.Zero(t, settle(schedulingv1beta1.PodGroupCompleted))
	assert.False(t, kept())
}

// TestALargeGangIsLookedAtLessOften: a look at 50,000 pods takes tens of milliseconds. Such a look after each change would occupy a
// processor.
func TestALargeGangIsLookedAtLessOften(t *testing.T) {
	s := newStage(t)
	assert.Equal(t, 20*time.Millisecond, s.gatherPause("default/g"))
	s.started()
	for i := range 4998 {
		name := fmt.Sprint(i)
		s.cache(mustertesting.MakePod(name).UID(name).Group("g").Obj())
	}
	_, err := s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Equal(t, 170*time.Millisecond, s.gatherPause("default/g"))
	require.NoError(t, s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Delete(s.group("g")))
	_, err = s.Sync(t.Context(), "default/g")
	require.NoError(t, err)
	assert.Equal(t, 20*time.Millisecond, s.gatherPause("default/g"), "it is forgotten")
}
