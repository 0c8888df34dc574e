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
	if err := c.mountEtc(); err != nil {
		return err
	}
	return c.coverSysctls()
}

// mountEtc gives the node an /etc like that of the machine, in which /etc/kubernetes is its own.
func (c Config) mountEtc() error {
	layer, work, own := c.path("etc"), c.path("etc-work"), EtcKubernetes(c.Dir)
	for _, folder := range []string{filepath.Join(layer, "kubernetes"), work, own} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making the node's folders: %w", err)
		}
	}
	if err := syscall.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+layer+",workdir="+work); err != nil {
		return fmt.Errorf("mounting /etc: %w", err)
	}
	if err := syscall.Mount(own, "/etc/kubernetes", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /etc/kubernetes: %w", err)
	}
	return nil
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
