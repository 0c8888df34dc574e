package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const cgroupRoot = "/sys/fs/cgroup"

// removePatience is how long the kernel may take to end what belonged to a node.
const removePatience = 20 * time.Second

// makeCgroups makes the control group of the node in each hierarchy. The kubelet wants it to exist.
func (c Config) makeCgroups() error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := os.MkdirAll(filepath.Join(hierarchy, identityOf(c.Dir).name), 0o755); err != nil {
			return fmt.Errorf("making the node's control group: %w", err)
		}
	}
	return nil
}

// cgroupHierarchies are the one of version 2, or the folders of version 1.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("finding the control groups: %w", err)
	}
	var hierarchies []string
	for _, entry := range entries {
		if entry.IsDir() {
			hierarchies = append(hierarchies, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return hierarchies, nil
}

// Remove deletes what a node that has ended left outside of its folder.
func Remove(dir string) error {
	if err := awaitLinkGone(identityOf(dir).name); err != nil {
		return err
	}
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := removeCgroup(filepath.Join(hierarchy, identityOf(dir).name)); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes a control group with all below it, the innermost first.
func removeCgroup(root string) error {
	var groups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("finding the node's control groups: %w", err)
	}
	for _, group := range slices.Backward(groups) {
		var last error
		err := wait.PollUntilContextTimeout(context.Background(), retryPause, removePatience, true, func(context.Context) (bool, error) {
			last = syscall.Rmdir(group)
			return !errors.Is(last, syscall.EBUSY), nil
		})
		if err = errors.Join(err, last); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("removing control group %s: %w", group, err)
		}
	}
	return nil
}
