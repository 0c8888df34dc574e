package localcluster

// serviceCIDR is the range of Service addresses; podCIDR that of simulated pods.
const (
	serviceCIDR = "10.0.0.0/16"
	podCIDR     = "10.128.0.0/9"
)

// kubeAPIServerComponent has RBAC and the default admission plugins, among them ServiceAccount and Priority, as in users' clusters.
func kubeAPIServerComponent(l *layout) Component {
	args := []string{
		"--etcd-servers=" + l.ports.url(Etcd),
		"--etcd-cafile=" + l.pki.caFile(),
		"--etcd-certfile=" + l.pki.certFile(adminIdentity),
		"--etcd-keyfile=" + l.pki.keyFile(adminIdentity),
		"--bind-address=" + loopback,
		"--secure-port=" + l.ports.port(KubeAPIServer),
		"--tls-cert-file=" + l.pki.certFile(serverIdentity),
		"--tls-private-key-file=" + l.pki.keyFile(serverIdentity),
		"--client-ca-file=" + l.pki.caFile(),
		// Programs that ask the API server about a client find its authorities there.
		"--requestheader-client-ca-file=" + l.pki.caFile(),
		"--requestheader-allowed-names=" + frontProxyIdentity,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pki.certFile(frontProxyIdentity),
		"--proxy-client-key-file=" + l.pki.keyFile(frontProxyIdentity),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + l.pki.keyFile(serviceAccountIdentity),
		"--service-account-key-file=" + l.pki.keyFile(serviceAccountIdentity),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged=true",
		// No Service needs to reach the API server, and loopback addresses are refused there.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
	if l.options.has(RealNode) {
		args = append(args,
			"--authorization-mode=Node", // beside RBAC
			// For logs and exec. The kubelet's own certificate is not signed by a CA that the API server knows.
			"--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate="+l.pki.certFile(adminIdentity),
			"--kubelet-client-key="+l.pki.keyFile(adminIdentity),
		)
	}
	if !l.options.has(KWOK) {
		// Simulated nodes have no program that removes the taint.
		args = append(args, "--disable-admission-plugins=TaintNodesByCondition")
	}
	return Component{
		Name:   KubeAPIServer,
		Binary: l.binaries.path(KubeAPIServer),
		Args:   args,
		Ports:  []string{KubeAPIServer},
		URL:    l.ports.url(KubeAPIServer),
		After:  []string{Etcd},
		Ready:  l.answers(l.ports.url(KubeAPIServer) + "/readyz"),
	}
}
