package localcluster

const etcdPeerPort = "etcd-peer"

// etcdComponent keeps the cluster's data. It does not wait for the disk. The data goes away with
// the cluster, and a crash of the machine ends both.
func etcdComponent(l *layout) Component {
	client, peer := l.ports.url(Etcd), l.ports.url(etcdPeerPort)
	return Component{
		Name:   Etcd,
		Binary: l.binaries.path(Etcd),
		Args: []string{
			"--name=muster",
			"--data-dir=" + l.internal("etcd"),
			"--unsafe-no-fsync",
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=muster=" + peer,
			"--client-cert-auth",
			"--trusted-ca-file=" + l.pki.caFile(),
			"--cert-file=" + l.pki.certFile(serverIdentity),
			"--key-file=" + l.pki.keyFile(serverIdentity),
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + l.pki.caFile(),
			"--peer-cert-file=" + l.pki.certFile(serverIdentity),
			"--peer-key-file=" + l.pki.keyFile(serverIdentity),
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		},
		Ports: []string{Etcd, etcdPeerPort},
		URL:   client,
		Ready: l.answers(client + "/health"),
	}
}
