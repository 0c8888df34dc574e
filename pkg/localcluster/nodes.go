package localcluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// NodeNamePrefix and a number from 0 make the name of a simulated node.
const NodeNamePrefix = "node-"

// nodeWriters is how many nodes are created at the same time.
const nodeWriters = 8

// AddNodes adds simulated nodes of the cluster's node size, numbered after the existing ones. It waits until they are ready. It returns
// their names.
func (c *Cluster) AddNodes(ctx context.Context, count int) ([]string, error) {
	capacity, err := c.options.nodeCapacity()
	if err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	existing, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if total := len(existing.Items) + count; count < 1 || total > MaxNodes {
		return nil, fmt.Errorf("adding %d nodes: a cluster has at most %d, and at least one must be added", count, MaxNodes)
	}
	first := nextNodeNumber(existing.Items)
	added := make([]string, count)
	creating, creatingCtx := errgroup.WithContext(ctx)
	creating.SetLimit(nodeWriters)
	for i := range count {
		node := simulatedNode(first+i, capacity, c.options.KubernetesVersion)
		if c.options.RealNode {
			node.Spec.Taints = []corev1.Taint{simulatedTaint}
		}
		added[i] = node.Name
		creating.Go(func() error {
			if _, err := client.CoreV1().Nodes().Create(creatingCtx, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	if err := creating.Wait(); err != nil {
		return nil, err
	}
	return added, awaitNodes(ctx, client, added)
}

// nextNodeNumber is the number after the highest that a node has.
func nextNodeNumber(nodes []corev1.Node) int {
	next := 0
	for i := range nodes {
		digits, ours := strings.CutPrefix(nodes[i].Name, NodeNamePrefix)
		if number, err := strconv.Atoi(digits); ours && err == nil && number >= next {
			next = number + 1
		}
	}
	return next
}

// simulatedNode is a node that says it is ready from the start. kwok only keeps it so; without kwok it still serves for scheduling. The
// version is that of its kubelet.
func simulatedNode(number int, capacity corev1.ResourceList, version string) *corev1.Node {
	name := NodeNamePrefix + strconv.Itoa(number)
	now := metav1.Now()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{SimulatedNodeAnnotation: "true"},
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionTrue,
				Reason:             "SimulatedNode",
				Message:            "a simulated node is always ready",
				LastHeartbeatTime:  now,
				LastTransitionTime: now,
			}},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: loopback},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          version,
				OperatingSystem:         "linux",
				Architecture:            "amd64",
				OSImage:                 "simulated",
				ContainerRuntimeVersion: "kwok://simulated",
			},
		},
	}
}

// awaitNodes waits until the scheduler may use the nodes: they are ready and carry no taint.
func awaitNodes(ctx context.Context, client kubernetes.Interface, wanted []string) error {
	ready := 0
	err := wait.PollUntilContextCancel(ctx, 4*pollInterval, true, func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, ignoreOverload(err)
		}
		usable := map[string]bool{}
		for i := range list.Items {
			usable[list.Items[i].Name] = isUsable(&list.Items[i])
		}
		ready = 0
		for _, name := range wanted {
			if usable[name] {
				ready++
			}
		}
		return ready == len(wanted), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for nodes: %d of %d are ready: %w", ready, len(wanted), err)
	}
	return nil
}
