package localcluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusTimeout bounds the questions that a status asks the cluster.
const statusTimeout = 5 * time.Second

// Status is how a cluster is.
type Status struct {
	// Dir is the cluster's folder.
	Dir string
	// Running tells that the supervisor lives.
	Running bool
	// ScrapeConfig is the path of a configuration for Prometheus.
	ScrapeConfig string
	// Supervisor is its process.
	Supervisor int
	// Components are the parts in the order of their start.
	Components []ComponentStatus
	// Nodes and ReadyNodes count the cluster's nodes.
	Nodes, ReadyNodes int
	// APIError says why the API server did not answer; nil if it did.
	APIError error
}

// ComponentStatus is one part of a cluster.
type ComponentStatus struct {
	Process
	// LogPath is where its output is.
	LogPath string
	// LastWords are the lines of it that tell best how the component crashed, if it did.
	LastWords []string
}

// Problems lists in a sentence each what is wrong; none means that the cluster is healthy.
func (s Status) Problems() []string {
	if !s.Running {
		return []string{fmt.Sprintf("the cluster in %s is stopped", s.Dir)}
	}
	var problems []string
	for _, component := range s.Components {
		if component.Crashed() {
			problems = append(problems, fmt.Sprintf("%s (process %d) ended by itself at %s: %s",
				component.Name, component.PID, component.Ended.Format(time.TimeOnly), component.Outcome))
		}
	}
	if s.APIError != nil {
		problems = append(problems, fmt.Sprintf("the API server does not answer: %v", s.APIError))
	}
	if s.APIError == nil && s.ReadyNodes < s.Nodes {
		problems = append(problems, fmt.Sprintf("%d of %d nodes are not ready", s.Nodes-s.ReadyNodes, s.Nodes))
	}
	return problems
}

// StatusOf looks at the cluster in a folder, running or not. Its error means that there is no cluster to look at; faults of a cluster are
// in the status.
func StatusOf(ctx context.Context, dir string) (Status, error) {
	cluster, err := open(dir)
	if err != nil {
		return Status{}, err
	}
	return cluster.Status(ctx)
}

// Status looks at the cluster: the processes, and whether the API server answers.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	state, err := c.state()
	if err != nil {
		return Status{}, err
	}
	status := Status{Dir: c.dir, ScrapeConfig: c.ScrapeConfig(), Supervisor: state.Supervisor}
	if status.Running, err = lockHeld(c.dir); err != nil {
		return Status{}, err
	}
	for _, process := range state.Processes {
		component := ComponentStatus{Process: process, LogPath: c.LogPath(process.Name)}
		if process.Crashed() {
			component.LastWords = lastWords(component.LogPath, lastWordsLines)
		}
		status.Components = append(status.Components, component)
	}
	if status.Running {
		status.APIError = c.countNodes(ctx, &status)
	}
	return status, nil
}

func (c *Cluster) countNodes(ctx context.Context, status *Status) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	status.Nodes = len(nodes.Items)
	for i := range nodes.Items {
		if isUsable(&nodes.Items[i]) {
			status.ReadyNodes++
		}
	}
	return nil
}
