package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

// KubernetesVersion is the release of the control plane, as go.mod pins it.
const KubernetesVersion = "v1.37.2"

// OlderVersions are the other releases that a cluster may have, as the modules in hack/controlplane pin them.
var OlderVersions = []string{"v1.35.4", "v1.36.3"}

// VersionVariable is the environment variable that says which release of Kubernetes clusters have.
const VersionVariable = "MUSTER_KUBERNETES_VERSION"

// BinDirVariable is the environment variable that says where the binaries are.
const BinDirVariable = "MUSTER_BIN_DIR"

// buildScript makes the control plane's binaries, in a checkout of the repository.
const buildScript = "hack/controlplane/build.sh"

// realNodeBuildScript makes the programs of a real node, in a checkout of the repository.
const realNodeBuildScript = "hack/realnode/build.sh"

// musterProgram is the command line program. It also runs a real node.
const musterProgram = "muster"

// binaries knows where the programs of a cluster are.
type binaries struct {
	dir     string
	version string // of Kubernetes
}

// DefaultBinDir is the folder named by MUSTER_BIN_DIR. Without that it is the running program's folder if the control plane or Muster's
// programs are there. Otherwise it is bin in the checkout around the working directory.
func DefaultBinDir() (string, error) {
	if dir := os.Getenv(BinDirVariable); dir != "" {
		return dir, nil
	}
	if executable, err := os.Executable(); err == nil {
		dir := filepath.Dir(executable)
		for _, name := range []string{"controlplane", MusterScheduler, MusterController} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir, nil
			}
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), buildScript)); err == nil {
			return dir, nil
		}
	}
	if dir, err := os.Getwd(); err == nil {
		for parent := ""; dir != parent; parent, dir = dir, filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, buildScript)); err == nil {
				return filepath.Join(dir, "bin"), nil
			}
		}
	}
	return "", fmt.Errorf("the programs of the cluster are nowhere to be found: run inside a checkout of Muster, or name their folder with --bin-dir or %s", BinDirVariable)
}

// path is where a program of the control plane is. An older release of Kubernetes runs with the etcd and KWOK of the pinned one.
func (b binaries) path(name string) string {
	version := b.version
	if name == Etcd || name == KWOK {
		version = KubernetesVersion
	}
	return filepath.Join(b.dir, "controlplane", version, name)
}

// own is where one of Muster's programs is.
func (b binaries) own(name string) string { return filepath.Join(b.dir, name) }

// realNode is the folder of the programs of a real node.
func (b binaries) realNode() string { return filepath.Join(b.dir, "realnode", KubernetesVersion) }

// of lists the programs of a component.
func (b binaries) of(component string) []string {
	switch component {
	case MusterScheduler, MusterController:
		return []string{b.own(component)}
	case RealNode:
		programs := []string{b.own(musterProgram)}
		for _, name := range realnode.Programs {
			programs = append(programs, filepath.Join(b.realNode(), name))
		}
		return programs
	}
	return []string{b.path(component)}
}

// pinned lists those programs of the pinned control plane that the options ask for. A user of any cluster needs its kubectl.
func (b binaries) pinned(options Options) []string {
	names := []string{"kubectl"}
	of := binaries{dir: b.dir, version: KubernetesVersion}
	for _, entry := range catalogue {
		switch entry.name {
		case MusterScheduler, MusterController, RealNode:
			continue
		}
		if options.has(entry.name) && b.path(entry.name) == of.path(entry.name) {
			names = append(names, entry.name)
		}
	}
	return names
}

// Kubectl is the kubectl that fits the control plane.
func (b binaries) Kubectl() string { return b.own("kubectl") }

// findBinaries makes sure that all programs that the options ask for exist. In a checkout, it builds the control plane's programs if they
// are missing or older than their pins. It does not build an older release of Kubernetes.
func findBinaries(ctx context.Context, options Options) error {
	programs := binaries{dir: options.BinDir, version: options.KubernetesVersion}
	builds := [][]string{append([]string{buildScript, options.BinDir}, programs.pinned(options)...)}
	if options.has(RealNode) {
		builds = append(builds, []string{realNodeBuildScript, options.BinDir})
	}
	for _, build := range builds {
		script := filepath.Join(filepath.Dir(options.BinDir), build[0])
		if _, err := os.Stat(script); err != nil {
			continue // no checkout around the programs
		}
		if err := runBuild(ctx, options, script, build[1:]...); err != nil {
			return err
		}
	}
	var missing []string
	for _, entry := range catalogue {
		if !options.has(entry.name) {
			continue
		}
		for _, path := range programs.of(entry.name) {
			if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
				missing = append(missing, path)
			}
		}
	}
	if len(missing) > 0 {
		build := "make build"
		if options.isOlder() {
			build += " && hack/controlplane/build-older.sh bin " + options.KubernetesVersion[:strings.LastIndex(options.KubernetesVersion, ".")]
		}
		return fmt.Errorf("missing: %s; run `%s` in a checkout of Muster, or name the folder of its binaries with --bin-dir or %s",
			strings.Join(missing, ", "), build, BinDirVariable)
	}
	return nil
}

// runBuild runs a build script, which returns at once if all is up to date.
func runBuild(ctx context.Context, options Options, script string, args ...string) error {
	command := exec.CommandContext(ctx, "bash", append([]string{script}, args...)...)
	progress := &lineWriter{write: options.Progress}
	command.Stderr = progress
	err := command.Run()
	progress.flush()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("building the programs of the cluster: bash is missing: install it, or run where the binaries exist")
	}
	if err != nil {
		return fmt.Errorf("building with %s: %w: %s", script, err, progress.last)
	}
	return nil
}
