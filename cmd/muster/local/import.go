package local

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"
)

func newImportCommand() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "import --dir DIR ARCHIVE...",
		Short: "Give images to the real node of a running cluster",
		Long: `Import container images into the real node of a cluster, which has no registry.
An archive is a tar file in the format of OCI or of "docker save". Pods that use
the images need imagePullPolicy IfNotPresent or Never.`,
		Example: `  muster local import --dir /tmp/m muster.tar`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, archives []string) error {
			if err := needDir(command, dir); err != nil {
				return err
			}
			cluster, err := localcluster.Load(dir)
			if err != nil {
				return err
			}
			for _, archive := range archives {
				if err := cluster.ImportImage(command.Context(), archive); err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "%s imported\n", filepath.Base(archive))
			}
			return nil
		},
	}
	addDirFlag(command, &dir)
	return command
}
