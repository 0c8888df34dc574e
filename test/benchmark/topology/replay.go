package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

const (
	namespace = metav1.NamespaceDefault
	gpus      = "nvidia.com/gpu"
	// tidyEvery is after how many gangs the API server forgets what all watchers have seen.
	tidyEvery = 50
)

// gang is pods that start together and end together.
type gang struct {
	submit, run time.Duration // run is 0 for ever
	pods        int
	requests    []string // of each pod
	// within is how close they must be; nil for a gang without a topology.
	within *schedulingv1beta1.NetworkTopologySpec
	// narrow is how long they keep to one domain of tier 1.
	narrow time.Duration
}

// replay is gangs that come to a network, each as soon as the one before has started.
type replay struct {
	api     *simulation.API
	began   time.Time
	started func(gang int, nodes []string) // sees the nodes of a gang in the order of its ranks
	ended   func(gang int, nodes []string)
	// change changes the shipped profile; nil leaves it.
	change func(*schedulerapi.KubeSchedulerProfile)

	mu      sync.Mutex
	running map[string]*member // by the names of PodGroups
	err     error
}

// member is a gang that is starting or runs.
type member struct {
	gang
	index   int
	nodes   []string // by rank
	bound   int
	started chan struct{}
}

// run replays gangs through the real scheduler in virtual time. describe says whether an object describes the network.
func (r *replay) run(t *testing.T, n *network, describe bool, gangs []gang) error {
	synctest.Test(t, func(*testing.T) { r.err = r.inBubble(n, describe, gangs) })
	return r.err
}

func (r *replay) inBubble(n *network, describe bool, gangs []gang) error {
	r.api, r.began, r.running = simulation.New(), time.Now(), map[string]*member{}
	if err := r.build(n, describe); err != nil {
		return err
	}
	profile, err := simulation.ShippedProfile()
	if err != nil {
		return err
	}
	if r.change != nil {
		r.change(profile)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := simulation.Start(ctx, r.api, simulation.Options{Profile: *profile, Intercept: r.intercept})
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	err = r.play(gangs)
	cancel()
	<-ended
	s.Shutdown()
	return err
}

func (r *replay) build(n *network, describe bool) error {
	for _, node := range n.nodes {
		if err := r.api.Create(simulation.Nodes, node.DeepCopy(), ""); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	queue := mustertesting.MakeQueue("default").Obj()
	queue.UID = "default"
	if err := r.api.Create(simulation.Queues, queue, ""); err != nil {
		return fmt.Errorf("creating the queue: %w", err)
	}
	if !describe {
		return nil
	}
	if err := r.api.Create(musterv1alpha1.SchemeGroupVersion.WithResource("networktopologies"), n.object(), ""); err != nil {
		return fmt.Errorf("creating the NetworkTopology: %w", err)
	}
	return nil
}

// play submits each gang at its time, when the one before has started.
func (r *replay) play(gangs []gang) error {
	for i := range gangs {
		time.Sleep(time.Until(r.began.Add(gangs[i].submit))) // virtual time: the bubble goes on at once
		m, err := r.submit(i, gangs[i])
		if err != nil {
			return err
		}
		<-m.started
		if i%tidyEvery == 0 {
			synctest.Wait()
			r.api.Forget()
		}
	}
	return nil
}

// submit creates the PodGroup of a gang, admitted, and its pods with their ranks.
func (r *replay) submit(i int, g gang) (*member, error) {
	name := fmt.Sprintf("gang-%05d", i)
	group := mustertesting.MakePodGroup(name).MinMember(int32(g.pods)).Queue("default").Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	group.UID, group.CreationTimestamp, group.Spec.NetworkTopology = types.UID(name), metav1.Now(), g.within
	if g.narrow > 0 {
		group.Annotations = map[string]string{schedulingv1beta1.NarrowTopologyAnnotation: "1@" + g.narrow.String()}
	}
	m := &member{gang: g, index: i, nodes: make([]string, g.pods), started: make(chan struct{})}
	r.mu.Lock()
	r.running[name] = m
	r.mu.Unlock()
	if err := r.api.Create(simulation.PodGroups, group, namespace); err != nil {
		return nil, fmt.Errorf("creating a PodGroup: %w", err)
	}
	for rank := range g.pods {
		pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", name, rank)).SchedulerName("muster").Group(name).Task("worker").
			Annotation(batchv1alpha1.TaskIndexKey, fmt.Sprint(rank)).Requests(g.requests...).Obj()
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(pod.Name), metav1.Now(), corev1.PodPending
		if err := r.api.Create(simulation.Pods, pod, namespace); err != nil {
			return nil, fmt.Errorf("creating a pod: %w", err)
		}
	}
	return m, nil
}

// intercept sees each binding. The last one of a gang starts it.
func (r *replay) intercept(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
	if err := r.api.Bind(binding); err != nil {
		return true, nil, err
	}
	return true, nil, r.bound(binding)
}

func (r *replay) bound(binding *corev1.Binding) error {
	object, err := r.api.Get(simulation.Pods, namespace, binding.Name)
	if err != nil {
		return err
	}
	pod, rank := object.(*corev1.Pod), 0
	if _, err := fmt.Sscan(pod.Annotations[batchv1alpha1.TaskIndexKey], &rank); err != nil {
		return fmt.Errorf("reading the rank of %s: %w", pod.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	m := r.running[name]
	m.nodes[rank] = binding.Target.Name
	if m.bound++; m.bound < m.pods {
		return nil
	}
	if r.started != nil {
		r.started(m.index, slices.Clone(m.nodes))
	}
	close(m.started)
	if m.run > 0 {
		time.AfterFunc(m.run, func() { r.end(name, m) })
	}
	return nil
}

// end has all members of a gang succeed, and removes them.
func (r *replay) end(name string, m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		r.ended(m.index, m.nodes)
	}
	for rank := range m.pods {
		if err := r.api.Delete(simulation.Pods, namespace, fmt.Sprintf("%s-%d", name, rank)); err != nil {
			panic(err)
		}
	}
	if err := r.api.Delete(simulation.PodGroups, namespace, name); err != nil {
		panic(err)
	}
	delete(r.running, name)
}
