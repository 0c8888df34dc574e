package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout knows where everything of one cluster is: its files, its binaries and its ports.
type layout struct {
	options  Options
	binaries binaries
	ports    *ports
	pki      *pki
}

func (l *layout) internal(elements ...string) string {
	return filepath.Join(append([]string{l.options.Dir, internalName}, elements...)...)
}

func (l *layout) kubeconfig() string { return filepath.Join(l.options.Dir, kubeconfigName) }

// identityKubeconfig is the kubeconfig that one of the programs runs with.
func (l *layout) identityKubeconfig(name string) string {
	return l.internal(name + ".kubeconfig")
}

func logPath(dir, component string) string {
	return filepath.Join(dir, logsName, component+".log")
}

// Files that a cluster makes in its folder, and that are removed with it.
const (
	kubeconfigName   = "kubeconfig"
	scrapeConfigName = "prometheus.yml"
	stateName        = "state.json"
	lockName         = "lock"
	logsName         = "logs"
	internalName     = "internal"
)

// writeFile writes a generated file into the cluster's inner folder.
func (l *layout) writeFile(name string, data []byte) error {
	if err := os.WriteFile(l.internal(name), data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(name), err)
	}
	return nil
}
