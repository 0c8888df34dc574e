package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

var madeNames = []string{kubeconfigName, scrapeConfigName, logsName, internalName, stateName, lockName}

// claimDir makes sure that the folder can take a new cluster, and says what to do if not.
func claimDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading the cluster's folder: %w", err)
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, stateName)); err != nil {
		return fmt.Errorf("folder %s is not empty and has no cluster in it: give an empty or a new folder", dir)
	}
	alive, err := lockHeld(dir)
	if err != nil {
		return err
	}
	if alive {
		return fmt.Errorf("a cluster is running in %s already: use it with KUBECONFIG=%s, stop it with `muster local down --dir %s`, or give another folder",
			dir, filepath.Join(dir, kubeconfigName), dir)
	}
	return fmt.Errorf("folder %s has a stopped cluster in it: remove it with `muster local down --dir %s`, or give another folder", dir, dir)
}

// removeMade removes what a cluster made in its folder, and the folder if nothing else is in it.
func removeMade(dir string) error {
	if err := removeRealNode(dir); err != nil {
		return err
	}
	for _, name := range madeNames {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing the cluster's files: %w", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the cluster's folder: %w", err)
	}
	return nil
}
