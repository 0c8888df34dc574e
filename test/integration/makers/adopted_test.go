package makers_test

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// adopted are makers that write no PodGroup: Muster makes them.
var adopted = []maker{
	{name: "bare-pods", together: 1, finite: true, stages: []stage{{3, bare("pod", noOwner)}}},
	{name: "replicaset", together: 2, stages: []stage{{4, makeReplicaSet}}},
	{name: "deployment", together: 3, rollout: rollDeployment, stages: []stage{{3, makeDeployment}}},
	{name: "statefulset", together: 3, rollout: rollStatefulSet, stages: []stage{{3, makeStatefulSet}}},
	{name: "daemonset", together: 1, stages: []stage{{3, makeDaemonSet}}},
	{name: "job", together: 3, finite: true, batchJob: true, stages: []stage{{3, makeJob("job", batchv1.NonIndexedCompletion)}}},
	{name: "indexed-job", together: 3, finite: true, batchJob: true, stages: []stage{{3, makeJob("job", batchv1.IndexedCompletion)}}},
	{name: "unknown-owner", together: 1, finite: true, mixes: true, stages: []stage{{3, bare("pod", customOwner)}}},
	{name: "flyte", together: 1, finite: true, mixes: true, stages: []stage{{1, bare("n0", customOwner)}, {2, bare("n1", customOwner)}}},
	{name: "argo", together: 1, finite: true, mixes: true, stages: []stage{{3, bare("step", customOwner)}}},
}

func makeReplicaSet(ctx context.Context, i *instance, pods int) error {
	meta, selector := i.metaOf("rs")
	_, err := env.Kube.AppsV1().ReplicaSets(i.c.name).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To(int32(pods)), Selector: selector, Template: i.template("rs", corev1.RestartPolicyAlways),
	}}, metav1.CreateOptions{})
	return err
}

func makeDeployment(ctx context.Context, i *instance, pods int) error {
	meta, selector := i.metaOf("deploy")
	_, err := env.Kube.AppsV1().Deployments(i.c.name).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(pods)), Selector: selector, Template: i.template("deploy", corev1.RestartPolicyAlways),
	}}, metav1.CreateOptions{})
	return err
}

func makeStatefulSet(ctx context.Context, i *instance, pods int) error {
	meta, selector := i.metaOf("sts")
	_, err := env.Kube.AppsV1().StatefulSets(i.c.name).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(pods)), Selector: selector, PodManagementPolicy: appsv1.ParallelPodManagement,
		Template: i.template("sts", corev1.RestartPolicyAlways),
	}}, metav1.CreateOptions{})
	return err
}

// makeDaemonSet makes one for some of the nodes, which then have a label of the instance.
func makeDaemonSet(ctx context.Context, i *instance, pods int) error {
	label := "makers/" + i.c.short + "-" + i.name
	nodes, err := env.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items[:pods] {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, label)
		if _, err := env.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	meta, selector := i.metaOf("ds")
	template := i.template("ds", corev1.RestartPolicyAlways)
	template.Spec.NodeSelector = map[string]string{label: ""}
	_, err = env.Kube.AppsV1().DaemonSets(i.c.name).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
		Selector: selector, Template: template,
	}}, metav1.CreateOptions{})
	return err
}

// rolled changes the template of an owner.
var rolled = []byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"true"}}}}}`)

func rollDeployment(ctx context.Context, i *instance) error {
	_, err := env.Kube.AppsV1().Deployments(i.c.name).Patch(ctx, i.name+"-deploy", types.StrategicMergePatchType, rolled, metav1.PatchOptions{})
	return err
}

func rollStatefulSet(ctx context.Context, i *instance) error {
	_, err := env.Kube.AppsV1().StatefulSets(i.c.name).Patch(ctx, i.name+"-sts", types.StrategicMergePatchType, rolled, metav1.PatchOptions{})
	return err
}

// roll has all pods replaced by their controller. A Deployment has one pod more meanwhile.
func roll(c *cell) {
	n := c.maker.pods()
	c.addQueue(c.name, n+1)
	i := c.start("a")
	c.runs()
	all.ask(func() { c.record.allMayGo = true })
	require.NoError(c, c.maker.rollout(c.ctx, i))
	c.await("all pods are replaced", func() bool {
		replaced := i.pods(func(pod *corev1.Pod) bool { return pod.Annotations["rolled"] != "" && isBound(pod) })
		return len(replaced) == n && len(c.record.pods) == n
	})
	all.ask(func() { c.record.allMayGo = false })
	c.runs()
}

// mix has the pods of one owner name two queues, of which one is closed.
func mix(c *cell) {
	n := c.maker.pods()
	other := c.name + otherQueue
	c.addQueue(c.name, n)
	c.addQueue(other, n)
	c.order(other, busv1alpha1.CloseQueueAction, 0)
	i := c.newInstance("a", c.maker)
	i.mixed = true
	i.startPods()
	c.rest(n-i.inOtherQueue(), closed)
	c.order(other, busv1alpha1.OpenQueueAction, n)
	c.runs()
	c.queueSays(c.name, int64(n-i.inOtherQueue()))
	c.queueSays(other, int64(i.inOtherQueue()))
}

// inOtherQueue is how many pods of a mixed instance name the cell's other queue. It is all but the first of each stage.
func (i *instance) inOtherQueue() int { return i.maker.pods() - len(i.maker.stages) }
