package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

const (
	realNodeDir    = "node"
	realNodeConfig = "real-node.json"
)

// realNodeComponent is one node with containerd, a kubelet and CoreDNS, as processes of namespaces that end with it.
func realNodeComponent(l *layout) Component {
	return Component{
		Name:          RealNode,
		Binary:        l.binaries.own(musterProgram),
		Args:          []string{"local", "real-node", l.internal(realNodeConfig)},
		After:         []string{KubeAPIServer},
		Ready:         l.realNodeReady,
		OwnNamespaces: true,
	}
}

func (l *layout) writeRealNodeConfig() error {
	if err := os.MkdirAll(l.internal(realNodeDir), 0o700); err != nil {
		return fmt.Errorf("making the node's folder: %w", err)
	}
	if err := l.writeStaticPodFiles(); err != nil {
		return err
	}
	data, err := json.Marshal(realnode.Config{
		Dir:               l.internal(realNodeDir),
		LogDir:            filepath.Join(l.options.Dir, logsName),
		BinDir:            l.binaries.realNode(),
		APIServer:         l.ports.address(KubeAPIServer),
		CAFile:            l.pki.caFile(),
		KubeletKubeconfig: l.identityKubeconfig(kubeletIdentity),
		DNSKubeconfig:     l.identityKubeconfig(dnsIdentity),
	})
	if err != nil {
		return fmt.Errorf("encoding the node's configuration: %w", err)
	}
	return l.writeFile(realNodeConfig, data)
}

// writeStaticPodFiles makes what kubeadm has in /etc/kubernetes for the static pod of a scheduler. These are its kubeconfig, and the folder
// that the kubelet reads static pods from.
func (l *layout) writeStaticPodFiles() error {
	folder := realnode.EtcKubernetes(l.internal(realNodeDir))
	if err := os.MkdirAll(filepath.Join(folder, "manifests"), 0o755); err != nil {
		return fmt.Errorf("making the folder of static pods: %w", err)
	}
	user, err := l.certificateUser(kubeSchedulerIdentity)
	if err != nil {
		return err
	}
	return l.writeKubeconfig(filepath.Join(folder, "scheduler.conf"), "https://"+realnode.APIAddress, user)
}

// realNodeReady returns nil once the kubelet has registered its node and reports it ready.
func (l *layout) realNodeReady(ctx context.Context) error {
	client, err := clientOf(l.kubeconfig())
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, realnode.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking at node %s: %w", realnode.NodeName, err)
	}
	if !isUsable(node) {
		return fmt.Errorf("node %s is not ready", realnode.NodeName)
	}
	return nil
}

// removeRealNode deletes what the real node of a stopped cluster left outside of the cluster's folder.
func removeRealNode(dir string) error {
	node := filepath.Join(dir, internalName, realNodeDir)
	_, err := os.Stat(node)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the cluster had none
	}
	if err != nil {
		return fmt.Errorf("looking for the real node: %w", err)
	}
	return realnode.Remove(node)
}
