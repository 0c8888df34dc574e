// Package lint is `muster lint`: what the API server would say of objects, without a cluster.
package lint

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-sched/muster/cmd/muster/kube"
	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
)

// unusable is an error of how the command was called, or of a file that cannot be read. Its exit code is 2, so that a pipeline can tell it
// from findings.
type unusable struct{ error }

// ExitCode of the program.
func (unusable) ExitCode() int { return 2 }

// options are the flags.
type options struct{ queues, namespace, old, output string }

// NewCommand makes `muster lint`.
func NewCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Tell what the API server would refuse, without a cluster",
		Long: `Hold Jobs, PodGroups, Queues and Commands against the very schemas and admission
policies that Muster installs, without a cluster. A FILE has YAML documents or
JSON values; - is standard input, and a folder stands for its .yaml, .yml and
.json files. Objects of other kinds are counted and passed over.

Some rules compare an object with others. Give these in files, as
"kubectl get -o yaml" writes them; otherwise the rules are reported as not checked.

The exit code is 0 if nothing was found, 1 if something was, and 2 if the
command or a file cannot be understood.`,
		Example: `  muster lint job.yaml
  helm template . | muster lint -
  muster lint --queues queues.yaml --old before.yaml -o sarif manifests/`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return unusable{errors.New("name at least one file, or - for standard input")}
			}
			return nil
		},
		RunE: func(command *cobra.Command, files []string) error { return o.run(command, files) },
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unusable{err} })
	flags := command.Flags()
	flags.StringVar(&o.queues, "queues", "", "file or folder with the queues of the cluster, and with other objects that policies compare with")
	flags.StringVar(&o.namespace, "namespace", "", "file or folder with the namespaces; what names none goes to the first")
	flags.StringVar(&o.old, "old", "", "file or folder with the objects as they are: what is among them is updated, all else created")
	flags.StringVarP(&o.output, "output", "o", "text", "how to write the findings: text, json or sarif")
	return command
}

// run reads all files, checks the objects and writes the report.
func (o *options) run(command *cobra.Command, files []string) error {
	write, ok := lint.Formats[o.output]
	if !ok {
		return unusable{fmt.Errorf("--output %s: use text, json or sarif", o.output)}
	}
	known, err := o.known(command.InOrStdin())
	if err != nil {
		return unusable{err}
	}
	objects, err := kube.ReadFiles(command.InOrStdin(), files)
	if err != nil {
		return unusable{err}
	}
	rules, err := lint.Load(manifests.FS)
	if err != nil {
		return fmt.Errorf("loading the rules: %w", err)
	}
	report, err := rules.Check(command.Context(), objects, known)
	if err != nil {
		return err
	}
	if err := write(report, command.OutOrStdout()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if len(report.Findings) > 0 {
		return fmt.Errorf("findings: %d", len(report.Findings))
	}
	return nil
}

// known reads what the flags name.
func (o *options) known(in io.Reader) (lint.Known, error) {
	var known lint.Known
	params, err := contents(in, o.queues)
	if err != nil {
		return known, err
	}
	known.Params = params
	if known.Old, err = contents(in, o.old); err != nil {
		return known, err
	}
	if o.old != "" && known.Old == nil {
		known.Old = []*unstructured.Unstructured{} // nothing exists, which is known
	}
	namespaces, err := contents(in, o.namespace)
	if err != nil {
		return known, err
	}
	for _, object := range namespaces {
		namespace := &corev1.Namespace{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, namespace); err != nil || object.GetKind() != "Namespace" {
			return known, fmt.Errorf("--namespace %s: %s %s is no namespace", o.namespace, object.GetKind(), object.GetName())
		}
		known.Namespaces = append(known.Namespaces, namespace)
	}
	return known, nil
}

// contents returns the objects of a file; none if there is no file.
func contents(in io.Reader, file string) ([]*unstructured.Unstructured, error) {
	if file == "" {
		return nil, nil
	}
	objects, err := kube.ReadFiles(in, []string{file})
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, object := range objects {
		all = append(all, object.Content)
	}
	return all, nil
}
