package localcluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// TestTheScrapeConfig reads the metrics of all components with what the file for Prometheus says, and with nothing else.
func TestTheScrapeConfig(t *testing.T) {
	cluster := up(t, localcluster.Options{Timeout: 5 * time.Minute})
	text, err := os.ReadFile(cluster.ScrapeConfig())
	require.NoError(t, err)
	var config localcluster.ScrapeConfig
	require.NoError(t, yaml.UnmarshalStrict(text, &config))

	expected := map[string]string{
		localcluster.Etcd:                  "etcd_server_has_leader",
		localcluster.KubeAPIServer:         "apiserver_request_total",
		localcluster.KubeControllerManager: "kubernetes_build_info",
		localcluster.MusterScheduler:       "muster_state_drift",
		localcluster.MusterController:      "muster_queue_podgroups", // once it leads
	}
	for _, job := range config.Jobs {
		require.Contains(t, expected, job.Name)
		client := scraper(t, job.TLS)
		require.Len(t, job.Targets, 1)
		require.Len(t, job.Targets[0].Targets, 1)
		url := job.Scheme + "://" + job.Targets[0].Targets[0] + "/metrics"
		eventually(t, "the metrics of "+job.Name, func() bool { return strings.Contains(read(t, client, url), expected[job.Name]) })
		delete(expected, job.Name)
	}
	assert.Empty(t, expected, "components without a job")
	anonymous := scraper(t, localcluster.ScrapeTLS{CAFile: config.Jobs[len(config.Jobs)-1].TLS.CAFile})
	answer, err := anonymous.Get("https://" + config.Jobs[len(config.Jobs)-1].Targets[0].Targets[0] + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, http.StatusForbidden, answer.StatusCode, "the certificate is needed")
}

// scraper asks as the files say.
func scraper(t *testing.T, files localcluster.ScrapeTLS) *http.Client {
	t.Helper()
	authority, err := os.ReadFile(files.CAFile)
	require.NoError(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	require.True(t, config.RootCAs.AppendCertsFromPEM(authority))
	if files.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func read(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	answer, err := client.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode, url)
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(page)
}
