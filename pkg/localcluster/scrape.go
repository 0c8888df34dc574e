package localcluster

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// scrapeInterval is how often Prometheus is to read the metrics of a local cluster.
const scrapeInterval = "15s"

// ScrapeConfig has the fields of Prometheus' configuration that a local cluster needs.
type ScrapeConfig struct {
	// Global applies to all jobs.
	Global struct {
		// ScrapeInterval is a duration, such as "15s".
		ScrapeInterval string `json:"scrape_interval"`
	} `json:"global"`
	// Jobs has one job for each component that serves metrics.
	Jobs []ScrapeJob `json:"scrape_configs"`
}

// ScrapeJob says how Prometheus reads the metrics of one component.
type ScrapeJob struct {
	// Name becomes the label job of all series. It is the component's name, which dashboards and alerts expect.
	Name string `json:"job_name"`
	// Scheme is https.
	Scheme string `json:"scheme"`
	// TLS is how the component is checked, and the client's identity.
	TLS ScrapeTLS `json:"tls_config"`
	// Targets has one address.
	Targets []ScrapeTargets `json:"static_configs"`
}

// ScrapeTLS names the files of a client certificate, and of the authority that signed the server's.
type ScrapeTLS struct {
	// CAFile is the authority.
	CAFile string `json:"ca_file"`
	// CertFile is the client's certificate.
	CertFile string `json:"cert_file"`
	// KeyFile is the client's key.
	KeyFile string `json:"key_file"`
}

// ScrapeTargets lists addresses.
type ScrapeTargets struct {
	// Targets are hosts with ports.
	Targets []string `json:"targets"`
}

// writeScrapeConfig writes the configuration for Prometheus. Paths are absolute, so it may be copied.
func (l *layout) writeScrapeConfig(components []Component) error {
	config := ScrapeConfig{}
	config.Global.ScrapeInterval = scrapeInterval
	for _, component := range components {
		if component.URL == "" {
			continue
		}
		address, err := url.Parse(component.URL)
		if err != nil {
			return fmt.Errorf("finding the metrics of %s: %w", component.Name, err)
		}
		config.Jobs = append(config.Jobs, ScrapeJob{
			Name: component.Name, Scheme: address.Scheme, Targets: []ScrapeTargets{{Targets: []string{address.Host}}},
			TLS: ScrapeTLS{CAFile: l.pki.caFile(), CertFile: l.pki.certFile(adminIdentity), KeyFile: l.pki.keyFile(adminIdentity)},
		})
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("encoding the configuration for Prometheus: %w", err)
	}
	if err := os.WriteFile(filepath.Join(l.options.Dir, scrapeConfigName), text, 0o600); err != nil {
		return fmt.Errorf("writing the configuration for Prometheus: %w", err)
	}
	return nil
}
