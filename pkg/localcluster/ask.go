package localcluster

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Get asks a component, as the administrator, for a page that it serves beside the API: "/metrics", "/debug/pprof/heap".
func (c *Cluster) Get(ctx context.Context, component, page string) ([]byte, error) {
	process, err := c.process(component)
	if err != nil {
		return nil, err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, process.URL+page, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", component, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", component, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", page, component, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking %s for %s: %s", component, page, response.Status)
	}
	return body, nil
}

// process finds the latest process of a component that serves pages.
func (c *Cluster) process(component string) (Process, error) {
	state, err := c.state()
	if err != nil {
		return Process{}, err
	}
	for _, process := range state.Processes {
		if process.Name == component && process.URL != "" {
			return process, nil
		}
	}
	return Process{}, fmt.Errorf("no component %q of the cluster serves pages", component)
}
