// Package demo is `muster demo`. It starts a local cluster, runs the example Jobs on it and prints what happens at once. It checks each
// claim that it prints against the events of the API's watches.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/watchlog"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

const (
	nodes       = 4
	moreNodes   = 4
	nodeCPU     = "8"
	nodeMemory  = "32Gi"
	gpu         = "nvidia.com/gpu"
	gpusPerNode = "2"
)

// stopTimeout is how long the cluster may take to go down.
const stopTimeout = 45 * time.Second

// Options say how the demo runs.
type Options struct {
	// Dir is the cluster's folder; a new temporary one when empty.
	Dir string
	// BinDir has the binaries; found as localcluster does when empty.
	BinDir string
	// Keep leaves the cluster running at the end, and when the demo fails or is interrupted.
	Keep bool
	// Out is where the story is told.
	Out io.Writer
}

// NewCommand makes `muster demo`.
func NewCommand() *cobra.Command {
	options := Options{}
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show gangs held, released, restarted and completed on a local cluster",
		Long: `Demo brings up a local cluster of simulated nodes, runs the example Jobs of manifests/examples on it and tells
what happens. It checks each of its claims against what the API server says, and fails if one does not hold.`,
		Args: kube.None,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Out = command.OutOrStdout()
			return Run(command.Context(), options)
		},
	}
	command.Flags().BoolVar(&options.Keep, "keep", false, "leave the cluster running, and say how to use and stop it")
	command.Flags().StringVar(&options.Dir, "dir", "", "folder of the cluster (default: a new temporary one)")
	command.Flags().StringVar(&options.BinDir, "bin-dir", "", "folder of the binaries (default: that of this program)")
	return command
}

// Run plays the demo. It fails with the first claim that does not hold.
func Run(ctx context.Context, options Options) error {
	n := newNarrator(options.Out)
	n.heading("Muster: all the pods that a job needs start together, or none does.")
	n.heading("A cluster")
	cluster, err := bringUp(ctx, n, options)
	if err != nil {
		return err
	}
	if err := play(ctx, n, cluster); err != nil {
		return errors.Join(fail(ctx, n, err, cluster.Crashed()), leave(n, cluster, options.Keep, true))
	}
	n.heading(fmt.Sprintf("Every claim held. It took %.0f seconds.", time.Since(n.start).Seconds()))
	return leave(n, cluster, options.Keep, false)
}

// bringUp starts the cluster. It goes down with this process unless it is to be kept.
func bringUp(ctx context.Context, n *narrator, options Options) (*localcluster.Cluster, error) {
	if options.Dir == "" {
		dir, err := os.MkdirTemp("", "muster-demo-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for the cluster: %w", err)
		}
		options.Dir = dir
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	n.explain(fmt.Sprintf(`A real control plane on this machine, and %d simulated nodes with %s CPUs, %s of memory and %s GPUs each.
		The scheduler is kube-scheduler with Muster's plugins; muster-controller turns Jobs into pods.`, nodes, nodeCPU, nodeMemory, gpusPerNode))
	cluster, err := localcluster.UpDetached(ctx, localcluster.Options{
		Dir:           options.Dir,
		BinDir:        options.BinDir,
		Nodes:         nodes,
		NodeCPU:       nodeCPU,
		NodeMemory:    nodeMemory,
		NodeResources: map[string]string{gpu: gpusPerNode},
		Progress:      func(message string) { n.say("%s", message) },
	}, program, "local", "supervise")
	if err != nil {
		return nil, fmt.Errorf("bringing up the cluster in %s: %w", options.Dir, err)
	}
	if options.Keep {
		if err := cluster.Detach(); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// play runs all acts, one after the other. Then it checks the whole record and prints the final tables.
func play(ctx context.Context, n *narrator, cluster *localcluster.Cluster) error {
	config, err := cluster.RESTConfig()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	muster, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	log, err := watchlog.Start(watching, kube, muster)
	if err != nil {
		return fmt.Errorf("watching the cluster: %w", err)
	}
	n.log = log
	s := &stage{narrator: n, cluster: cluster, log: log}
	for i, act := range acts {
		n.heading(fmt.Sprintf("%d. %s", i+1, act.title))
		n.explain(act.intro)
		if err := act.play(ctx, s); err != nil {
			return err
		}
	}
	return s.finale(ctx)
}

// fail tells why the demo ends early and which programs have crashed. It returns the reason in short.
func fail(ctx context.Context, n *narrator, err, crashed error) error {
	if n.log != nil {
		n.tellAll()
	}
	if ctx.Err() != nil {
		n.say("interrupted")
		return errors.New("the demo was interrupted")
	}
	n.say("✗ %v", err)
	if crashed != nil {
		n.say("%v", crashed)
	}
	return errors.New("the demo failed")
}

// leave brings the cluster down, or says how to go on with it. After a failure it keeps the logs.
func leave(n *narrator, cluster *localcluster.Cluster, keep, failed bool) error {
	program, dir := relative(os.Args[0]), cluster.Dir()
	if keep {
		n.show("The cluster goes on. To use it:",
			"export KUBECONFIG="+cluster.Kubeconfig(),
			relative(cluster.Kubectl())+" get vcjob,podgroup,pods")
		n.show("To give the waiting executors of spark-job room, and see one start:",
			program+" local nodes --dir "+dir+" --add 1")
		n.show("To see what the programs say, and to stop it all:", "ls "+logs(cluster), program+" local down --dir "+dir)
		return nil
	}
	if failed {
		kept := cluster.Dir() + "-logs"
		if err := os.Rename(logs(cluster), kept); err != nil {
			return fmt.Errorf("keeping the logs: %w", err)
		}
		n.say("the logs of the cluster are in %s", kept)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := cluster.Down(ctx); err != nil {
		return fmt.Errorf("stopping the cluster: %w", err)
	}
	if !failed {
		n.show("The cluster is down again. To look around in it yourself, or to start one of your own:",
			"make demo KEEP=1", program+" local up --dir DIR")
	}
	return nil
}

func logs(cluster *localcluster.Cluster) string {
	return filepath.Dir(cluster.LogPath(localcluster.MusterScheduler))
}

// relative shortens a path to what works in the working directory.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}
