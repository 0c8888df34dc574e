package vc

import (
	"cmp"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// listPods makes vcctl pod list.
func listPods() *cobra.Command {
	command := verb("list", "List the pods of jobs", func(c *call) error {
		pods, err := c.pods()
		if err != nil {
			return err
		}
		if len(pods) == 0 {
			c.printf("No resources found\n")
			return nil
		}
		c.printPods(pods, c.isSet("all-namespaces"))
		return nil
	})
	flags := command.Flags()
	flags.StringP("queue", "q", "", "list pods of this queue only")
	flags.StringP("job", "j", "", "list pods of this job only")
	flags.StringP("namespace", "n", "default", "namespace of the pods")
	flags.Bool("all-namespaces", false, "list pods of all namespaces")
	return command
}

// pods are those of all jobs, of one job or of a queue. In a queue, pods count that name the queue themselves.
func (c *call) pods() ([]corev1.Pod, error) {
	namespace, queue, job := c.Namespace, c.text("queue"), c.text("job")
	if c.isSet("all-namespaces") {
		namespace = metav1.NamespaceAll
	}
	options := metav1.ListOptions{}
	switch {
	case job != "":
		options.LabelSelector = labels.Set{batchv1alpha1.JobNameKey: job}.String()
	case queue == "":
		options.LabelSelector = batchv1alpha1.JobNameKey
	}
	list, err := c.Kube.CoreV1().Pods(namespace).List(c.command.Context(), options)
	if err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return queue != "" && pod.Labels[batchv1alpha1.QueueNameKey] != queue && pod.Annotations[schedulingv1beta1.QueueNameAnnotation] != queue
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

func (c *call) printPods(pods []corev1.Pod, everywhere bool) {
	table := tabwriter.NewWriter(c.command.OutOrStdout(), 0, 0, 4, ' ', 0)
	defer table.Flush()
	heading, cell := "", ""
	if everywhere {
		heading = "Namespace\t"
	}
	fmt.Fprintln(table, heading+"Name\tReady\tStatus\tRestart\tAge")
	for i := range pods {
		pod := &pods[i]
		if everywhere {
			cell = pod.Namespace + "\t"
		}
		ready, restarts := 0, int32(0)
		for n := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[n]
			restarts += status.RestartCount
			if status.Ready {
				ready++
			}
		}
		fmt.Fprintf(table, "%s%s\t%d/%d\t%s\t%d\t%s\n", cell, pod.Name, ready, len(pod.Spec.Containers), cmp.Or(pod.Status.Reason, string(pod.Status.Phase)), restarts,
			duration.HumanDuration(time.Since(pod.CreationTimestamp.Time)))
	}
}
