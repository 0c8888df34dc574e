package program

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/muster-sched/muster/pkg/fence"
)

// putBehindFence makes all clients anew that write, so that none does when another replica may lead. Without leader election nothing changes.
func putBehindFence(ctx context.Context, base *schedulerconfig.Config) error {
	if base.LeaderElection == nil {
		return nil
	}
	leads := fence.New(base.LeaderElection.RenewDeadline)
	base.KubeConfig.Wrap(leads.Wrap) // plugins make clients of their own with it
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(base.KubeConfig, "scheduler"))
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	forEvents, err := kubernetes.NewForConfig(base.KubeConfig)
	if err != nil {
		return fmt.Errorf("making the client for events: %w", err)
	}
	base.Client = client
	base.EventBroadcaster.Shutdown()
	base.EventBroadcaster = events.NewEventBroadcasterAdapterWithContext(ctx, forEvents)
	if lease, ok := base.LeaderElection.Lock.(*resourcelock.LeaseLock); ok {
		lease.LockConfig.EventRecorder = base.EventBroadcaster.DeprecatedNewLegacyRecorder(programName)
	}
	base.LeaderElection.Lock = leads.Lock(base.LeaderElection.Lock)
	return nil
}
