package workloads

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DebianLayer makes the layer of an image: a small Debian with OpenSSH and Open MPI. It is kept in the cache of a checkout, and made once.
func DebianLayer(checkout string) (string, error) {
	dir := filepath.Join(checkout, ".cache", "real")
	arguments := []string{"--variant=minbase", "--format=tar", "--include=openssh-server,openssh-client,openmpi-bin",
		"--skip=cleanup/run", "--customize-hook=mkdir -p $1/run/sshd"}
	for _, folder := range []string{"doc", "man", "locale"} {
		arguments = append(arguments, "--dpkgopt=path-exclude=/usr/share/"+folder+"/*")
	}
	arguments = append(arguments, "bookworm")
	layer := filepath.Join(dir, fmt.Sprintf("debian-%x.tar", sha256.Sum256([]byte(strings.Join(arguments, " ")))))
	if _, err := os.Stat(layer); err == nil {
		return layer, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unfinished := layer + ".new"
	if output, err := exec.Command("mmdebstrap", append(arguments, unfinished)...).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return "", fmt.Errorf("making a Debian image with mmdebstrap: %w: %s", err, lines[len(lines)-1])
	}
	return layer, os.Rename(unfinished, layer)
}
