// Package upstream has everything that reaches beyond the plugin interfaces of kube-scheduler. It has the changes of muster-scheduler to the
// upstream scheduler, each with the reason why a plugin cannot make it. It also has helpers of upstream that are not published as a library.
// docs/plain-scheduler.md lists what each adds.
package upstream

import "k8s.io/kubernetes/pkg/apis/scheduling"

// IsCritical says whether a pod of a priority is critical for the cluster: no reservation holds it off.
func IsCritical(priority int32) bool { return priority >= scheduling.SystemCriticalPriority }
