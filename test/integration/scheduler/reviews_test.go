package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// ask creates a StartReview of a Job of one pod that goes to the nodes of the test.
func (w *world) ask(name string) *musterv1alpha1.StartReview {
	w.t.Helper()
	job := mustertesting.MakeJob("asked").Queue(w.namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3").NodeSelector(pool, w.namespace)).Obj()
	job.APIVersion, job.Kind, job.Namespace = batchv1alpha1.SchemeGroupVersion.String(), "Job", w.namespace
	raw, err := json.Marshal(job)
	require.NoError(w.t, err)
	review := &musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{Name: name}}
	review.Spec.Job.Raw = raw
	return w.createReview(review)
}

func (w *world) createReview(review *musterv1alpha1.StartReview) *musterv1alpha1.StartReview {
	w.t.Helper()
	created, err := muster.MusterV1alpha1().StartReviews(w.namespace).Create(w.ctx, review, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return created
}

func (w *world) answer(name string) musterv1alpha1.StartReviewStatus {
	w.t.Helper()
	var status musterv1alpha1.StartReviewStatus
	w.eventually("StartReview "+name+" is answered", func() bool {
		review, err := muster.MusterV1alpha1().StartReviews(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		require.NoError(w.t, err)
		status = review.Status
		return status.Answer != ""
	})
	return status
}

// TestWhenAJobWouldStart: the answer is what a gang is told that waits in its place. Of a flood some are refused.
func TestWhenAJobWouldStart(t *testing.T) {
	w := newQuietWorld(t, 1)
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, mustertesting.MakeQueue(w.namespace).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	w.ask("at-once")
	assert.Equal(t, musterv1alpha1.StartsNow, w.answer("at-once").Answer, w.answer("at-once").Message)

	w.createTimed("runs", time.Hour)
	w.expectBound("runs", 1)
	w.ask("later")
	answer := w.answer("later")
	require.Equal(t, musterv1alpha1.StartsLater, answer.Answer, answer.Message)
	assert.Equal(t, []string{"runs"}, answer.Plan.WaitsFor)
	assert.EqualValues(t, 1, answer.NodeCount)
	assert.Equal(t, &musterv1alpha1.StartDelays{}, answer.Delays)
	group := mustertesting.MakePodGroup("group").Namespace(w.namespace).Queue(w.namespace).MinMember(2).MinResources("cpu", "2000").Obj()
	group.APIVersion, group.Kind = schedulingv1beta1.SchemeGroupVersion.String(), "PodGroup"
	raw, err := json.Marshal(group)
	require.NoError(t, err)
	w.createReview(&musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{Name: "group"}, Spec: musterv1alpha1.StartReviewSpec{PodGroup: runtime.RawExtension{Raw: raw}}})
	assert.Equal(t, musterv1alpha1.StartsNever, w.answer("group").Answer, w.answer("group").Message)
	w.createTimed("waits", 10*time.Minute)
	w.eventually("the expected start of the same gang is written", func() bool { return w.planOf("waits") != nil })
	assert.Equal(t, answer.Plan.ExpectedStart.At.Time, w.planOf("waits").ExpectedStart.At.Time)

	for i := range 30 {
		w.ask(fmt.Sprintf("flood-%02d", i))
	}
	answers := map[musterv1alpha1.StartAnswer]int{}
	w.eventually("the flood is answered or refused", func() bool {
		clear(answers)
		list, err := muster.MusterV1alpha1().StartReviews(w.namespace).List(w.ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for i := range list.Items {
			answers[list.Items[i].Status.Answer]++
		}
		return answers[""] == 0
	})
	assert.GreaterOrEqual(t, answers[musterv1alpha1.StartRefused], 10, "%v", answers)
}
