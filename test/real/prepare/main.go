// Program prepare makes ready what the tests in test/real need of a machine. It prints on one line why they cannot run on this one, and
// nothing if they can. With --packages it prints the Debian packages that the machine lacks, and does nothing.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	"github.com/muster-sched/muster/test/real/workloads"
)

// needed are the programs that the tests run beside those of the node.
var needed = []realnode.Program{
	{Name: "/bin/busybox", DebianPackage: "busybox-static"},
	{Name: "mmdebstrap", DebianPackage: "mmdebstrap"},
	{Name: "git", DebianPackage: "git"},
	{Name: "make", DebianPackage: "make"},
}

func main() {
	onlyPackages := flag.Bool("packages", false, "print the Debian packages that the machine lacks")
	flag.Parse()
	programs, packages := realnode.Missing(append(realnode.Needed, needed...))
	if *onlyPackages {
		fmt.Println(strings.Join(packages, " "))
		return
	}
	if why := prepare(programs, packages); why != "" {
		fmt.Println(why)
	}
}

// prepare returns why the tests cannot run, in words that follow "not run: ".
func prepare(programs, packages []string) string {
	if os.Geteuid() != 0 {
		return "the tests need root"
	}
	if len(programs) > 0 {
		return fmt.Sprintf("this machine has no %s (apt-get install --no-install-recommends %s)", strings.Join(programs, ", "), strings.Join(packages, " "))
	}
	// Root of a container may lack the right.
	if output, err := exec.Command("unshare", "--mount", "--pid", "--net", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt").CombinedOutput(); err != nil {
		return "root may not make namespaces and mounts on this machine: " + strings.TrimSpace(string(output))
	}
	if _, err := workloads.DebianLayer("."); err != nil {
		return err.Error()
	}
	return ""
}
