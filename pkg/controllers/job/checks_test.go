package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestACommandIsExecutedIfTheAPIStillHasIt: another controller may have executed it, though the informer still shows it.
func TestACommandIsExecutedIfTheAPIStillHasIt(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("u").Obj()
	for name, c := range map[string]struct {
		change func(*busv1alpha1.Command) // of the Command in the API; nil if it is gone
		want   bool
	}{
		"it is there":           {func(*busv1alpha1.Command) {}, true},
		"it is gone":            {nil, false},
		"it is being deleted":   {func(command *busv1alpha1.Command) { command.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"another has its name":  {func(command *busv1alpha1.Command) { command.UID = "another" }, false},
		"the API has no answer": {func(*busv1alpha1.Command) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			command := commandFor(job, "c", busv1alpha1.AbortJobAction)
			if c.change != nil {
				live := command.DeepCopy()
				live.Finalizers = []string{"example.com/keep"} // a fake client keeps no object that is being deleted without one
				c.change(live)
				require.NoError(t, d.muster.Tracker().Add(live))
			}
			if name == "the API has no answer" {
				refuses(&d.muster.Fake, "get", "commands")
			}
			assert.Equal(t, c.want, d.commands.isStillAsked(t.Context(), command))
		})
	}
}

// TestWhatAPolicyAnswersIsChecked asks the API about the pod j-a-0, whose UID is p, before an action of a policy.
func TestWhatAPolicyAnswersIsChecked(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("u").Task(mustertesting.MakeTask("a", 1)).Obj()
	pod := func(uid string, p corev1.PodPhase) *corev1.Pod {
		pod := build.Pod(job, &job.Spec.Tasks[0], 0)
		pod.UID, pod.Status.Phase = types.UID(uid), p
		return pod
	}
	going := pod("p", corev1.PodRunning)
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	foreign := mustertesting.MakePod("j-a-0").UID("p").Phase(corev1.PodFailed).Obj()
	const failed, evicted, pending = busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent, busv1alpha1.PodPendingEvent
	for name, c := range map[string]struct {
		event      busv1alpha1.Event
		seen       *corev1.Pod // nil if the informer shows none
		remembered bool
		live       *corev1.Pod // nil if the API has none
		want       bool
	}{
		"it failed":                                 {failed, pod("p", corev1.PodFailed), false, pod("p", corev1.PodFailed), true},
		"it failed, and is gone":                    {failed, pod("p", corev1.PodFailed), false, nil, true},
		"it failed, and another pod exists":         {failed, pod("p", corev1.PodFailed), false, pod("q", corev1.PodRunning), false},
		"it failed, and another owner has the name": {failed, pod("p", corev1.PodFailed), false, foreign, true},
		"it failed before":                          {failed, nil, true, pod("q", corev1.PodRunning), true},
		"it is gone":                                {evicted, nil, false, nil, true},
		"it is gone, and another pod exists":        {evicted, nil, false, pod("q", corev1.PodRunning), false},
		"it goes":                                   {evicted, going, false, nil, true},
		"it was evicted before, and is gone":        {evicted, nil, true, nil, true},
		"it was evicted before, a new one waits":    {evicted, nil, true, pod("q", corev1.PodPending), true},
		"it was evicted before, a new one runs":     {evicted, nil, true, pod("q", corev1.PodRunning), false},
		"it was evicted before, a new one ended":    {evicted, nil, true, pod("q", corev1.PodSucceeded), false},
		"it is pending":                             {pending, pod("p", corev1.PodPending), false, pod("p", corev1.PodPending), true},
		"it was pending, and runs":                  {pending, pod("p", corev1.PodPending), false, pod("p", corev1.PodRunning), false},
		"it was pending, and is gone":               {pending, pod("p", corev1.PodPending), false, nil, false},
		"it was pending, and another pod is":        {pending, pod("p", corev1.PodPending), false, pod("q", corev1.PodPending), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if c.live != nil {
				require.NoError(t, d.kube.Tracker().Add(c.live))
			}
			h := &policy.Event{Type: c.event, Task: 0, Index: 0, Pod: c.seen, Remembered: c.remembered}
			assert.Equal(t, c.want, d.pods.hasHappened(t.Context(), job, h))
		})
	}
	d := newDesk(t)
	refuses(&d.kube.Fake, "get", "pods")
	assert.False(t, d.pods.hasHappened(t.Context(), job, &policy.Event{Type: failed, Pod: pod("p", corev1.PodFailed)}), "the API has no answer")
	assert.True(t, d.pods.hasHappened(t.Context(), job, nil), "a Command or the spec asks, not a policy")
	assert.True(t, d.pods.hasHappened(t.Context(), job, &policy.Event{Type: busv1alpha1.TaskCompletedEvent, Index: -1}), "no single pod")
}

