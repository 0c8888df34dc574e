// Package migrate is `muster migrate`: what a move from Volcano does to queues, Jobs, PodGroups and the scheduler's configuration.
package migrate

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/cmd/muster/kube"
	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
	"github.com/muster-sched/muster/pkg/migrate"
)

// NewCommand makes `muster migrate`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Tell what a move from Volcano does",
		Long:  "Tell what a move from Volcano does to queues, Jobs, PodGroups and the scheduler's configuration.",
	}
	command.AddCommand(newCheck())
	return command
}

// options are the flags of the check.
type options struct {
	files            []string
	output           string
	volcanoNamespace string
}

// newCheck makes `muster migrate check`.
func newCheck() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "check",
		Short: "Tell for each object of Volcano what is kept, differs, is ignored or is refused",
		Long: `Tell for each queue, Job and PodGroup of a cluster or of files what Muster keeps, what
differs, what has no effect, and what is refused, with the field and a remedy. It
lists the actions and plugins of volcano-scheduler.conf with their counterparts, and the
webhook configurations of Volcano, which have to be deleted.

Nothing is changed. If Muster's policies are in the cluster, its API server judges,
in dry runs. Otherwise the schemas and policies that Muster ships do.

The exit code is 0 if nothing would be lost, and 1 if something would.`,
		Example: `  muster migrate check
  muster migrate check -n team-a -o json
  muster migrate check -f queues.yaml -f jobs/`,
		Args: kube.None,
	}
	connection, flags := kube.Connect(command), command.Flags()
	command.RunE = func(command *cobra.Command, _ []string) error { return o.run(command, connection) }
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder to read instead of the cluster; - is standard input")
	flags.StringVarP(&o.output, "output", "o", "text", "text, or json with each object by itself")
	flags.StringVar(&o.volcanoNamespace, "volcano-namespace", "volcano-system", "namespace of Volcano, with the configuration of its scheduler")
	kube.CompleteWords(command, "output", []string{"text", "json"})
	return command
}

// run checks, prints, and fails if something would be lost.
func (o *options) run(command *cobra.Command, connection *kube.Connection) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output %s: use text or json", o.output)
	}
	report, err := o.check(command, connection)
	if err != nil {
		return err
	}
	if o.output == "json" {
		encoder := json.NewEncoder(command.OutOrStdout())
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.WriteText(command.OutOrStdout())
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing the report: %w", err)
	case report.Lost > 0:
		return fmt.Errorf("objects that would lose something: %d", report.Lost)
	case len(report.NotRead) > 0:
		return fmt.Errorf("not everything could be read, so it is not known whether something would be lost: %d kinds", len(report.NotRead))
	}
	return nil
}

// check reads the objects and asks the judge that fits.
func (o *options) check(command *cobra.Command, connection *kube.Connection) (migrate.Report, error) {
	ctx := command.Context()
	if len(o.files) == 0 {
		c, err := newCluster(ctx, connection)
		if err != nil {
			return migrate.Report{}, err
		}
		objects, err := c.read(ctx, o.volcanoNamespace)
		if err != nil {
			return migrate.Report{}, err
		}
		judge, err := c.judge(objects)
		if err != nil {
			return migrate.Report{}, err
		}
		report, err := migrate.Check(ctx, judge, objects)
		report.NotRead = append(report.NotRead, c.notRead...)
		return report, err
	}
	objects, err := kube.ReadFiles(command.InOrStdin(), o.files)
	if err != nil {
		return migrate.Report{}, err
	}
	judge, err := offline(objects)
	if err != nil {
		return migrate.Report{}, err
	}
	return migrate.Check(ctx, judge, objects)
}

// offline is the judge without a cluster.
func offline(objects []lint.Object) (migrate.Judge, error) {
	rules, err := lint.Load(manifests.FS)
	if err != nil {
		return nil, fmt.Errorf("loading the rules: %w", err)
	}
	var queues []*unstructured.Unstructured
	for _, object := range objects {
		if object.Content.GetKind() == "Queue" {
			queues = append(queues, object.Content)
		}
	}
	return migrate.Offline{Rules: rules, Queues: queues}, nil
}
