package job

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// ask asks when a Job would start, and prints the answer. The API server has judged the Job: its author may create it.
func (o *runOptions) ask(command *cobra.Command, clients *kube.Clients, job *batchv1alpha1.Job) error {
	asks := &batchv1alpha1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1alpha1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: job.Name, Labels: job.Labels, Annotations: job.Annotations},
		Spec:       job.Spec,
	}
	raw, err := json.Marshal(asks)
	if err != nil {
		return fmt.Errorf("writing the Job as JSON: %w", err)
	}
	spec := musterv1alpha1.StartReviewSpec{}
	spec.Job.Raw = raw
	asked, err := kube.StartOf(command.Context(), clients.Muster.MusterV1alpha1().StartReviews(clients.Namespace), job.Name, spec)
	if err != nil {
		return err
	}
	if *o.print.OutputFormat != "" {
		return o.show(command, asked)
	}
	return kube.PrintStart(command.OutOrStdout(), "job", job.Name, &asked.Status)
}
