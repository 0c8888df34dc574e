package realnode

import (
	"fmt"
	"os"
)

// containerdConfig is for containerd 1.6 and later. Without restrict_oom_score_adj no pod starts where root may not lower the OOM score.
const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + cniDir + `"
    conf_dir = %q
`

const podNetwork = `{
  "cniVersion": "0.4.0",
  "name": "muster",
  "plugins": [{
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": true,
    "hairpinMode": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "` + podSubnet + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

const corefile = `cluster.local:53 in-addr.arpa:53 {
  bind ` + dnsIP + `
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %s
    pods insecure
    ttl 1
  }
}
`

// kubeletConfig takes what the machine has: cgroup v1 or v2, swap, and a disk of which other programs use most.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: %q}
clusterDNS: [` + dnsIP + `]
clusterDomain: cluster.local
resolvConf: %q
containerRuntimeEndpoint: unix://` + ContainerdSocket + `
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
enforceNodeAllocatable: [none]
failSwapOn: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
evictionHard: {nodefs.available: 1%%, imagefs.available: 1%%, memory.available: 100Mi}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
registerWithTaints: []
staticPodPath: /etc/kubernetes/manifests
`

// writeFiles writes what the programs of the node read.
func (c Config) writeFiles() error {
	if err := os.MkdirAll(c.path("cni"), 0o700); err != nil {
		return fmt.Errorf("making the node's folders: %w", err)
	}
	for name, content := range map[string]string{
		"containerd.toml":     fmt.Sprintf(containerdConfig, c.path("cni")),
		"cni/muster.conflist": podNetwork,
		"Corefile":            fmt.Sprintf(corefile, c.DNSKubeconfig),
		"resolv.conf":         "nameserver " + dnsIP + "\n",
		"kubelet.yaml":        fmt.Sprintf(kubeletConfig, c.CAFile, c.path("resolv.conf"), identityOf(c.Dir).name),
	} {
		if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing %s of the node: %w", name, err)
		}
	}
	return nil
}
