package kube

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/logs"
)

// AddLogFlags gives a command the flags of `kubectl logs`. Flags that users of Jobs rarely need are hidden from the help.
func AddLogFlags(command *cobra.Command, o *logs.LogsOptions) {
	o.AddFlags(command)
	for _, rare := range []string{"all-containers", "all-pods", "selector", "insecure-skip-tls-verify-backend", "limit-bytes", "pod-running-timeout"} {
		if err := command.Flags().MarkHidden(rare); err != nil {
			panic(fmt.Sprintf("kubectl has no flag %s any more", rare))
		}
	}
}
