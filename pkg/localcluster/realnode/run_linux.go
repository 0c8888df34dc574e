package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// containerdPatience is how long containerd may take to answer.
	containerdPatience = time.Minute
	retryPause         = 100 * time.Millisecond
)

// Run is the life of a node. The calling process must be the first of a PID namespace and have a mount namespace of its own. Run returns
// an error when the node cannot start, or when one of its programs ends.
func Run(ctx context.Context, config Config) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("running a node: the process must be the first of its PID namespace, but is %d", os.Getpid())
	}
	for _, step := range []func() error{config.writeFiles, config.makeCgroups, config.mountAll, config.makeNetwork, config.serveAPI} {
		if err := step(); err != nil {
			return err
		}
	}
	children := map[int]string{}
	start := func(name string, arguments ...string) error {
		pid, err := config.start(name, arguments...)
		children[pid] = filepath.Base(name)
		return err
	}
	if err := start("containerd", "--config", config.path("containerd.toml")); err != nil {
		return err
	}
	if err := config.importPause(ctx); err != nil {
		return err
	}
	if err := start(config.binary("coredns"), "-conf", config.path("Corefile")); err != nil {
		return err
	}
	if err := start(config.binary("kubelet"),
		"--config", config.path("kubelet.yaml"),
		"--kubeconfig", config.KubeletKubeconfig,
		"--hostname-override", NodeName,
		"--node-ip", identityOf(config.Dir).nodeIP.String(),
		"--v", "1",
	); err != nil {
		return err
	}
	return reap(children)
}

// start starts a program in the node's network namespace, with a log of its own.
func (c Config) start(name string, arguments ...string) (int, error) {
	log, err := os.OpenFile(filepath.Join(c.LogDir, filepath.Base(name)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	command := exec.CommandContext(context.Background(), "nsenter", append([]string{"--net=" + networkNamespace, "--", name}, arguments...)...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", name, err)
	}
	return command.Process.Pid, nil // reap waits for it
}

// importPause waits until containerd answers and gives it the image that each pod needs.
func (c Config) importPause(ctx context.Context) error {
	archive, layer := c.path("pause.tar"), c.path("pause-layer.tar")
	if err := WriteLayer(layer, c.binary("pause"), "pause"); err != nil {
		return err
	}
	if err := (Image{Name: pauseImage, Layers: []string{layer}, Entrypoint: []string{"/pause"}}).Write(archive); err != nil {
		return err
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, retryPause, containerdPatience, true, func(ctx context.Context) (bool, error) {
		last = runCommand(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive)
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}

// reap waits for the orphans that the first process of a PID namespace inherits, until one of the children ends.
func reap(children map[int]string) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the node's programs: %w", err)
		}
		if name, ours := children[pid]; ours {
			return fmt.Errorf("%s ended with status %d, signal %d: see its log", name, status.ExitStatus(), status.Signal())
		}
	}
}

// runCommand runs a program to its end.
func runCommand(ctx context.Context, name string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
