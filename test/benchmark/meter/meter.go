// Package meter is the common part of the benchmarks on a whole local cluster. It has the cluster, fast clients, many requests at a time, and
// the components' own metrics.
package meter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
)

// Cluster is a local cluster, with clients without limits of their own.
type Cluster struct {
	*localcluster.Cluster
	Kube   kubernetes.Interface
	Muster versioned.Interface
}

// Up brings up a cluster of the programs in bin, in a folder of its own. Down takes it away.
func Up(ctx context.Context, options localcluster.Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	options.Dir, options.BinDir = filepath.Join(dir, "cluster"), "bin"
	cluster, err := localcluster.Up(ctx, options)
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	c := &Cluster{Cluster: cluster}
	if err := c.connect(); err != nil {
		c.Down(ctx)
		return nil, err
	}
	return c, nil
}

// Down ends the cluster and removes its folder, also when the context has ended.
func (c *Cluster) Down(ctx context.Context) {
	_ = c.Cluster.Down(context.WithoutCancel(ctx)) // it ends with the process anyway
	os.RemoveAll(filepath.Dir(c.Dir()))
}

func (c *Cluster) connect() error {
	config, err := c.RESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.DisableCompression = true // packing what the benchmark watches would cost the API server more than the load's own watches do
	if c.Muster, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	if c.Kube, err = kubernetes.NewForConfig(protobuf); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// requests is how many requests are made at the same time.
const requests = 16

// InParallel runs work for 0 to n-1, many at a time, and returns the first error. An error does not stop the other calls; the end of the
// context does, and is an error.
func InParallel(ctx context.Context, n int, work func(i int) error) error {
	var once sync.Once
	var first error
	workqueue.ParallelizeUntil(ctx, requests, n, func(i int) {
		if err := work(i); err != nil {
			once.Do(func() { first = err })
		}
	})
	if first == nil {
		first = ctx.Err()
	}
	return first
}
