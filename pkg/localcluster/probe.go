package localcluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// probeTimeout bounds one question to a component.
const probeTimeout = 3 * time.Second

// answers makes a readiness check that wants a 200 from the URL, asked as administrator.
func (l *layout) answers(url string) func(ctx context.Context) error {
	var client *http.Client
	return func(ctx context.Context) error {
		if client == nil {
			config, err := l.pki.clientTLS(adminIdentity)
			if err != nil {
				return err
			}
			client = probeClient(config)
		}
		return get(ctx, client, url)
	}
}

func probeClient(config *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
