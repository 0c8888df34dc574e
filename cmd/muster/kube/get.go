package kube

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/get"
)

// Get makes a command print objects of a resource as `kubectl get` does. The arguments and flags
// say which objects; prepare, if there is one, narrows that down, and refuses what cannot be.
func (c *Connection) Get(command *cobra.Command, resource string, prepare func(context.Context, *Clients, *get.GetOptions) error) {
	o := get.NewGetOptions("muster", genericiooptions.IOStreams{})
	o.PrintFlags.AddFlags(command)
	flags := command.Flags()
	flags.Lookup("output").Usage = "table, wide, json, yaml or name; or jsonpath, go-template or custom-columns, as kubectl has them"
	for _, rare := range []string{"allow-missing-template-keys", "template", "show-kind", "show-managed-fields", "label-columns"} {
		if err := flags.MarkHidden(rare); err != nil {
			panic(fmt.Sprintf("kubectl has no flag %s any more", rare))
		}
	}
	flags.BoolVarP(&o.Watch, "watch", "w", false, "go on to print what changes")
	flags.StringVarP(&o.LabelSelector, "selector", "l", "", "print objects with these labels only, for example team=a,tier!=test")
	if resource != Queues {
		flags.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	}
	command.RunE = func(command *cobra.Command, names []string) error {
		o.IOStreams = Streams(command)
		if *o.PrintFlags.OutputFormat == "table" {
			*o.PrintFlags.OutputFormat = ""
		}
		clients, err := c.Clients()
		if err != nil {
			return err
		}
		if prepare != nil {
			if err := prepare(command.Context(), clients, o); err != nil {
				return err
			}
		}
		args := append([]string{resource}, names...)
		if err := o.Complete(c.Factory, command, args); err != nil {
			return err
		}
		if err := o.Validate(); err != nil {
			return err
		}
		return o.Run(c.Factory, args)
	}
}

// Fields makes a field selector of pairs of field and value, without the pairs whose value is empty.
func Fields(pairs ...string) string {
	set := fields.Set{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			set[pairs[i]] = pairs[i+1]
		}
	}
	return set.AsSelector().String()
}
