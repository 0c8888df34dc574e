package local

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/pkg/localcluster"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

func newUpCommand() *cobra.Command {
	var options localcluster.Options
	var withoutMuster bool
	command := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Start a cluster and return when it is ready",
		Long: `Start a cluster in a new or empty folder and return when all its parts are ready.

The control plane's programs are built on first use, which takes some minutes
and needs Go; afterwards a start takes some seconds. The cluster runs until
"muster local down".

Simulated pods run for ever unless told otherwise, by annotation or by a simple
shell command in their first container:
  muster.sh/sim-exit-after: "5s"    ends 5 seconds after it began to run
  muster.sh/sim-exit-code: "3"      with exit code 3 (without: 0)
  muster.sh/sim-hang: "true"        never begins to run
  command: [sh, -c, "sleep 5; exit 3"]`,
		Example: `  # Four nodes of 8 CPUs, 32Gi and two GPUs each
  muster local up --dir /tmp/m --nodes 4

  # Two nodes with GPUs
  muster local up --dir /tmp/gpu --nodes 2 --node-cpu 32 --node-memory 256Gi --node-resource nvidia.com/gpu=8

  # A node that runs containers, beside two simulated ones that only pods with a toleration get
  muster local up --dir /tmp/real --real-node --nodes 2

  # The same with the stock kube-scheduler, to install Muster from its image
  muster local up --dir /tmp/real --real-node --nodes 2 --without-muster

  # Only etcd, kube-apiserver and kube-controller-manager, with Muster's API
  muster local up --dir /tmp/cp --control-plane-only`,
		Args: kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := needDir(command, options.Dir); err != nil {
				return err
			}
			if withoutMuster {
				options.Scheduler, options.Without = localcluster.KubeScheduler, []string{localcluster.MusterController}
			}
			return runUp(command, options)
		},
	}
	addDirFlag(command, &options.Dir)
	flags := command.Flags()
	flags.IntVar(&options.Nodes, "nodes", 0, "number of simulated nodes")
	flags.StringVar(&options.NodeCPU, "node-cpu", localcluster.DefaultNodeCPU, "CPU of each node, in cores")
	flags.StringVar(&options.NodeMemory, "node-memory", localcluster.DefaultNodeMemory, "memory of each node")
	flags.StringToStringVar(&options.NodeResources, "node-resource", localcluster.DefaultNodeResources(),
		"a further resource of each node, as name=quantity (repeatable), for example nvidia.com/gpu=8")
	flags.BoolVar(&options.RealNode, "real-node", false, "add a node with a real kubelet and containerd; needs root and Debian packages")
	flags.BoolVar(&options.History, "history", false, "keep a history of Jobs, for muster job history and muster report")
	flags.BoolVar(&withoutMuster, "without-muster", false, "run the stock kube-scheduler in the place of Muster's programs, to install them as users do")
	flags.BoolVar(&options.ControlPlaneOnly, "control-plane-only", false, "leave out the simulated nodes and Muster's programs")
	flags.StringVar(&options.BinDir, "bin-dir", "", "folder of Muster's programs and of the folder controlplane (default: that of this program)")
	flags.DurationVar(&options.Timeout, "timeout", localcluster.DefaultTimeout, "how long the start may take, building not counted")
	return command
}

func runUp(command *cobra.Command, options localcluster.Options) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	options.Progress = func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }
	cluster, err := localcluster.UpDetached(command.Context(), options, executable, "local", superviseVerb)
	if err != nil {
		return err
	}
	if err := cluster.Detach(); err != nil {
		return err
	}
	printUsage(command.OutOrStdout(), cluster)
	return nil
}

// printUsage says what there is now and what to do with it.
func printUsage(out io.Writer, cluster *localcluster.Cluster) {
	dir := cluster.Dir()
	fmt.Fprintf(out, `The cluster in %[1]s is ready, with %[2]d nodes.

  export KUBECONFIG=%[3]s
  %[4]s get nodes

  logs      %[5]s
  status    %[6]s local status --dir %[1]s
  stop      %[6]s local down --dir %[1]s
`, dir, countNodes(cluster.Options()), cluster.Kubeconfig(), kubectl(cluster), filepath.Join(dir, "logs"), os.Args[0])
	if countNodes(cluster.Options()) == 0 {
		fmt.Fprintf(out, "  nodes     %s local nodes --dir %s --add 4\n", os.Args[0], dir)
	}
}

// countNodes counts the nodes that a cluster starts with.
func countNodes(options localcluster.Options) int {
	if options.RealNode {
		return options.Nodes + 1
	}
	return options.Nodes
}

// kubectl is the path of kubectl, as short as the working directory allows.
func kubectl(cluster *localcluster.Cluster) string {
	path := cluster.Kubectl()
	if _, err := os.Stat(path); err != nil {
		return "kubectl"
	}
	if wd, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(wd, path); err == nil && len(short) < len(path) {
			return short
		}
	}
	return path
}
