package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ownSysctls are kernel parameters that a kubelet sets for the whole machine. The node sees files in their place.
var ownSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// mountAll gives the node its own view of the folders that its programs write to. All of it goes away with the mount namespace.
func (c Config) mountAll() error {
	// Nothing reaches the host from here; containers may ask for shared mounts.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("separating the node's mounts: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for folder, target := range map[string]string{"lib": "/var/lib", "log": "/var/log"} {
		if err := os.MkdirAll(c.path(folder), 0o755); err != nil {
			return fmt.Errorf("making the node's folders: %w", err)
		}
		if err := syscall.Mount(c.path(folder), target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}
	return c.coverSysctls()
}

func (c Config) coverSysctls() error {
	for _, name := range ownSysctls {
		parameter := "/proc/sys/" + name
		value, err := os.ReadFile(parameter)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", parameter, err)
		}
		own := c.path("sysctl", filepath.Base(name))
		if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
			return fmt.Errorf("making the node's folders: %w", err)
		}
		if err := os.WriteFile(own, value, 0o644); err != nil {
			return fmt.Errorf("copying %s: %w", parameter, err)
		}
		if err := syscall.Mount(own, parameter, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("covering %s: %w", parameter, err)
		}
	}
	return nil
}
