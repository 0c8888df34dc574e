package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	typedmusterv1alpha1 "github.com/muster-sched/muster/pkg/client/clientset/versioned/typed/muster/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"
)

// planTime is how long a command waits for the scheduler's next plan. On a large cluster it makes one in some ten seconds.
const planTime = time.Minute

// StartOf asks when an object would start: it creates a StartReview, waits for its answer, and deletes it.
func StartOf(ctx context.Context, reviews typedmusterv1alpha1.StartReviewInterface, name string, spec musterv1alpha1.StartReviewSpec) (*musterv1alpha1.StartReview, error) {
	review := &musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}, Spec: spec}
	review, err := reviews.Create(ctx, review, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this cluster has no StartReviews: ask an administrator to apply manifests/crds of this version of Muster")
	}
	if err != nil {
		return nil, err
	}
	created := review.Name
	defer func() { // the scheduler deletes it else, after a while
		_ = reviews.Delete(context.WithoutCancel(ctx), created, metav1.DeleteOptions{})
	}()
	err = wait.PollUntilContextTimeout(ctx, 2*askAgain, planTime, false, func(ctx context.Context) (bool, error) {
		review, err = reviews.Get(ctx, created, metav1.GetOptions{})
		return err == nil && review.Status.Answer != "", err
	})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the question was deleted without an answer, as too many StartReviews were created in this cluster or namespace: ask again in a minute")
	}
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("muster-scheduler has not answered StartReview %s within %s: it may be down, or of an earlier version", created, planTime)
	}
	return review, err
}

// PrintStart prints an answer in one line. A refusal is an error.
func PrintStart(out io.Writer, kind, name string, status *musterv1alpha1.StartReviewStatus) error {
	if status.Answer == musterv1alpha1.StartRefused {
		return errors.New(status.Message)
	}
	_, err := fmt.Fprintf(out, "%s %s: %s\n", kind, name, inWords(status))
	return err
}

// inWords is an answer in one line.
func inWords(status *musterv1alpha1.StartReviewStatus) string {
	said := status.Message
	if plan := status.Plan; plan != nil && plan.ExpectedStart != nil && status.Answer == musterv1alpha1.StartsLater {
		start := plan.ExpectedStart
		said += fmt.Sprintf("; that is in %s, and %s in four of five cases", duration.HumanDuration(start.At.Sub(plan.ComputedAt.Time)),
			text.Between(start.Earliest.Time, start.Latest.Time, plan.ComputedAt.Time))
	}
	if status.Plan != nil && status.Plan.Position > 1 && status.Answer != musterv1alpha1.StartsNever {
		said += "; " + text.Wait(int(status.Plan.Position-1), "other") + " before it"
	}
	if status.NodeCount > 0 {
		said += "; on " + text.Count(int(status.NodeCount), "node")
	}
	if status.Evicts {
		said += "; it may start sooner, as its queue may take its share back"
	}
	if delayed := delays(status.Delays); delayed != "" {
		said += "; it would delay " + delayed
	}
	return said
}

// delays says what would start later, "" for nothing.
func delays(of *musterv1alpha1.StartDelays) string {
	if of == nil {
		return ""
	}
	delayed := slices.Clone(of.Names)
	if of.Others > 0 {
		delayed = append(delayed, text.Count(int(of.Others), "other"))
	}
	return strings.Join(delayed, ", ")
}
