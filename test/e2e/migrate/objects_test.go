package migrate

import (
	"fmt"
	"strings"
)

// shape is a kind of Job as users of Volcano write them, with what is to be said of it.
type shape struct {
	name string
	// result is what `muster migrate check` has to say. It is written here by hand.
	result string
	// meta, spec and task are further lines of the Job.
	meta, spec, task string
}

// shapes are after the features that Volcano's examples show.
var shapes = []shape{
	{"plain", "kept", "", "", ""},
	{"evicted", "kept", "", "policies: [{event: PodEvicted, action: RestartJob}]", ""},
	{"tensorflow", "kept", "", "plugins: {svc: [], env: [], tensorflow: [\"--worker=worker\", \"--port=2222\"]}", ""},
	{"pytorch", "kept", "", "plugins: {svc: [], pytorch: [\"--master=worker\", \"--port=23456\"]}", ""},
	{"exit-code", "kept", "", "policies: [{exitCode: 3, action: TerminateJob}]", ""},
	{"completed", "kept", "", "", "policies: [{event: TaskCompleted, action: CompleteJob}]"},
	{"later", "kept", "", "policies: [{event: PodPending, action: TerminateJob, timeout: 1h}]", ""},
	{"kept-for", "kept", "", "ttlSecondsAfterFinished: 3600", ""},
	{"success", "kept", "", "minSuccess: 1", ""},
	{"waiting-time", "kept", "annotations: {sla-waiting-time: 1h}", "", ""},
	{"any-event", "differs", "", "policies: [{event: \"*\", action: RestartJob}]", ""},
	{"ssh", "differs", "", "plugins: {ssh: [], svc: []}", ""},
	{"zone", "ignored", "annotations: {volcano.sh/revocable-zone: rz1}", "", ""},
	{"numa", "ignored", "", "", "topologyPolicy: best-effort"},
	{"estimate", "kept", "", "runningEstimate: 10m", ""},
	{"topology", "kept", "", "networkTopology: {mode: soft, highestTierAllowed: 1}", ""},
	{"never", "refused", "", "policies: [{event: PodPending, action: RestartJob}]", ""},
	{"no-target", "refused", "", "policies: [{event: Unknown, action: RestartPod}]", ""},
	{"wrong-action", "refused", "", "policies: [{exitCode: 4, action: Restart}]", ""},
	{"claim", "kept", "", "volumes: [{mountPath: /data, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, volumeClaimName: claim-pvc-0123456789ab}]", ""},
}

const (
	queueCount = 30
	jobCount   = 200
)

// jobName is the name of a Job. Its number tells its shape.
func jobName(i int) string { return fmt.Sprintf("%s-%03d", shapes[i%len(shapes)].name, i) }

// namespaceOf is one of five.
func namespaceOf(i int) string { return fmt.Sprintf("team-%d", i/len(shapes)%5) }

// jobText is a Job with the defaults that Volcano's webhooks write.
func jobText(i int, namespace string) string {
	s := shapes[i%len(shapes)]
	lines := []string{
		"apiVersion: batch.volcano.sh/v1alpha1", "kind: Job", "metadata:", "  name: " + jobName(i), "  namespace: " + namespace, "  " + s.meta,
		"spec:", "  schedulerName: volcano", "  minAvailable: 1", "  maxRetry: 3", fmt.Sprintf("  queue: queue-%02d", i%queueCount), "  " + s.spec,
		"  tasks:", "  - name: worker", "    replicas: 1", "    minAvailable: 1", "    maxRetry: 3", "    " + s.task,
		"    template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, resources: {requests: {cpu: 1m}}}]}}",
		"",
	}
	if namespace == "again" { // the name of the claim is of the controller
		lines[11] = strings.Replace(lines[11], ", volumeClaimName: claim-pvc-0123456789ab", "", 1)
	}
	if s.name == "numa" {
		lines[len(lines)-2] = strings.Replace(lines[len(lines)-2], "cpu: 1m", "cpu: 1", 1)
	}
	return strings.Join(lines, "\n")
}

// queueText is a queue. Some have a share, a guarantee or fields that have no effect.
func queueText(i int) (text, result string) {
	spec, result := "weight: 1", "kept"
	switch i % 6 {
	case 1:
		spec = "weight: 4, reclaimable: false"
	case 2:
		spec = "weight: 1, capability: {cpu: 16, memory: 64Gi}"
	case 3:
		spec = "weight: 1, deserved: {cpu: 1}, guarantee: {resource: {cpu: 10m}}"
	case 4:
		spec, result = "weight: 1, type: compute", "ignored"
	}
	return fmt.Sprintf("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: queue-%02d}\nspec: {%s}\n", i, spec), result
}

// programs are what Volcano's installation has beside the CRDs.
const programs = `
apiVersion: v1
kind: Namespace
metadata: {name: volcano-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins: [{name: priority}, {name: gang}, {name: conformance}]
    - plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: volcano-controllers}
rules: [{apiGroups: [batch.volcano.sh], resources: [jobs], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: volcano-controllers-role}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: volcano-controllers}
subjects: [{kind: ServiceAccount, name: volcano-controllers, namespace: volcano-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: volcano-scheduler, namespace: volcano-system}
spec:
  selector: {matchLabels: {app: volcano-scheduler}}
  template:
    metadata: {labels: {app: volcano-scheduler}}
    spec: {containers: [{name: c, image: volcanosh/vc-scheduler}]}
---
`

// webhooks ask a Service that nothing answers. They cover Jobs and pods, as Volcano's do.
const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: volcano-admission-service-jobs-mutate}
webhooks:
- name: mutatejob.volcano.sh
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  sideEffects: NoneOnDryRun
  clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /jobs/mutate}}
  rules: [{apiGroups: [batch.volcano.sh], apiVersions: [v1alpha1], operations: [CREATE], resources: [jobs]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: volcano-admission-service-pods-validate}
webhooks:
- name: validatepod.volcano.sh
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  sideEffects: NoneOnDryRun
  clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /pods/validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`
