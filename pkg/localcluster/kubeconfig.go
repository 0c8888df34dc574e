package localcluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

// clusterName is the name of the cluster, context and user in every kubeconfig.
const clusterName = "muster"

// writeKubeconfig writes a kubeconfig that holds all it needs, so that it may be copied.
func (l *layout) writeKubeconfig(path, server string, user *clientcmdapi.AuthInfo) error {
	ca, err := os.ReadFile(l.pki.caFile())
	if err != nil {
		return fmt.Errorf("reading the authority's certificate: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{
		Server:                   server,
		CertificateAuthorityData: ca,
	}
	config.AuthInfos[clusterName] = user
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: clusterName}
	config.CurrentContext = clusterName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}

// certificateUser authenticates with a client certificate.
func (l *layout) certificateUser(identity string) (*clientcmdapi.AuthInfo, error) {
	certificate, err := os.ReadFile(l.pki.certFile(identity))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", identity, err)
	}
	key, err := os.ReadFile(l.pki.keyFile(identity))
	if err != nil {
		return nil, fmt.Errorf("reading the key of %s: %w", identity, err)
	}
	return &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}, nil
}

// writeCertificateKubeconfigs writes the kubeconfigs that need no API server to exist.
func (l *layout) writeCertificateKubeconfigs() error {
	host, node := l.ports.url(KubeAPIServer), "https://"+realnode.APIAddress
	for _, k := range []struct{ identity, path, server string }{
		{adminIdentity, l.kubeconfig(), host},
		{controllerManagerIdentity, l.identityKubeconfig(controllerManagerIdentity), host},
		{kubeSchedulerIdentity, l.identityKubeconfig(KubeScheduler), host},
		{kwokIdentity, l.identityKubeconfig(kwokIdentity), host},
		{kubeletIdentity, l.identityKubeconfig(kubeletIdentity), node},
		{dnsIdentity, l.identityKubeconfig(dnsIdentity), node},
	} {
		user, err := l.certificateUser(k.identity)
		if err != nil {
			return err
		}
		if err := l.writeKubeconfig(k.path, k.server, user); err != nil {
			return err
		}
	}
	return nil
}

// restConfig reads a kubeconfig and removes the client's own rate limits, as the API server is not shared.
func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = -1, -1
	return config, nil
}

// clientOf makes a client of a kubeconfig, without limits of its own.
func clientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}
