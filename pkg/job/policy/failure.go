package policy

import corev1 "k8s.io/api/core/v1"

// Failure says to people how a failed pod ended.
func Failure(pod *corev1.Pod) string { return failure(pod.Name, exitCode(pod)) }
