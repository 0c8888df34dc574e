package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/server/healthz"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// watchDogTolerance is how long after its expiry a lease that is not renewed makes the program unhealthy.
const watchDogTolerance = 20 * time.Second

// run starts all parts and returns when the context has ended and they have stopped; nil means an orderly stop.
func run(ctx context.Context, cfg *config) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting muster-controller", "version", version.Get().GitVersion)

	go paceHeap(ctx, heapForSize)
	p, err := newParts(ctx, cfg)
	if err != nil {
		return err
	}
	p.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.events})
	defer p.broadcaster.Shutdown()

	var ready atomic.Bool
	watchDog := leaderelection.NewLeaderHealthzAdaptor(watchDogTolerance)
	checks := []healthz.HealthChecker{healthz.PingHealthz, watchDog}
	waitForServer, err := serve(ctx, cfg, checks, append(checks, informersReady(ready.Load), healthz.NewShutdownHealthz(ctx.Done())))
	if err != nil {
		return err
	}

	// The API server may not answer yet. Health is served meanwhile.
	controllers, err := newControllers(ctx, cfg, p)
	if ctx.Err() != nil {
		waitForServer()
		return nil
	}
	if err != nil {
		return err
	}

	// A replica that stands by is warm: it follows the API, and works as soon as it leads.
	p.startInformers(ctx)
	go func() { ready.Store(p.waitForInformers(ctx)) }()

	work := func(ctx context.Context) { runAll(ctx, controllers) }
	if cfg.leaderElection.LeaderElect {
		err = lead(ctx, cfg, watchDog, work)
	} else {
		work(ctx)
	}
	if err != nil {
		return err
	}
	waitForServer()
	logger.Info("Stopped")
	return nil
}

// runAll runs the controllers until the context ends and all of them have returned.
func runAll(ctx context.Context, controllers []controller) {
	var group sync.WaitGroup
	for _, run := range controllers {
		group.Go(func() { run(ctx) })
	}
	group.Wait()
}

// errLeaseLost says that another replica may be leading now, so that this one must not go on.
var errLeaseLost = errors.New("the lease was lost")

// lead works while this replica holds the lease. At the stop the lease is released, but only after all work has ended. So another replica
// can take over at once.
func lead(ctx context.Context, cfg *config, watchDog *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	lock, err := newLock(cfg)
	if err != nil {
		return err
	}
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	var leading atomic.Bool
	// While this replica does not lead there is nothing to finish before the stop.
	defer context.AfterFunc(ctx, func() {
		if !leading.Load() {
			endElection()
		}
	})()

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   cfg.leaderElection.LeaseDuration.Duration,
		RenewDeadline:   cfg.leaderElection.RenewDeadline.Duration,
		RetryPeriod:     cfg.leaderElection.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        watchDog,
		Name:            programName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(led context.Context) {
				leading.Store(true)
				defer endElection()
				work(both(led, ctx))
			},
			OnStoppedLeading: func() { klog.FromContext(ctx).Info("Leading no longer", "identity", lock.Identity()) },
		},
	})
	if err != nil {
		return fmt.Errorf("setting up leader election: %w", err)
	}
	watchDog.SetLeaderElection(elector)
	elector.Run(election)
	if ctx.Err() == nil {
		return errLeaseLost
	}
	return nil
}

// both is a context with the values of a that ends as soon as a or b does.
func both(a, b context.Context) context.Context {
	merged, cancel := context.WithCancel(a)
	context.AfterFunc(b, cancel)
	return merged
}

func newLock(cfg *config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding out the host name: %w", err)
	}
	l := cfg.leaderElection
	lock, err := resourcelock.NewFromKubeconfig(l.ResourceLock, l.ResourceNamespace, l.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, cfg.client, l.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("making the lease lock: %w", err)
	}
	return cfg.fence.Lock(lock), nil
}
