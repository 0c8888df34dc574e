package tenants_test

// accounts are tries to change what pods are charged to, to free it, or to use more than is charged.
var accounts = []row{
	// Only who binds pods writes their accounts.
	{name: "a pod with an account", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red, muster.sh/charged-to: $blue}}}`), refused: "are written by the scheduler"},
	{name: "a pod with an empty account", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red, muster.sh/charged-to: ""}}}`), refused: "are written by the scheduler"},
	{name: "a pod with a PodGroup that it was bound for", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red, muster.sh/bound-for: a}}}`),
		refused: "are written by the scheduler"},
	{name: "a pod with a place in the network", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red, muster.sh/topology-path: a/b}}}`),
		refused: "are written by the scheduler"},
	{name: "a place in the network that is changed", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {muster.sh/topology-path: a/b}}`)),
		refused: "are written by the scheduler", held: uses("1")},
	{name: "an account that moves", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {muster.sh/charged-to: $blue}}`)),
		refused: "are written by the scheduler", held: uses("1")},
	{name: "an account that is removed", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {muster.sh/charged-to: null}}`)),
		refused: "are written by the scheduler", held: uses("1")},
	{name: "a PodGroup that a pod was bound for, removed", try: after(creates(gang), runs("try-task-0-0"),
		patches("Pod", "try-task-0-0", `metadata: {annotations: {muster.sh/bound-for: null}}`)), refused: "are written by the scheduler", held: uses("2")},
	{name: "an account by the status", try: after(creates(inQueue), runs("try"),
		patches("Pod", "try", `metadata: {annotations: {muster.sh/charged-to: $blue}}`, "status")), refused: "cannot patch resource", held: uses("1")},
	{name: "an account by ephemeral containers", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `{metadata: {annotations: {muster.sh/charged-to: $blue}},
		spec: {ephemeralContainers: [{name: a, image: a}]}}`, "ephemeralcontainers")), refused: "cannot patch resource", held: uses("1")},
	{name: "an account by a binding", try: after(creates(gated), func(c *court) error {
		binding := parse(c.text(`{apiVersion: v1, kind: Binding, metadata: {annotations: {muster.sh/charged-to: $blue}}, target: {kind: Node, name: node-0}}`))[0]
		_, err := c.red.in(gvrOf("Pod"), "").Create(c.ctx, binding, noOptions, "binding")
		return err
	}), refused: "cannot create resource", held: nothingStarts},
	{name: "an account in a Job's template", try: after(creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 1, template: {metadata: {annotations: {muster.sh/charged-to: $blue}}}}]}}`),
		runs("try-task-0-0")), held: both(uses("1"), charged("try-task-0-0", "$red"))},
	{name: "an account in a Deployment's template", try: creates(`{kind: Deployment, spec: {replicas: 1, template: {metadata: {annotations: {scheduling.volcano.sh/queue-name: $red, muster.sh/charged-to: $blue}}}}}`),
		held: both(replicasRefused("are written by the scheduler"), nothingStarts)},

	// An account stays until the pod has ended.
	{name: "a PodGroup that is deleted", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`), creates(member), runs("try"),
		removes("PodGroup", "try")), held: uses("1")},
	{name: "the PodGroup of a Job that is deleted", try: after(creates(gang), runs("try-task-0-0"), func(c *court) error { return c.red.remove(c.ctx, "PodGroup", c.groupOf("try")) }),
		held: uses("2")},
	{name: "a PodGroup that loses its user", try: after(creates(`{kind: PodGroup, metadata: {labels: {muster.sh/user: $red}}, spec: {queue: $red, minMember: 1}}`),
		creates(member), runs("try"), patches("PodGroup", "try", `metadata: {labels: {muster.sh/user: null}}`)), refused: "a PodGroup that has started keeps its user",
		held: both(uses("1"), charged("try", "$red/$red"))},
	{name: "the end of a pod by its status", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `status: {phase: Succeeded}`, "status")),
		refused: "cannot patch resource", held: uses("1")},

	// A queue holds no more than its capability, whatever its pods and Jobs say later.
	{name: "a Job that grows beyond its queue", try: after(creates(gang), runs("try-task-0-0", "try-task-0-1"), patches("Job", "try", `spec: {minAvailable: 20, tasks: [{name: task-0, replicas: 20, minAvailable: 20, template: {spec: {restartPolicy: Never,
		containers: [{name: main, image: main, resources: {requests: {cpu: "1"}}}]}}}]}`), creates(`{kind: Job, metadata: {name: more}, spec: {queue: $red, tasks: [{replicas: 2}]}}`), runs("more-task-0-0"))},
	{name: "a queue that is filled twice", try: after(creates(full), runs("try-task-0-7"), func(c *court) error {
		for i := range 8 {
			_ = c.red.patch(c.ctx, "Pod", "try-task-0-"+string(rune('0'+i)), `metadata: {annotations: {scheduling.k8s.io/group-name: null, scheduling.volcano.sh/queue-name: null}, labels: {primehub.io/group: null}}`)
		}
		return nil
	}, creates(`{kind: Job, metadata: {name: more}, spec: {queue: $red, tasks: [{replicas: 8}]}}`)), held: both(says("more", "8 needed"), uses("8"))},
	{name: "pods of the default scheduler that fill twice", try: after(creates(`{kind: Deployment, spec: {replicas: 8, template: {metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}}}}`), afterUses("8"),
		patches("Deployment", "try", `spec: {replicas: 16}`)), held: uses("8")},
	{name: "a pod that names a queue and leaves it", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {scheduling.volcano.sh/queue-name: null}}`)),
		refused: "scheduling.volcano.sh/queue-name]", held: uses("1")},

	// No pod starts beside the queues.
	{name: "a system-critical pod", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		priorityClassName: system-cluster-critical}}`), refused: "may use class system-cluster-critical"},
	{name: "a node-critical pod", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {
		priorityClassName: system-node-critical}}`), refused: "may use class system-node-critical"},
	{name: "a system-critical Job", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 2, template: {spec: {priorityClassName: system-cluster-critical}}}]}}`),
		held: both(says("try", "may use class system-cluster-critical"), nothingStarts)},
	{name: "a pod on a node", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {nodeName: node-0}}`),
		refused: "spec.nodeName: pods of this namespace are bound by a scheduler"},
	{name: "a pod of an absurd amount on a node", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {nodeName: node-0,
		containers: [{name: a, image: a, resources: {requests: {cpu: 9E, memory: 7Ei}}}]}}`), refused: "spec.nodeName"},
	{name: "a Job of pods on a node", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 8, template: {spec: {nodeName: node-0}}}]}}`),
		held: both(says("try", "spec.nodeName"), nothingStarts)},
	{name: "a Deployment of pods on a node", try: creates(`{kind: Deployment, spec: {replicas: 1, template: {metadata: {annotations: {
		scheduling.volcano.sh/queue-name: $red}}, spec: {nodeName: node-0}}}}`), held: both(replicasRefused("spec.nodeName"), nothingStarts)},
	{name: "a forged PodGroup with a pod on a node", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 10, minResources: {cpu: 60}}}`),
		creates(`{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: try}}, spec: {nodeName: node-0,
		containers: [{name: a, image: a, resources: {requests: {cpu: 10m}}}]}}`)), refused: "spec.nodeName", held: othersGetTheirShare},

	// No kubelet takes what its node does not have, so it fills no queue.
	{name: "an absurd amount on a node without a kubelet", try: after(deadNode, byAdmin(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {
		nodeName: $red-dead, containers: [{name: a, image: a, resources: {requests: {cpu: 9E, memory: 7Ei}}}]}}`)), held: both(uses("0"), othersGetTheirShare)},
	{name: "a gang on a node without a kubelet", try: after(deadNode, creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`), byAdmin(`{kind: Pod, metadata: {annotations: {
		scheduling.k8s.io/group-name: try}}, spec: {nodeName: $red-dead, containers: [{name: a, image: a, resources: {requests: {cpu: 60}}}]}}`)),
		held: both(uses("0"), othersGetTheirShare)},

	// Forged records.
	{name: "the status of a PodGroup", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`),
		patches("PodGroup", "try", `status: {phase: Running}`, "status")), refused: "cannot patch resource"},
	{name: "the status of a Job", try: after(creates(gang), patches("Job", "try", `status: {state: {phase: Completed}}`, "status")), refused: "cannot patch resource"},
	{name: "the status of a queue", try: patches("Queue", "$red", `status: {allocated: {cpu: 0}}`, "status"), refused: "cannot patch resource"},
	{name: "a version of a PodGroup that never comes", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`), creates(`{kind: Pod, metadata: {annotations: {
		scheduling.k8s.io/group-name: try, muster.sh/podgroup-resource-version: "18446744073709551615"}}, spec: {schedulerName: muster}}`))},

	// Amounts.
	{name: "a pod that asks for all cpu there is", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		containers: [{name: a, image: a, resources: {requests: {cpu: "9223372036854775807"}}}]}}`), held: waits("try", "which no cluster has")},
	{name: "two containers whose sum overflows", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		containers: [{name: a, image: a, resources: {requests: {memory: 8Ei, cpu: 9E}}}, {name: b, image: b, resources: {requests: {memory: 8Ei, cpu: 9E}}}]}}`),
		held: waits("try", "which no cluster has")},
	{name: "a negative request", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		containers: [{name: a, image: a, resources: {requests: {cpu: "-1"}}}]}}`), refused: "must be greater than or equal to 0"},
	{name: "a negative request of a Job", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 2, template: {spec: {restartPolicy: Never,
		containers: [{name: a, image: a, resources: {requests: {cpu: "-4"}}}]}}}]}}`), refused: "must be greater than or equal to 0"},
	{name: "negative minResources", try: creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1, minResources: {cpu: "-100", pods: "-100"}}}`)},
	{name: "minResources that overflow", try: creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1, minResources: {cpu: 9E, memory: 9E, pods: 9E, example.com/a: 9E}}}`)},
	{name: "a minimum that is never reached", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 2147483647}}`), creates(member)), held: nothingStarts},
	{name: "a Job of too many pods", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 2147483647}, {replicas: 2147483647}]}}`), refused: "150000"},
	{name: "pods of a Job beyond the capability", try: creates(`{kind: Job, spec: {queue: $red, minAvailable: 1, tasks: [{replicas: 20}]}}`), held: uses("8")},
	{name: "the room of a whole pod", try: after(creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		resources: {requests: {cpu: "4"}}}}`), runs("try")), held: uses("4")},
	{name: "containers that start before others", try: after(creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
		initContainers: [{name: a, image: a, restartPolicy: Always, resources: {requests: {cpu: "2"}}}, {name: b, image: b, resources: {requests: {cpu: "5"}}}]}}`), runs("try")),
		held: uses("7")},
	{name: "a pod that grows while it runs", try: after(creates(inQueue), runs("try"),
		patches("Pod", "try", `spec: {containers: [{name: main, image: main, resources: {requests: {cpu: "20"}}}]}`, "resize")), refused: "cannot patch resource", held: uses("1")},
}

// member is a pod of the PodGroup try.
const member = `{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: try}}, spec: {schedulerName: muster}}`

// gated is a pod of red's queue that no scheduler tries.
const gated = `{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster,
	schedulingGates: [{name: example.com/never}]}}`
