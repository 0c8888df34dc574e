package realnode

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
)

const (
	// NodeName is the name of the node.
	NodeName = "real-node"
	// APIAddress is where the node and its pods reach the API server: the address of the Service kubernetes.
	APIAddress = "10.0.0.1:443"
	// ContainerdSocket is the path of containerd's socket in the node's mount namespace.
	ContainerdSocket = "/run/containerd/containerd.sock"

	serviceIP  = "10.0.0.1"
	dnsIP      = "10.0.0.10"
	podSubnet  = "10.64.0.0/16"
	pauseImage = "muster.local/pause:1"
)

// Programs are the ones that hack/realnode builds for a node.
var Programs = []string{"kubelet", "coredns", "pause"}

// Config says what a node needs to know of its cluster.
type Config struct {
	// Dir is the node's own folder, where all its files are.
	Dir string `json:"dir"`
	// LogDir gets one log for each program.
	LogDir string `json:"logDir"`
	// BinDir has kubelet, coredns and pause.
	BinDir string `json:"binDir"`
	// APIServer is the address at which the host reaches the API server.
	APIServer string `json:"apiServer"`
	// CAFile is the authority that the kubelet's clients are signed by.
	CAFile string `json:"caFile"`
	// KubeletKubeconfig and DNSKubeconfig are the kubeconfigs of the kubelet and of CoreDNS. They name [APIAddress].
	KubeletKubeconfig string `json:"kubeletKubeconfig"`
	DNSKubeconfig     string `json:"dnsKubeconfig"`
}

// ReadConfig reads a configuration that the cluster has written.
func ReadConfig(path string) (Config, error) {
	var config Config
	data, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("reading the node's configuration: %w", err)
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return config, fmt.Errorf("reading the node's configuration from %s: %w", path, err)
	}
	return config, nil
}

// EtcKubernetes is the folder that the node whose files are in dir has as its /etc/kubernetes.
func EtcKubernetes(dir string) string { return filepath.Join(dir, "kubernetes") }

func (c Config) path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

func (c Config) binary(name string) string { return filepath.Join(c.BinDir, name) }

// identity is what the node is called outside of its namespaces. It follows from the node's folder, so that what a killed node left
// behind can be found.
type identity struct {
	name           string // of its interface on the host and of its control group
	hostIP, nodeIP netip.Addr
}

// identityOf spreads the nodes of all folders over names and over the /30 networks of 198.18.0.0/15. That network is reserved for tests.
func identityOf(dir string) identity {
	hash := fnv.New32a()
	hash.Write([]byte(dir))
	sum := hash.Sum32()
	block := (sum % (1 << 15)) * 4
	address := func(offset uint32) netip.Addr {
		low := block + offset
		return netip.AddrFrom4([4]byte{198, byte(18 + low>>16), byte(low >> 8), byte(low)})
	}
	return identity{name: fmt.Sprintf("muster-%08x", sum), hostIP: address(1), nodeIP: address(2)}
}
