package localcluster

// musterControllerComponent runs as its service account, with the roles that Muster ships.
func musterControllerComponent(l *layout) Component {
	kubeconfig := l.identityKubeconfig(MusterController)
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback,
		"--secure-port=" + l.ports.port(MusterController),
		"--tls-cert-file=" + l.pki.certFile(serverIdentity),
		"--tls-private-key-file=" + l.pki.keyFile(serverIdentity),
		// Its leader election is in use, so that the role that it needs is tested. A busy machine must not end it.
		"--leader-elect-lease-duration=60s",
		"--leader-elect-renew-deadline=45s",
	}
	if l.options.has(MusterScheduler) && l.options.has(KubeScheduler) {
		args = append(args, "--served-scheduler-names=muster,volcano") // as in manifests/deploy/second-scheduler
	}
	if l.options.History {
		args = append(args, "--history-dir="+l.historyDir())
	}
	return Component{
		Name:   MusterController,
		Binary: l.binaries.own(MusterController),
		Args:   args,
		Ports:  []string{MusterController},
		URL:    l.ports.url(MusterController),
		After:  []string{KubeAPIServer},
		Ready:  l.answers(l.ports.url(MusterController) + "/readyz"),
		Grace:  stopGrace,
	}
}
