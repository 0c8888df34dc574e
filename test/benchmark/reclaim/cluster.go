package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	nativev1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/manifests"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

// A run may take patience, or it counts with that time.
const timeout = 3 * time.Minute

// highPriority is the PriorityClass of gangs that have other pods evicted.
const highPriority = "bench-high"

// bench is a cluster that is measured.
type bench struct {
	*meter.Cluster
	pods *podWatch
	stop context.CancelFunc // of the watch
}

// start brings up a cluster.
func start(ctx context.Context, options localcluster.Options) (*bench, error) {
	cluster, err := meter.Up(ctx, options)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	b := &bench{cluster, newPodWatch(), stop}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: highPriority}, Value: 8888888}
	if _, err = b.Kube.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err == nil {
		err = b.pods.watch(watching, b.Kube)
	}
	if err != nil {
		b.down(ctx)
		return nil, fmt.Errorf("preparing the cluster: %w", err)
	}
	return b, nil
}

func (b *bench) down(ctx context.Context) {
	b.stop()
	b.Down(ctx)
}

// variant is a scheduler with gangs of its own.
type variant struct {
	name    string
	options func(nodes int, cpu string) (localcluster.Options, error)
	// group makes a gang; join makes a pod a member of it.
	group func(ctx context.Context, b *bench, name, queue string, size int) error
	join  func(pod *corev1.Pod, gang string)
}

// gates are the gates of both schedulers. As shipped, they save the write for a node that a pod is expected on.
const gates = "--feature-gates=NominatedNodeNameForExpectation=false"

// ours is muster-scheduler, without muster-controller.
var ours = variant{
	name: "muster",
	options: func(nodes int, cpu string) (localcluster.Options, error) {
		config, err := manifests.FS.ReadFile("scheduler/benchmark.yaml")
		return localcluster.Options{
			Nodes: nodes, NodeCPU: cpu, SchedulerConfig: string(config), Without: []string{localcluster.KWOK, localcluster.MusterController},
			ExtraArgs: map[string][]string{localcluster.MusterScheduler: {gates}},
		}, err
	},
	group: func(ctx context.Context, b *bench, name, queue string, size int) error {
		group := mustertesting.MakePodGroup(name).MinMember(int32(size)).Queue(queue).PriorityClass(highPriority).Obj()
		_, err := b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, group, metav1.CreateOptions{})
		return err
	},
	join: func(pod *corev1.Pod, gang string) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulingv1beta1.GroupNameAnnotation, gang)
	},
}

const nativeConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
`

// native is the upstream scheduler with its own gangs and workload-aware preemption.
var native = variant{
	name: "native",
	options: func(nodes int, cpu string) (localcluster.Options, error) {
		const gate = "--feature-gates=GenericWorkload=true"
		return localcluster.Options{
			Nodes: nodes, NodeCPU: cpu, Scheduler: localcluster.KubeScheduler, SchedulerConfig: nativeConfig,
			Without: []string{localcluster.KWOK, localcluster.MusterController},
			ExtraArgs: map[string][]string{
				localcluster.KubeAPIServer:         {gate, "--runtime-config=scheduling.k8s.io/v1beta1=true"},
				localcluster.KubeControllerManager: {gate},
				localcluster.KubeScheduler:         {gates + ",GenericWorkload=true"},
			},
		}, nil
	},
	group: func(ctx context.Context, b *bench, name, _ string, size int) error {
		group := &nativev1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		group.Spec.PriorityClassName = highPriority
		group.Spec.SchedulingPolicy.Gang = &nativev1beta1.GangSchedulingPolicy{MinCount: int32(size)}
		_, err := b.Kube.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, group, metav1.CreateOptions{})
		return err
	},
	join: func(pod *corev1.Pod, gang string) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(gang)}
	},
}

// up starts a cluster for a variant.
func (v variant) up(ctx context.Context, nodes int, cpu string) (*bench, error) {
	options, err := v.options(nodes, cpu)
	if err != nil {
		return nil, err
	}
	return start(ctx, options)
}

// podOn is a pod that has room on a node already, in a queue or in none.
func podOn(name, queue string, node int, requests ...string) *corev1.Pod {
	pod := mustertesting.MakePod(name).Label(roleLabel, runs).Requests(requests...).Node(localcluster.NodeNamePrefix + strconv.Itoa(node))
	if queue != "" {
		pod = pod.QueueName(queue)
	}
	return atOnce(pod.Obj())
}

// atOnce makes a pod one that goes as soon as it is deleted. How long pods take to end is no figure of the scheduler's. Its limits are its
// requests, as devices ask for.
func atOnce(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
	return pod
}

// create creates many pods at a time. It takes pods with a node as a kubelet does. Before that a pod is charged to no queue.
func (b *bench) create(ctx context.Context, pods []*corev1.Pod) error {
	client := b.Kube.CoreV1().Pods(corev1.NamespaceDefault)
	return meter.InParallel(ctx, len(pods), func(i int) error {
		pod, err := client.Create(ctx, pods[i], metav1.CreateOptions{})
		if err != nil || pod.Spec.NodeName == "" {
			return err
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		_, err = client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// fill creates pods that have their nodes, and waits until they are seen.
func (b *bench) fill(ctx context.Context, pods []*corev1.Pod) error {
	if err := b.create(ctx, pods); err != nil {
		return fmt.Errorf("filling the nodes: %w", err)
	}
	return b.pods.await(ctx, "the nodes are full", func() bool { return b.pods.role(runs).bound == len(pods) })
}

// empty deletes all gangs and pods.
func (b *bench) empty(ctx context.Context, v variant) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).DeleteCollection(ctx, now, metav1.ListOptions{})
	if err == nil && v.name == native.name {
		err = b.Kube.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).DeleteCollection(ctx, now, metav1.ListOptions{})
	} else if err == nil {
		err = b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).DeleteCollection(ctx, now, metav1.ListOptions{})
	}
	if err != nil {
		return fmt.Errorf("emptying the cluster: %w", err)
	}
	return b.pods.await(ctx, "all pods are gone", b.pods.isEmpty)
}

// submit creates gangs and their pods, and returns when the first was asked for.
func (b *bench) submit(ctx context.Context, v variant, queue, cpu string, gangs, size int) (time.Time, error) {
	begun := time.Now()
	var pods []*corev1.Pod
	for g := range gangs {
		name := "gang-" + strconv.Itoa(g)
		if err := v.group(ctx, b, name, queue, size); err != nil {
			return begun, fmt.Errorf("creating a gang: %w", err)
		}
		for i := range size {
			pod := mustertesting.MakePod(fmt.Sprintf("%s-%d", name, i)).Label(roleLabel, waits).Requests("cpu", cpu, "memory", "100Mi").
				PriorityClass(highPriority).Obj()
			v.join(pod, name)
			pods = append(pods, atOnce(pod))
		}
	}
	if err := b.create(ctx, pods); err != nil {
		return begun, fmt.Errorf("creating the pods of gangs: %w", err)
	}
	return begun, nil
}

// A part of the cluster is at rest when it writes no more than restWrites in restFor, its lease included.
const (
	restFor    = 2 * time.Second
	restWrites = 2
)

// settle waits until parts of the cluster are at rest.
func (b *bench) settle(ctx context.Context, parts ...string) error {
	last := map[string]float64{}
	err := wait.PollUntilContextCancel(ctx, restFor, true, func(ctx context.Context) (bool, error) {
		atRest := len(last) > 0
		for _, part := range parts {
			metrics, err := b.Metrics(ctx, part)
			if err != nil {
				return false, err
			}
			atRest = atRest && metrics.Writes()-last[part] <= restWrites
			last[part] = metrics.Writes()
		}
		return atRest, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the cluster is at rest: %w", err)
	}
	return nil
}
