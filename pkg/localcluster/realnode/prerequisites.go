package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// cniDir is where Debian has the CNI plugins.
const cniDir = "/usr/lib/cni"

// Program is a program of the machine, and the Debian package that has it.
type Program struct{ Name, DebianPackage string }

// Needed are the programs that a node runs.
var Needed = []Program{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{filepath.Join(cniDir, "bridge"), "containernetworking-plugins"},
	{filepath.Join(cniDir, "host-local"), "containernetworking-plugins"},
	{filepath.Join(cniDir, "loopback"), "containernetworking-plugins"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// hidden are folders that the node has a view of its own of. The cluster's folder must not be in one.
var hidden = []string{"/run", "/var/run", "/var/lib", "/var/log", "/etc", "/proc", "/sys"}

// Check says what a node in the cluster's folder misses on this machine, and what to do about it. Nil means that it can run.
func Check(clusterDir string) error {
	return check(clusterDir, machine{
		system:     runtime.GOOS,
		root:       os.Geteuid() == 0,
		hasProgram: hasProgram,
	})
}

// Missing returns which of the programs this machine does not have, and the Debian packages that have them.
func Missing(programs []Program) (names, packages []string) { return missing(programs, hasProgram) }

func hasProgram(name string) bool { _, err := exec.LookPath(name); return err == nil }

func missing(programs []Program, hasProgram func(name string) bool) (names, packages []string) {
	for _, p := range programs {
		if hasProgram(p.Name) {
			continue
		}
		names = append(names, p.Name)
		if !slices.Contains(packages, p.DebianPackage) {
			packages = append(packages, p.DebianPackage)
		}
	}
	return names, packages
}

// machine is what a check asks.
type machine struct {
	system     string
	root       bool
	hasProgram func(name string) bool
}

func check(clusterDir string, m machine) error {
	if m.system != "linux" {
		return fmt.Errorf("a real node needs Linux, and this is %s: leave out --real-node", m.system)
	}
	if !m.root {
		return errors.New("a real node needs root: run this as root, or leave out --real-node")
	}
	if programs, packages := missing(Needed, m.hasProgram); len(programs) > 0 {
		return fmt.Errorf("a real node needs %s: run `apt-get install --no-install-recommends %s`, or leave out --real-node",
			strings.Join(programs, ", "), strings.Join(packages, " "))
	}
	for _, folder := range hidden {
		if inside, err := filepath.Rel(folder, clusterDir); err == nil && filepath.IsLocal(inside) {
			return fmt.Errorf("the folder of a cluster with a real node must not be in %s: give another folder than %s", folder, clusterDir)
		}
	}
	return nil
}
