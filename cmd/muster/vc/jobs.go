package vc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/describe"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

const (
	abort  = busv1alpha1.AbortJobAction
	resume = busv1alpha1.ResumeJobAction
)

// errNoName is what Volcano says where a job is not named.
var errNoName = errors.New("job name is mandatory to process the request: use --name")

// jobName is the job that a command is for.
func (c *call) jobName() (string, error) {
	name := c.text("name")
	if name == "" {
		return "", errNoName
	}
	return name, nil
}

// commandJob makes a command that asks something of a job. It prints nothing, as Volcano's.
func commandJob(use string, action busv1alpha1.Action) *cobra.Command {
	return verb(use, string(action)+" on a job", func(c *call) error {
		name, err := c.jobName()
		if err != nil {
			return err
		}
		job, err := c.Muster.BatchV1alpha1().Jobs(c.Namespace).Get(c.command.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = c.CommandJob(c.command.Context(), job, action, "")
		return err
	})
}

// cancel makes a command that deletes a job.
func cancel(use, done string) *cobra.Command {
	return verb(use, "Delete a job", func(c *call) error {
		name, err := c.jobName()
		if err != nil {
			return err
		}
		err = c.Muster.BatchV1alpha1().Jobs(c.Namespace).Delete(c.command.Context(), name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err == nil {
			c.printf(done, name)
		}
		return err
	})
}

// addRunFlags adds the flags that vcctl job run and vsub share.
func addRunFlags(command *cobra.Command, image, scheduler string) {
	flags := command.Flags()
	amounts := map[string]string{"cpu": "1000m", "memory": "100Mi"}
	flags.StringP("image", "i", image, "image of the container")
	flags.Int32P("min", "m", 1, "number of pods that start together")
	flags.Int32P("replicas", "r", 1, "number of pods")
	flags.StringToStringP("requests", "R", amounts, "what each pod requests")
	flags.StringToStringP("limits", "L", amounts, "what each pod may use at most")
	flags.StringP("scheduler", "S", scheduler, "scheduler of the pods; volcano stands for that of muster-controller")
}

// simple is the job that the flags describe.
func (c *call) simple(command []string) (*batchv1alpha1.Job, error) {
	name := c.text("name")
	if name == "" {
		return nil, errors.New("job name cannot be left blank")
	}
	simple := kube.Simple{Name: name, Image: c.text("image"), Scheduler: c.scheduler(), Command: command}
	var err error
	if simple.Replicas, err = c.GetInt32("replicas"); err != nil {
		return nil, err
	}
	if simple.Min, err = c.GetInt32("min"); err != nil {
		return nil, err
	}
	if simple.Requests, err = c.GetStringToString("requests"); err != nil {
		return nil, err
	}
	if simple.Limits, err = c.GetStringToString("limits"); err != nil {
		return nil, err
	}
	return simple.Job()
}

// scheduler is the one that is asked for. Volcano's own name, the default, stands for the scheduler that keeps gangs together here.
func (c *call) scheduler() string {
	if name := c.text("scheduler"); name != "volcano" {
		return name
	}
	return ""
}

func (c *call) create(ctx context.Context, job *batchv1alpha1.Job) error {
	if job.Namespace != "" {
		c.Namespace = job.Namespace
	}
	created, err := c.Muster.BatchV1alpha1().Jobs(c.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err == nil {
		c.printf("run job %s successfully\n", created.Name)
	}
	return err
}

// runJob makes vcctl job run.
func runJob() *cobra.Command {
	command := withLetters(verb("run", "Create a job", func(c *call) error {
		job, err := c.fromFileOrFlags()
		if err != nil {
			return err
		}
		return c.create(c.command.Context(), job)
	}), usual)
	addRunFlags(command, "busybox", "volcano")
	command.Flags().StringP("filename", "f", "", "YAML file with the job")
	return command
}

func (c *call) fromFileOrFlags() (*batchv1alpha1.Job, error) {
	file := c.text("filename")
	switch {
	case file == "":
		return c.simple(nil)
	case !strings.Contains(file, ".yaml") && !strings.Contains(file, ".yml"):
		return nil, errors.New("only support yaml file")
	}
	return kube.ReadJob(c.connection, file)
}

// newVsub makes vsub, which runs a command as a job.
func newVsub() *cobra.Command {
	command := verb("vsub", "Run a command as a job", func(c *call) error {
		words, err := kube.Words(c.text("command"))
		if err != nil {
			return err
		}
		job, err := c.simple(words)
		if err != nil {
			return err
		}
		return c.create(c.command.Context(), job)
	})
	command.Flags().StringP("name", swapped.name, "", "name of the job")
	command.Flags().StringP("namespace", swapped.namespace, cmp.Or(os.Getenv("VOLCANO_DEFAULT_JOB_NAMESPACE"), "default"), "namespace of the job")
	addRunFlags(command, cmp.Or(os.Getenv("VOLCANO_DEFAULT_IMAGE"), "busybox"), cmp.Or(os.Getenv("VOLCANO_SCHEDULER_NAME"), "volcano"))
	command.Flags().StringP("command", "c", "", "what the container runs")
	return command
}

// newVjobs makes vjobs, which views one job or lists them.
func newVjobs() *cobra.Command {
	return withLetters(listJobs("vjobs"), swapped)
}

// listJobs makes a command that lists jobs; or views one where a name is given and the command may.
func listJobs(use string) *cobra.Command {
	command := verb(use, "List jobs", func(c *call) error {
		if c.text("name") != "" {
			return c.view()
		}
		return c.list()
	})
	flags := command.Flags()
	flags.StringP("scheduler", "S", "", "list jobs of this scheduler only")
	flags.StringP("queue", "q", "", "list jobs of this queue only")
	flags.Bool("all-namespaces", false, "list jobs of all namespaces")
	flags.String("selector", "", "list jobs only whose name contains this")
	return command
}

func (c *call) list() error {
	namespace := c.Namespace
	everywhere := c.isSet("all-namespaces")
	if everywhere {
		namespace = metav1.NamespaceAll
	}
	jobs, err := c.Muster.BatchV1alpha1().Jobs(namespace).List(c.command.Context(), metav1.ListOptions{FieldSelector: kube.Fields("spec.queue", c.text("queue"))})
	if err != nil {
		return err
	}
	scheduler, part := c.text("scheduler"), c.text("selector")
	chosen := slices.DeleteFunc(jobs.Items, func(job batchv1alpha1.Job) bool {
		return scheduler != "" && job.Spec.SchedulerName != scheduler || !strings.Contains(job.Name, part)
	})
	if len(chosen) == 0 {
		c.printf("No resources found\n")
		return nil
	}
	c.printJobs(chosen, everywhere)
	return nil
}

// jobTypeLabel says of which kind a job is.
const jobTypeLabel = "volcano.sh/job-type"

func (c *call) printJobs(jobs []batchv1alpha1.Job, everywhere bool) {
	table := tabwriter.NewWriter(c.command.OutOrStdout(), 0, 0, 4, ' ', 0)
	defer table.Flush()
	heading, cell := "", ""
	if everywhere {
		heading = "Namespace\t"
	}
	fmt.Fprintln(table, heading+"Name\tCreation\tPhase\tJobType\tReplicas\tMin\tPending\tRunning\tSucceeded\tFailed\tUnknown\tRetryCount")
	for i := range jobs {
		job, status := &jobs[i], &jobs[i].Status
		if everywhere {
			cell = job.Namespace + "\t"
		}
		replicas := int32(0)
		for n := range job.Spec.Tasks {
			replicas += job.Spec.Tasks[n].Replicas
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", cell, job.Name, job.CreationTimestamp.Format("2006-01-02"), status.State.Phase,
			cmp.Or(job.Labels[jobTypeLabel], "Batch"), replicas, status.MinAvailable, status.Pending, status.Running, status.Succeeded, status.Failed,
			status.Unknown, status.RetryCount)
	}
}

// viewJob makes vcctl job view.
func viewJob(use string) *cobra.Command {
	return verb(use, "Print a job with its conditions and events", func(c *call) error {
		if _, err := c.jobName(); err != nil {
			return err
		}
		return c.view()
	})
}

// view describes a job, as kubectl does.
func (c *call) view() error {
	mapper, err := c.connection.ToRESTMapper()
	if err != nil {
		return err
	}
	kind := batchv1alpha1.SchemeGroupVersion.WithKind("Job")
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	describer, err := describe.Describer(c.connection, mapping)
	if err != nil {
		return err
	}
	text, err := describer.Describe(c.Namespace, c.text("name"), describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err != nil {
		return err
	}
	c.printf("%s", text)
	return nil
}
