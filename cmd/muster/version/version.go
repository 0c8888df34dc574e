// Package version is `muster version`.
package version

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/muster-sched/muster/cmd/muster/kube"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// NewCommand makes `muster version`.
func NewCommand() *cobra.Command {
	var client bool
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of this program and of the cluster",
		Example: `  muster version --client     # asks no cluster`,
		Args:    kube.None,
	}
	connection := kube.Connect(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		out := command.OutOrStdout()
		info := version.Get()
		fmt.Fprintf(out, "muster       %s (%s, %s)\n", info.GitVersion, info.GoVersion, info.Platform)
		if client {
			return nil
		}
		clients, err := connection.Clients()
		if err != nil {
			return err
		}
		server, err := clients.Kube.Discovery().ServerVersion()
		if err != nil {
			return fmt.Errorf("asking the API server for its version: %w", err)
		}
		fmt.Fprintf(out, "Kubernetes   %s\n", server.GitVersion)
		if _, err := clients.Kube.Discovery().ServerResourcesForGroupVersion(batchv1alpha1.SchemeGroupVersion.String()); err != nil {
			return fmt.Errorf("the cluster does not serve %s: install Muster: %w", batchv1alpha1.SchemeGroupVersion, err)
		}
		fmt.Fprintf(out, "Jobs         %s\n", batchv1alpha1.SchemeGroupVersion)
		return nil
	}
	command.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	return command
}
