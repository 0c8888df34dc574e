package localcluster

import "strconv"

// SimulatedNodeAnnotation marks, with the value "true", the nodes that kwok brings to life. It
// leaves all other nodes, and the pods on them, alone.
const SimulatedNodeAnnotation = "muster.sh/simulated-node"

// nodeLeaseSeconds is long, so that hundreds of nodes cost few writes.
const nodeLeaseSeconds = 120

// kwokComponent plays the kubelets of the simulated nodes, by the stages in manifests/stages.
func kwokComponent(l *layout) Component {
	return Component{
		Name:   KWOK,
		Binary: l.binaries.path(KWOK),
		Args: []string{
			"--kubeconfig=" + l.identityKubeconfig(kwokIdentity),
			"--config=" + l.internal(stagesFile),
			"--manage-nodes-with-annotation-selector=" + SimulatedNodeAnnotation + "=true",
			"--node-lease-duration-seconds=" + strconv.Itoa(nodeLeaseSeconds),
			"--node-ip=" + loopback,
			"--cidr=" + podCIDR,
			"--server-address=" + l.ports.address(KWOK),
			"-v=WARN", // it would log every patch of every pod
		},
		Ports: []string{KWOK},
		After: []string{KubeAPIServer},
		Ready: l.answers("http://" + l.ports.address(KWOK) + "/healthz"),
	}
}