// TestADeletionIsAskedForAgain: the informer shows a deletion soon, unless the request was lost.
func TestADeletionIsAskedForAgain(t *testing.T) {
	start := time.Unix(1000, 0)
	pod := func(uid string) *corev1.Pod { return mustertesting.MakePod("p-" + uid).UID(uid).Obj() }
	n := &localState{}
	for _, step := range []struct {
		after time.Duration
		pods  []*corev1.Pod
		want  []types.UID
	}{
		{0, []*corev1.Pod{pod("a")}, []types.UID{"a"}},
		{0, []*corev1.Pod{pod("a"), pod("b")}, []types.UID{"b"}},
		{deleteTimeout - 1, []*corev1.Pod{pod("a"), pod("b")}, nil},
		{deleteTimeout, []*corev1.Pod{pod("a"), pod("b")}, []types.UID{"a", "b"}},
		{deleteTimeout + 1, []*corev1.Pod{pod("a"), pod("b")}, nil},
		{deleteTimeout + 2, nil, nil},
		{deleteTimeout + 3, []*corev1.Pod{pod("a")}, []types.UID{"a"}},
	} {
		var got []types.UID
		asked := n.notYetDeleted(step.pods, start.Add(step.after))
		n.noteDeletions(asked, start.Add(step.after))
		for _, pod := range asked {
			got = append(got, pod.UID)
		}
		assert.Equal(t, step.want, got, "after %s", step.after)
	}
}

// TestPodsAreCreatedForThePodGroupAsItIsNow: the scheduler may know a changed PodGroup only as it was before.
func TestPodsAreCreatedForThePodGroupAsItIsNow(t *testing.T) {
	for generation, want := range map[int64]string{1: "", 2: "17"} {
		d := newDesk(t)
		d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
		group, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
		require.NoError(t, err)
		group.Generation, group.ResourceVersion = generation, "17"
		d.shows(group)
		require.NoError(t, d.settles())
		pod, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-0", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation])
	}
}

// TestAReasonHasOneEvent: the status is written again for its counts while the Job waits for the same reason.
func TestAReasonHasOneEvent(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").MinAvailable(2).Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Pending, 0)
	group, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
	require.NoError(t, err)
	group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, Message: "no node is large enough"}}
	d.shows(group)
	require.NoError(t, d.settles())
	second, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-1", metav1.GetOptions{})
	require.NoError(t, err)
	second.UID, second.Status.Phase = "second", corev1.PodPending
	d.shows(second)
	require.NoError(t, d.settles())
	require.EqualValues(t, 1, d.job().Status.Pending)
	assert.Equal(t, []string{"Warning PodGroupPending PodGroup default:j unschedulable, reason: no node is large enough"}, d.told())
}

// TestTheClaimsOfANamesakeAreNotNamed: the Job was deleted and created anew, and the informer does not show that yet. The names contain the
// UID, so the spec of the new Job must not get the old names.
func TestTheClaimsOfANamesakeAreNotNamed(t *testing.T) {
	for name, isReplaced := range map[string]bool{"the same Job": false, "another Job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			builder := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).
				Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}})
			job := d.stands(builder, batchv1alpha1.Pending)
			if isReplaced {
				another := job.DeepCopy()
				another.UID = "another"
				require.NoError(t, d.muster.Tracker().Update(batchv1alpha1.SchemeGroupVersion.WithResource("jobs"), another, job.Namespace))
			}
			err := d.objects.nameClaims(t.Context(), job)
			name := d.job().Spec.Volumes[0].VolumeClaimName
			if isReplaced {
				require.Error(t, err)
				assert.Empty(t, name)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "j-pvc-4iuk1h97r69p", name)
		})
	}
}

// TestAPodOfAnotherOwnerIsInTheWay: it has the name that a pod of the Job is to have.
func TestAPodOfAnotherOwnerIsInTheWay(t *testing.T) {
	d := newDesk(t)
	job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
	require.NoError(t, d.kube.Tracker().Add(mustertesting.MakePod("j-a-0").UID("theirs").Obj()))
	require.NoError(t, d.settles())
	assert.Equal(t, plan.ReasonFailedCreate, d.job().Status.State.Reason)
	told := d.told()
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "pod j-a-0: the name is taken by a pod of another owner")
	pod, err := d.kube.CoreV1().Pods(job.Namespace).Get(t.Context(), "j-a-0", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, types.UID("theirs"), pod.UID)
}
