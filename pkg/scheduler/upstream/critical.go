package upstream

import "k8s.io/kubernetes/pkg/apis/scheduling"

// SystemCriticalPriority is the priority from which pods are critical for the cluster.
const SystemCriticalPriority = scheduling.SystemCriticalPriority
