package localcluster

// nodeMonitorGracePeriod is how long a node may be silent before it counts as not ready. It is
// several times kwok's renewal interval, a quarter of nodeLeaseSeconds.
const nodeMonitorGracePeriod = "2m"

// kubeControllerManagerComponent runs all default controllers.
func kubeControllerManagerComponent(l *layout) Component {
	controllers := "*"
	if !l.options.has(KWOK) {
		controllers += ",-node-lifecycle-controller" // no one reports for the nodes
	}
	return Component{
		Name:   KubeControllerManager,
		Binary: l.binaries.path(KubeControllerManager),
		Args: []string{
			"--kubeconfig=" + l.identityKubeconfig(controllerManagerIdentity),
			"--authentication-kubeconfig=" + l.identityKubeconfig(controllerManagerIdentity),
			"--authorization-kubeconfig=" + l.identityKubeconfig(controllerManagerIdentity),
			"--bind-address=" + loopback,
			"--secure-port=" + l.ports.port(KubeControllerManager),
			"--tls-cert-file=" + l.pki.certFile(serverIdentity),
			"--tls-private-key-file=" + l.pki.keyFile(serverIdentity),
			"--root-ca-file=" + l.pki.caFile(),
			"--service-account-private-key-file=" + l.pki.keyFile(serviceAccountIdentity),
			"--use-service-account-credentials=true",
			"--leader-elect=false",
			"--controllers=" + controllers,
			"--node-monitor-grace-period=" + nodeMonitorGracePeriod,
			// Tests make and delete many objects at once.
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
		},
		Ports: []string{KubeControllerManager},
		URL:   l.ports.url(KubeControllerManager),
		After: []string{KubeAPIServer},
		Ready: l.answers(l.ports.url(KubeControllerManager) + "/healthz"),
	}
}
