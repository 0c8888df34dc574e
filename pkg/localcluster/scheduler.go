package localcluster

import "time"

// stopGrace is how long Muster's programs may take to give up leadership and stop.
const stopGrace = 5 * time.Second

// kubeSchedulerComponent is the stock scheduler: to compare Muster's with, or the cluster's own beside Muster's.
func kubeSchedulerComponent(l *layout) Component {
	return schedulerComponent(l, KubeScheduler, l.binaries.path(KubeScheduler))
}

// musterSchedulerComponent runs as its service account, with the roles that Muster ships.
func musterSchedulerComponent(l *layout) Component {
	component := schedulerComponent(l, MusterScheduler, l.binaries.own(MusterScheduler))
	// As in manifests/deploy. A member that waits in Permit would be nominated for its node, and stay so after a rollback. The nomination
	// then keeps other members of its own gang off that node.
	component.Args = append(component.Args, "--feature-gates=NominatedNodeNameForExpectation=false")
	return component
}

func schedulerComponent(l *layout, name, binary string) Component {
	kubeconfig := l.identityKubeconfig(name)
	return Component{
		Name:   name,
		Binary: binary,
		Args: []string{
			"--config=" + l.internal(schedulerConfigFile(name)),
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			"--secure-port=" + l.ports.port(name),
			"--tls-cert-file=" + l.pki.certFile(serverIdentity),
			"--tls-private-key-file=" + l.pki.keyFile(serverIdentity),
			// There is only this one. A busy machine must not cost it a lease without competitors. A killed one must not wait for its own
			// lease.
			"--leader-elect=false",
		},
		Ports: []string{name},
		URL:   l.ports.url(name),
		After: []string{KubeAPIServer},
		Ready: l.answers(l.ports.url(name) + "/readyz"),
		Grace: stopGrace,
	}
}
