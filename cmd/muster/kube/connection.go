// Package kube connects the commands with a cluster and prints objects: both as kubectl does, with its libraries.
package kube

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
)

// The resources of Muster, as kubectl names them.
const (
	Jobs      = "jobs.batch.volcano.sh"
	Queues    = "queues.scheduling.volcano.sh"
	PodGroups = "podgroups.scheduling.volcano.sh"
	Pods      = "pods"
	PhJobs    = "phjobs.primehub.io"
)

// Connection is how a command reaches the cluster: the kubeconfig, and the flags that choose from it.
type Connection struct {
	cmdutil.Factory
}

// Connect gives a command, and those below it, the flags of a connection.
func Connect(command *cobra.Command) *Connection {
	flags := genericclioptions.NewConfigFlags(true)
	// A kubeconfig says all of these, and a help page without them can be read.
	flags.ClusterName, flags.AuthInfoName, flags.TLSServerName, flags.BearerToken, flags.ProxyURL = nil, nil, nil, nil, nil
	flags.CertFile, flags.KeyFile, flags.CAFile, flags.Insecure, flags.DisableCompression = nil, nil, nil, nil, nil
	flags.ImpersonateUID, flags.ImpersonateUserExtra, flags.CacheDir = nil, nil, nil
	flags.AddFlags(command.PersistentFlags())
	return &Connection{Factory: cmdutil.NewFactory(flags)}
}

// Clients are typed clients of one cluster.
type Clients struct {
	Kube   kubernetes.Interface
	Muster versioned.Interface
	// Foreign reads objects of other projects.
	Foreign dynamic.Interface
	// Namespace that the user has chosen, by flag or in the kubeconfig.
	Namespace string
}

// errNoKubeconfig says that no cluster was named. kubectl's library takes this machine's port 8080 then.
var errNoKubeconfig = errors.New("no kubeconfig names a cluster: set KUBECONFIG or --kubeconfig, or start a cluster with muster local up")

// Config is how to reach the cluster.
func (c *Connection) Config() (*rest.Config, error) {
	loader := c.ToRawKubeConfigLoader()
	written, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := c.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(written.Clusters) == 0 && config.Host == clientcmd.ClusterDefaults.Server {
		return nil, errNoKubeconfig
	}
	return config, nil
}

// Clients makes them.
func (c *Connection) Clients() (*Clients, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	clients := &Clients{}
	if clients.Namespace, _, err = c.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	if clients.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if clients.Muster, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if clients.Foreign, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return clients, nil
}

// Complete has the shell complete the names of a resource.
func (c *Connection) Complete(command *cobra.Command, resource string) {
	command.ValidArgsFunction = completion.ResourceNameCompletionFunc(c.Factory, resource)
}

// CompleteFlag has the shell complete the names of a resource as the value of a flag.
func (c *Connection) CompleteFlag(command *cobra.Command, flag, resource string) {
	complete(command, flag, completion.ResourceNameCompletionFunc(c.Factory, resource))
}

// CompleteWords has the shell complete the value of a flag with one of some words.
func CompleteWords(command *cobra.Command, flag string, words []string) {
	complete(command, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func complete(command *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // the command has no such flag
	}
}

// Streams are what a command reads and writes.
func Streams(command *cobra.Command) genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: command.InOrStdin(), Out: command.OutOrStdout(), ErrOut: command.ErrOrStderr()}
}
