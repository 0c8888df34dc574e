// Package watch follows the objects that describe the network. These are HyperNodes, NetworkTopologies and the Topologies of Kueue. Each kind
// may be missing from the API, and may come later.
package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions/muster/v1alpha1"
	topologyinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/topology"
)

// Kueue are the versions of Kueue's Topology that are understood. An API server may serve several, with the same objects.
var Kueue = []schema.GroupVersionResource{
	{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "topologies"},
	{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "topologies"},
}

// KueueKinds are the kinds of lists of Kueue, for clients that keep the API in memory.
func KueueKinds() map[schema.GroupVersionResource]string {
	kinds := map[schema.GroupVersionResource]string{}
	for _, resource := range Kueue {
		kinds[resource] = "TopologyList"
	}
	return kinds
}

// Objects are the objects that describe the network, as the API has them. All methods are safe for concurrent use.
type Objects struct {
	hyperNodes, topologies *source
	kueue                  []*source
}

// source is one kind.
type source struct {
	cache.SharedIndexInformer
	absent atomic.Bool               // the API server does not serve it, or not to us
	failed atomic.Pointer[time.Time] // the first other failure
}

// kueuePatience is how long Topologies of Kueue may fail to be read. Kueue may be half removed, and gangs must not wait for it for ever.
const kueuePatience = 30 * time.Second

// Start follows the objects until the context ends. It returns at once. changed is called for each object that comes, goes or has another
// spec, and must return soon.
func Start(ctx context.Context, muster versioned.Interface, foreign dynamic.Interface, changed func()) (*Objects, error) {
	o := &Objects{
		hyperNodes: &source{SharedIndexInformer: topologyinformers.NewHyperNodeInformer(muster, 0, cache.Indexers{})},
		topologies: &source{SharedIndexInformer: musterinformers.NewNetworkTopologyInformer(muster, 0, cache.Indexers{})},
	}
	for _, resource := range Kueue {
		o.kueue = append(o.kueue, &source{
			SharedIndexInformer: dynamicinformer.NewFilteredDynamicInformer(foreign, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		})
	}
	for _, s := range o.sources() {
		if err := s.prepare(changed); err != nil {
			return nil, fmt.Errorf("watching the objects of the network's topology: %w", err)
		}
		go s.RunWithContext(ctx)
	}
	return o, nil
}

func (o *Objects) sources() []*source {
	return append([]*source{o.hyperNodes, o.topologies}, o.kueue...)
}

func (s *source) prepare(changed func()) error {
	if err := s.SetTransform(dropManagedFields); err != nil {
		return err
	}
	// The reflector tries again, at last every half minute or so. So a kind that is installed later is found.
	err := s.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			s.failed.CompareAndSwap(nil, new(time.Now()))
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		if !s.absent.Swap(true) {
			klog.FromContext(ctx).V(2).Info("A kind of objects of the network's topology cannot be read, will try again", "kind", r.TypeDescription(), "err", err)
		}
	})
	if err != nil {
		return err
	}
	_, err = s.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(old, obj any) {
			if old.(metav1.Object).GetGeneration() != obj.(metav1.Object).GetGeneration() || old.(metav1.Object).GetUID() != obj.(metav1.Object).GetUID() {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	return err
}

// Synced tells whether each kind has been read, or cannot be. One version of Kueue's is enough, as all have the same objects.
func (o *Objects) Synced() bool { return o.syncedAt(time.Now()) }

func (o *Objects) syncedAt(now time.Time) bool {
	for _, s := range []*source{o.hyperNodes, o.topologies} {
		if !s.HasSynced() && !s.absent.Load() {
			return false
		}
	}
	return slices.ContainsFunc(o.kueue, func(s *source) bool { return s.HasSynced() }) ||
		!slices.ContainsFunc(o.kueue, func(s *source) bool { return !s.absent.Load() && !s.hasFailed(now) })
}

// hasFailed says whether a kind has failed to be read for long.
func (s *source) hasFailed(now time.Time) bool {
	first := s.failed.Load()
	return first != nil && now.Sub(*first) >= kueuePatience
}

// HyperNodes are all HyperNodes, by name.
func (o *Objects) HyperNodes() []topology.HyperNode {
	objects := o.HyperNodeObjects()
	all := make([]topology.HyperNode, len(objects))
	for i, object := range objects {
		all[i], _ = FromHyperNode(object)
	}
	return all
}

// Lists are the lists of labels that name domains: those of NetworkTopologies by name, then those of Kueue by name.
func (o *Objects) Lists() []topology.Labels {
	var all []topology.Labels
	for _, object := range o.NetworkTopologyObjects() {
		if list, _ := FromNetworkTopology(object); len(list.Levels) > 0 {
			all = append(all, list)
		}
	}
	for _, object := range o.KueueObjects() {
		if list, err := fromKueue(object); err == nil && len(list.Levels) > 0 {
			all = append(all, list)
		}
	}
	return all
}

// HyperNodeObjects are all HyperNodes by name, as in the API. They must not be changed.
func (o *Objects) HyperNodeObjects() []*topologyv1alpha1.HyperNode {
	return byName[*topologyv1alpha1.HyperNode](o.hyperNodes)
}

// NetworkTopologyObjects are all NetworkTopologies by name, as in the API. They must not be changed.
func (o *Objects) NetworkTopologyObjects() []*musterv1alpha1.NetworkTopology {
	return byName[*musterv1alpha1.NetworkTopology](o.topologies)
}

// KueueObjects are the Topologies of Kueue by name. An object that is served in two versions counts once.
func (o *Objects) KueueObjects() []*unstructured.Unstructured {
	all := byName[*unstructured.Unstructured](o.kueue...)
	return slices.CompactFunc(all, func(a, b *unstructured.Unstructured) bool { return a.GetName() == b.GetName() })
}

func byName[T metav1.Object](sources ...*source) []T {
	var all []T
	for _, s := range sources {
		for _, object := range s.GetStore().List() {
			all = append(all, object.(T))
		}
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

func dropManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
