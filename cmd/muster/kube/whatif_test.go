package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
)

func TestAClusterWithoutStartReviews(t *testing.T) {
	client := musterfake.NewSimpleClientset()
	client.PrependReactor("create", "startreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(musterv1alpha1.Resource("startreviews"), "")
	})
	_, err := StartOf(t.Context(), client.MusterV1alpha1().StartReviews("team"), "wide", musterv1alpha1.StartReviewSpec{})
	assert.ErrorContains(t, err, "this cluster has no StartReviews: ask an administrator to apply manifests/crds")
}

// TestAQuestionIsDeletedWithItsAnswer: the fake scheduler answers when the command looks for the second time.
func TestAQuestionIsDeletedWithItsAnswer(t *testing.T) {
	client, looks := musterfake.NewSimpleClientset(), 0
	client.PrependReactor("get", "startreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		review := &musterv1alpha1.StartReview{}
		if looks++; looks > 1 {
			review.Status = musterv1alpha1.StartReviewStatus{Answer: musterv1alpha1.StartsNow, Message: "it would start at once"}
		}
		return true, review, nil
	})
	got, err := StartOf(t.Context(), client.MusterV1alpha1().StartReviews("team"), "wide", musterv1alpha1.StartReviewSpec{})
	require.NoError(t, err)
	assert.Equal(t, musterv1alpha1.StartsNow, got.Status.Answer)
	left, err := client.MusterV1alpha1().StartReviews("team").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}

// TestAQuestionIsDeletedWithoutAnAnswer, as more come than the scheduler can refuse.
func TestAQuestionIsDeletedWithoutAnAnswer(t *testing.T) {
	client := musterfake.NewSimpleClientset()
	client.PrependReactor("get", "startreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(musterv1alpha1.Resource("startreviews"), "wide-abc")
	})
	_, err := StartOf(t.Context(), client.MusterV1alpha1().StartReviews("team"), "wide", musterv1alpha1.StartReviewSpec{})
	assert.ErrorContains(t, err, "too many StartReviews were created in this cluster or namespace: ask again in a minute")
}

func TestAnAnswerInOneLine(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute)) }
	plan := &schedulingv1beta1.PodGroupPlan{
		Position: 3, ComputedAt: metav1.NewTime(now), ExpectedStart: &schedulingv1beta1.ExpectedStart{At: at(90), Earliest: at(45), Latest: at(180)},
	}
	first := plan.DeepCopy()
	first.Position, first.ExpectedStart = 2, nil
	for want, status := range map[string]musterv1alpha1.StartReviewStatus{
		"it would start at once; 2 others wait before it; on 2 nodes": {Answer: musterv1alpha1.StartsNow, Message: "it would start at once", Plan: plan, NodeCount: 2},
		"when a ends; that is in 90m, and between 12:45:00 and 15:00:00 UTC on January 1 in four of five cases; 2 others wait before it; on 1 node": {
			Answer: musterv1alpha1.StartsLater, Message: "when a ends", Plan: plan, NodeCount: 1},
		"when a ends; it may start sooner, as its queue may take its share back; it would delay b, c, 2 others": {
			Answer: musterv1alpha1.StartUnknown, Message: "when a ends", Evicts: true, Delays: &musterv1alpha1.StartDelays{Names: []string{"b", "c"}, Others: 2}},
		"at once": {Answer: musterv1alpha1.StartsNow, Message: "at once", Delays: &musterv1alpha1.StartDelays{}},
		"no start is known; 1 other waits before it": {Answer: musterv1alpha1.StartUnknown, Message: "no start is known", Plan: first},
		"it would never start":                       {Answer: musterv1alpha1.StartsNever, Message: "it would never start", Plan: first},
		"too many":                                   {Answer: musterv1alpha1.StartRefused, Message: "too many"},
	} {
		assert.Equal(t, want, inWords(&status))
	}
}
