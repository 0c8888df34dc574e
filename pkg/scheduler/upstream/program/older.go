package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	serverversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"
)

const (
	emulatedVersionFlag = "emulated-version"
	// versionTimeout bounds one question for the version of the API server, and versionPause is the time between two.
	versionTimeout = 5 * time.Second
	versionPause   = time.Second
)

// emulateOlderServer makes the scheduler work as the release of the API server did, if that is older. The scheduler would else watch what
// such a server does not serve, and would never be ready. It asks until the server answers. A version that a flag names is kept.
func emulateOlderServer(ctx context.Context, opts *options.Options) error {
	flags := opts.Flags.FlagSet("feature gate")
	if flags.Changed(emulatedVersionFlag) || opts.WriteConfigTo != "" {
		return nil
	}
	config, err := clientConfig(opts)
	if err != nil {
		return err
	}
	info, err := askVersion(ctx, config)
	if err != nil {
		return err
	}
	server, err := emulatedVersion(info)
	if err != nil {
		return err
	}
	own := opts.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).BinaryVersion()
	if !server.LessThan(version.MajorMinor(own.Major(), own.Minor())) {
		return nil
	}
	klog.FromContext(ctx).Info("The API server is older than this scheduler, which now works as that release did",
		"server", info.GitVersion, "release", server.String())
	if err := flags.Set(emulatedVersionFlag, server.String()); err != nil {
		return fmt.Errorf("setting --%s: %w", emulatedVersionFlag, err)
	}
	if err := errors.Join(opts.ComponentGlobalsRegistry.Set(), errors.Join(opts.ComponentGlobalsRegistry.Validate()...)); err != nil {
		return fmt.Errorf("working as the API server's release %s: %w", server, err)
	}
	return nil
}

// clientConfig says how to reach the API server. It reads the configuration file, or else flags or the environment in a cluster.
func clientConfig(opts *options.Options) (*rest.Config, error) {
	kubeconfig := opts.Deprecated.Kubeconfig
	if opts.ConfigFile != "" {
		// Without upstream's reader, whose defaults depend on the feature gates that are not set yet.
		text, err := os.ReadFile(opts.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		var settings kubeschedulerv1.KubeSchedulerConfiguration
		if err := yaml.Unmarshal(text, &settings); err != nil {
			return nil, fmt.Errorf("--config %s: %w", opts.ConfigFile, err)
		}
		kubeconfig = settings.ClientConnection.Kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags(opts.Master, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	config.Timeout = versionTimeout
	return config, nil
}

// askVersion asks the API server for its version until it answers or the context ends.
func askVersion(ctx context.Context, config *rest.Config) (*serverversion.Info, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	var info *serverversion.Info
	err = wait.PollUntilContextCancel(ctx, versionPause, true, func(ctx context.Context) (bool, error) {
		answer, err := client.ServerVersion()
		if err != nil {
			klog.FromContext(ctx).Error(err, "The API server does not say its version, will ask again")
			return false, nil
		}
		info = answer
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info, nil
}

// emulatedVersion is the minor release that an API server works as. Vendors add to the version of Kubernetes, as in "v1.36.1-eks-1234567".
func emulatedVersion(info *serverversion.Info) (*version.Version, error) {
	text := info.GitVersion
	if info.EmulationMajor != "" && info.EmulationMinor != "" {
		text = info.EmulationMajor + "." + info.EmulationMinor
	}
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("reading the version %q of the API server: %w", text, err)
	}
	return version.MajorMinor(parsed.Major(), parsed.Minor()), nil
}
