// Command record reads the metrics of a cluster again and again, by a Prometheus configuration. It writes them in the form that the tests
// of dashboards and alerts read. hack/record-metrics.sh calls it.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// recorded are the prefixes of the metrics that are kept, of programs whose job begins with "muster".
var recorded = []string{
	"muster_", "volcano_", "kubernetes_build_info", "leader_election_master_status",
	"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds", "rest_client_requests_total",
	"scheduler_pending_pods", "scheduler_schedule_attempts_total",
	"workqueue_depth", "workqueue_queue_duration_seconds", "workqueue_retries_total",
}

func main() {
	config := flag.String("config", "", "a configuration of Prometheus with static targets and client certificates")
	every := flag.Duration("every", 15*time.Second, "the time between two readings")
	out := flag.String("out", "", "the file to write when the process is interrupted")
	pages := flag.String("pages", "", "the folder for the last page of each program, without metrics that are not recorded")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *config, *every, *out, *pages); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads until the context ends, and writes what it has read.
func run(ctx context.Context, config string, every time.Duration, out, pages string) error {
	programs, err := readConfig(config)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	samples := newSamples()
	for ; ctx.Err() == nil; wait(ctx, ticker.C) {
		for _, program := range programs {
			if err := program.read(context.WithoutCancel(ctx), samples); err != nil { // the last reading is complete
				fmt.Fprintln(os.Stderr, err) // a program that does not answer is down
			}
		}
		samples.next()
	}
	for _, program := range programs {
		if err := program.write(pages); err != nil {
			return err
		}
	}
	file, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("writing the samples: %w", err)
	}
	return errors.Join(samples.write(file, every), file.Close())
}

func wait(ctx context.Context, tick <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-tick:
	}
}

// program is one that serves metrics.
type program struct {
	job, url string
	client   *http.Client

	last map[string]*dto.MetricFamily // its last text
}

func readConfig(path string) ([]*program, error) {
	var config struct {
		Jobs []struct {
			Name string `json:"job_name"`
			TLS  struct {
				CA   string `json:"ca_file"`
				Cert string `json:"cert_file"`
				Key  string `json:"key_file"`
			} `json:"tls_config"`
			Targets []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	var programs []*program
	for _, job := range config.Jobs {
		if !strings.HasPrefix(job.Name, "muster") {
			continue
		}
		client, err := clientOf(job.TLS.CA, job.TLS.Cert, job.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the files of %s: %w", job.Name, err)
		}
		programs = append(programs, &program{job: job.Name, url: "https://" + job.Targets[0].Targets[0] + "/metrics", client: client})
	}
	return programs, nil
}

func clientOf(ca, cert, key string) (*http.Client, error) {
	authority, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 30 * time.Second}, nil
}

// read adds what the program says now, and whether it answered.
func (p *program) read(ctx context.Context, samples *samples) error {
	answers := 0.0
	defer func() { samples.add("up", map[string]string{"job": p.job, "instance": p.job}, answers) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return fmt.Errorf("reading the metrics of %s: %w", p.job, err)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("reading the metrics of %s: %w", p.job, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("reading the metrics of %s: %s", p.job, answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return fmt.Errorf("reading the metrics of %s: %w", p.job, err)
	}
	answers, p.last = 1, families
	for name, family := range families {
		if isRecorded(name) {
			samples.addFamily(p.job, family)
		}
	}
	return nil
}

// write prints what the program said last as a page, with the help texts.
func (p *program) write(folder string) error {
	page := &bytes.Buffer{}
	for _, name := range slices.Sorted(maps.Keys(p.last)) {
		if !isRecorded(name) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(page, p.last[name]); err != nil {
			return fmt.Errorf("writing the metrics of %s: %w", p.job, err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, p.job+".metrics"), page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the metrics of %s: %w", p.job, err)
	}
	return nil
}

func isRecorded(name string) bool {
	for _, prefix := range recorded {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
