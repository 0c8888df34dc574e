package harness

import (
	"context"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
)

// Follow tells the handlers of all pods, PodGroups and Queues until the context ends. It returns when the informers have read what exists.
func Follow(ctx context.Context, env *Env, pods, groups, queues cache.ResourceEventHandler) error {
	kube, muster := informers.NewSharedInformerFactory(env.Kube, 0), musterinformers.NewSharedInformerFactory(env.Muster, 0)
	scheduling := muster.Scheduling().V1beta1()
	synced := make([]cache.InformerSynced, 0, 3)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		kube.Core().V1().Pods().Informer(): pods, scheduling.PodGroups().Informer(): groups, scheduling.Queues().Informer(): queues,
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	kube.Start(ctx.Done())
	muster.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("reading what exists: %w", context.Cause(ctx))
	}
	return nil
}
