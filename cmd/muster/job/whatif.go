package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	typedmusterv1alpha1 "github.com/muster-sched/muster/pkg/client/clientset/versioned/typed/muster/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

const (
	// answerTime is how long the command waits for the scheduler's next plan. On a large cluster it makes one in some ten seconds.
	answerTime = time.Minute
	// askAgain is how long it pauses between two looks.
	askAgain = 250 * time.Millisecond
)

// ask asks when a Job would start, and prints the answer. The API server has judged the Job: its author may create it.
func (o *runOptions) ask(command *cobra.Command, clients *kube.Clients, job *batchv1alpha1.Job) error {
	asked, err := answerTo(command.Context(), clients.Muster.MusterV1alpha1().StartReviews(clients.Namespace), job)
	if err != nil {
		return err
	}
	if *o.print.OutputFormat != "" {
		return o.show(command, asked)
	}
	if asked.Status.Answer == musterv1alpha1.StartRefused {
		return errors.New(asked.Status.Message)
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "job %s: %s\n", job.Name, inWords(&asked.Status))
	return err
}

// answerTo creates a StartReview of a Job, waits for its answer, and deletes it.
func answerTo(ctx context.Context, reviews typedmusterv1alpha1.StartReviewInterface, job *batchv1alpha1.Job) (*musterv1alpha1.StartReview, error) {
	asks := &batchv1alpha1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1alpha1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: job.Name, Labels: job.Labels, Annotations: job.Annotations},
		Spec:       job.Spec,
	}
	review := &musterv1alpha1.StartReview{ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-"}}
	var err error
	if review.Spec.Job.Raw, err = json.Marshal(asks); err != nil {
		return nil, fmt.Errorf("writing the Job as JSON: %w", err)
	}
	review, err = reviews.Create(ctx, review, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this cluster has no StartReviews: ask an administrator to apply manifests/crds of this version of Muster")
	}
	if err != nil {
		return nil, err
	}
	name := review.Name
	defer func() { // the scheduler deletes it else, after a while
		_ = reviews.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
	}()
	err = wait.PollUntilContextTimeout(ctx, askAgain, answerTime, false, func(ctx context.Context) (bool, error) {
		review, err = reviews.Get(ctx, name, metav1.GetOptions{})
		return err == nil && review.Status.Answer != "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("muster-scheduler has not answered StartReview %s within %s: it may be down, or of an earlier version", name, answerTime)
	}
	return review, err
}

// inWords is an answer in one line.
func inWords(status *musterv1alpha1.StartReviewStatus) string {
	said := status.Message
	if plan := status.Plan; plan != nil && plan.ExpectedStart != nil && status.Answer == musterv1alpha1.StartsLater {
		start := plan.ExpectedStart
		said += fmt.Sprintf("; that is in %s, and between %s and %s in four of five cases", duration.HumanDuration(start.At.Sub(plan.ComputedAt.Time)),
			start.Earliest.UTC().Format("15:04:05"), start.Latest.UTC().Format("15:04:05 MST on January 2"))
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
