package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Up starts a cluster whose components are children of the calling process and end with it. It
// returns when all of them, and all nodes, are ready. When it fails, nothing runs any more, and
// the folder keeps the logs.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	options, err := prepare(ctx, options)
	if err != nil {
		return nil, err
	}
	return bringUp(ctx, options, false)
}

// prepare checks everything that can be checked before the first process: the options, the
// binaries, the folder.
func prepare(ctx context.Context, options Options) (Options, error) {
	options, err := options.complete()
	if err != nil {
		return options, err
	}
	if err := options.validate(); err != nil {
		return options, err
	}
	if err := findBinaries(ctx, options); err != nil {
		return options, err
	}
	return options, claimDir(options.Dir)
}

// bringUp starts a cluster in a prepared folder. A port that was taken from under a component is
// bad luck: it is tried once more with other ports.
func bringUp(ctx context.Context, options Options, detached bool) (*Cluster, error) {
	cluster, err := bringUpOnce(ctx, options, detached)
	if err != nil && portTaken(err) && ctx.Err() == nil {
		options.Progress("a port was taken meanwhile: trying once more with others")
		if err := removeMade(options.Dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(options.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the cluster's folder: %w", err)
		}
		cluster, err = bringUpOnce(ctx, options, detached)
	}
	return cluster, err
}

func bringUpOnce(ctx context.Context, options Options, detached bool) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()

	supervisor, err := newSupervisor(options, detached)
	if err != nil {
		return nil, err
	}
	cluster, err := startAll(ctx, options, supervisor)
	if err != nil {
		return nil, errors.Join(err, supervisor.stopAll())
	}
	return cluster, nil
}

// startAll is the start from the first key to the last ready node.
func startAll(ctx context.Context, options Options, supervisor *supervisor) (*Cluster, error) {
	began := time.Now()
	layout, err := makeLayout(options)
	if err != nil {
		return nil, err
	}
	defer layout.ports.releaseAll()

	components := componentsOf(layout)
	if err := layout.writeScrapeConfig(components); err != nil {
		return nil, err
	}
	groups, err := startGroups(components)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{dir: options.Dir, options: options, components: components, supervisor: supervisor}
	for _, group := range groups {
		options.Progress("starting " + strings.Join(names(group), ", "))
		if err := startGroup(ctx, layout, supervisor, group); err != nil {
			return nil, err
		}
		if hasName(group, KubeAPIServer) {
			options.Progress("installing the API, the roles and the service accounts")
			if err := install(ctx, layout); err != nil {
				return nil, err
			}
		}
	}
	if err := cluster.AwaitUsable(ctx); err != nil {
		return nil, err
	}
	if options.Nodes > 0 {
		options.Progress(fmt.Sprintf("adding %d nodes", options.Nodes))
		if _, err := cluster.AddNodes(ctx, options.Nodes); err != nil {
			return nil, err
		}
	}
	options.Progress(fmt.Sprintf("ready after %.1f s", time.Since(began).Seconds()))
	return cluster, nil
}

// makeLayout makes the cluster's keys and configuration files and reserves its ports.
func makeLayout(options Options) (*layout, error) {
	l := &layout{options: options, binaries: binaries{dir: options.BinDir, version: options.KubernetesVersion}}
	// etcd wants its folder for itself.
	if err := os.MkdirAll(l.internal("etcd"), 0o700); err != nil {
		return nil, fmt.Errorf("making the cluster's folders: %w", err)
	}
	var err error
	if l.pki, err = makePKI(l.internal("pki")); err != nil {
		return nil, err
	}
	purposes := []string{etcdPeerPort}
	for _, entry := range catalogue {
		purposes = append(purposes, entry.name)
	}
	if l.ports, err = reservePorts(purposes...); err != nil {
		return nil, err
	}
	if err := l.writeConfiguration(); err != nil {
		l.ports.releaseAll()
		return nil, err
	}
	return l, nil
}

// writeConfiguration writes the files that the components read.
func (l *layout) writeConfiguration() error {
	if err := l.writeCertificateKubeconfigs(); err != nil {
		return err
	}
	if err := l.writeStages(); err != nil {
		return err
	}
	if l.options.has(RealNode) {
		if err := l.writeRealNodeConfig(); err != nil {
			return err
		}
	}
	return l.writeSchedulerConfigs()
}

// startGroup starts components together and waits until all are ready.
func startGroup(ctx context.Context, l *layout, supervisor *supervisor, group []Component) error {
	waiting, ctx := errgroup.WithContext(ctx)
	for _, component := range group {
		l.ports.release(component.Ports...)
		child, err := supervisor.start(component)
		if err != nil {
			return err
		}
		waiting.Go(func() error {
			if err := child.awaitReady(ctx); err != nil {
				path := logPath(l.options.Dir, component.Name)
				return &componentError{name: component.Name, err: err, logFile: path, lastWords: lastWords(path, lastWordsLines)}
			}
			return nil
		})
	}
	return waiting.Wait()
}

func hasName(components []Component, name string) bool {
	for _, component := range components {
		if component.Name == name {
			return true
		}
	}
	return false
}
