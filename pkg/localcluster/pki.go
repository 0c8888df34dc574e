package localcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

// The identities that get a key pair.
const (
	serverIdentity            = "server" // the serving certificate of every component
	adminIdentity             = "admin"
	controllerManagerIdentity = "system:kube-controller-manager"
	kubeSchedulerIdentity     = "system:kube-scheduler"
	kwokIdentity              = "kwok"
	frontProxyIdentity        = "front-proxy"
	kubeletIdentity           = "system:node:" + realnode.NodeName
	dnsIdentity               = "coredns"
	serviceAccountIdentity    = "service-accounts" // signs service account tokens
)

// certificateLifetime is longer than the life of any local cluster.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// pki is the certificate authority of one cluster and what it has signed, in a folder.
type pki struct {
	dir    string
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	serial int64
}

// makePKI makes a new authority and all identities.
func makePKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of keys: %w", err)
	}
	p := &pki{dir: dir}
	if err := p.makeAuthority(); err != nil {
		return nil, err
	}
	for _, identity := range []struct {
		name  string
		group string
	}{
		{serverIdentity, ""},
		{adminIdentity, "system:masters"},
		{controllerManagerIdentity, ""},
		{kubeSchedulerIdentity, ""},
		{kwokIdentity, "system:masters"}, // it stands for many kubelets
		{frontProxyIdentity, ""},
		{kubeletIdentity, "system:nodes"},
		{dnsIdentity, "system:masters"}, // it reads all Services
		{serviceAccountIdentity, ""},
	} {
		if err := p.issue(identity.name, identity.group); err != nil {
			return nil, fmt.Errorf("making the certificate of %s: %w", identity.name, err)
		}
	}
	return p, nil
}

func (p *pki) caFile() string              { return p.certFile("ca") }
func (p *pki) certFile(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) keyFile(name string) string  { return filepath.Join(p.dir, name+".key") }
func (p *pki) nextSerial() *big.Int        { p.serial++; return big.NewInt(p.serial) }
func (p *pki) validity() (from, to time.Time) {
	now := time.Now()
	return now.Add(-time.Hour), now.Add(certificateLifetime)
}

func (p *pki) makeAuthority() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the authority's key: %w", err)
	}
	from, to := p.validity()
	template := &x509.Certificate{
		SerialNumber:          p.nextSerial(),
		Subject:               pkix.Name{CommonName: "muster-local-cluster"},
		NotBefore:             from,
		NotAfter:              to,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("making the authority's certificate: %w", err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("reading the authority's certificate: %w", err)
	}
	p.caKey = key
	return p.write("ca", der, key)
}

// issue signs a certificate that serves on the loopback interface and identifies a client.
func (p *pki) issue(name, group string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	from, to := p.validity()
	template := &x509.Certificate{
		SerialNumber: p.nextSerial(),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.ParseIP(loopback), net.ParseIP("10.0.0.1")},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, &key.PublicKey, p.caKey)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	return p.write(name, der, key)
}

func (p *pki) write(name string, der []byte, key *ecdsa.PrivateKey) error {
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(p.certFile(name), certPEM, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	if err := os.WriteFile(p.keyFile(name), keyPEM, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	return nil
}

// clientTLS trusts the cluster's authority and shows the identity's certificate.
func (p *pki) clientTLS(name string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(p.certFile(name), p.keyFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the key pair of %s: %w", name, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
