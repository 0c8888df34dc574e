package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestTheJobKnowsWhichIncarnationItIsInBeforeItsPodsDo(t *testing.T) {
	for name, test := range map[string]struct {
		pods                        string
		remembered                  memory
		version                     int64
		members                     int
		running, succeeded, started int32
	}{
		"a pod that has succeeded is gone":       {"rr", memory{0, 1}, 0, 3, 2, 1, 3},
		"it is still there":                      {"rs", memory{0, 1}, 0, 2, 1, 1, 2},
		"all are gone":                           {"", memory{2, 3}, 2, 3, 0, 3, 3},
		"the Job restarts, its old pods go":      {"rRs", memory{1, 0}, 1, 0, 0, 0, 0},
		"the first of the new has come":          {"Rs|r", memory{1, 0}, 1, 1, 1, 0, 1},
		"of the Job an older version is known":   {"rs|r", memory{0, 1}, 1, 1, 1, 0, 1},
		"the PodGroup is not of a Job that runs": {"rs", memory{}, 0, 2, 1, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := count(members(test.pods), test.remembered)
			assert.Equal(t, test.version, got.version)
			assert.Equal(t, test.members, got.members)
			assert.Equal(t, []int32{test.running, test.succeeded, test.started}, []int32{got.running, got.succeeded, got.started})
		})
	}
}

// The scheduler evicts a gang that never reached its minimum, and leaves one alone that has. The record of one incarnation must not be
// taken for the next.
func TestThatAGangHasStartedIsSaidOfEachIncarnationAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	group := mustertesting.MakePodGroup("g").MinMember(2).Phase(inqueue).Obj()
	job := &batchv1alpha1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "job"}}
	group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
	step := func(pods string, version int64) (phase schedulingv1beta1.PodGroupPhase, kinds []schedulingv1beta1.PodGroupConditionType) {
		group.Status = *nextStatus(group, count(members(pods), memory{version: version}), admission.Decision{}, now, "id")
		now = now.Add(time.Minute)
		for _, c := range group.Status.Conditions {
			assert.Equal(t, corev1.ConditionTrue, c.Status)
			kinds = append(kinds, c.Type)
		}
		return group.Status.Phase, kinds
	}
	expect := func(pods string, version int64, phase schedulingv1beta1.PodGroupPhase, kinds ...schedulingv1beta1.PodGroupConditionType) {
		t.Helper()
		gotPhase, gotKinds := step(pods, version)
		assert.Equal(t, phase, gotPhase, pods)
		assert.Equal(t, kinds, gotKinds, pods)
		assert.EqualValues(t, version, *group.Status.JobVersion)
	}
	expect("uu", 0, inqueue, schedulingv1beta1.PodGroupUnschedulableType)
	expect("rr", 0, running, schedulingv1beta1.PodGroupUnschedulableType, schedulingv1beta1.PodGroupScheduled)
	expect("RR", 1, running) // the phase counts pods that go, the condition does not
	expect("RR|rw", 1, running)
	expect("|rw", 1, inqueue)
	expect("|rr", 1, running, schedulingv1beta1.PodGroupScheduled)
	expect("|r", 1, inqueue, schedulingv1beta1.PodGroupScheduled)
}

// After an upgrade the status may be about any incarnation.
func TestOfAStatusThatDoesNotSayWhichIncarnationNothingIsDropped(t *testing.T) {
	group := mustertesting.MakePodGroup("g").MinMember(3).Phase(unknown).Obj()
	scheduled := []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupScheduled, Status: corev1.ConditionTrue}}
	group.Status.Conditions = scheduled
	next := nextStatus(group, count(members("|rr"), memory{version: 1}), admission.Decision{}, time.Unix(1000, 0), "id")
	assert.Equal(t, scheduled, next.Conditions)
	assert.EqualValues(t, 1, *next.JobVersion, "from now on it does")

	alone := mustertesting.MakePodGroup("g").MinMember(2).Phase(inqueue).Obj()
	assert.Nil(t, nextStatus(alone, count(members("rr"), memory{}), admission.Decision{}, time.Unix(1000, 0), "id").JobVersion, "no Job, no versions")
}
