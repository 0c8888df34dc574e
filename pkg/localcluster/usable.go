package localcluster

import corev1 "k8s.io/api/core/v1"

// SimulatedNodeTaint is the key of the taint that keeps pods from simulated nodes where the cluster has a real one.
const SimulatedNodeTaint = "muster.sh/simulated-node"

var simulatedTaint = corev1.Taint{Key: SimulatedNodeTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// isUsable says whether pods find a place on a node. It does if it is ready, and has no taint but that of simulated nodes.
func isUsable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if !taint.MatchTaint(&simulatedTaint) {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
