package tenants_test

// shares are tries to keep, or to take, what is others'. In the end blue and green must get their whole shares at the same time.
var shares = []row{
	// Room that was borrowed is taken back.
	{name: "a gang beyond its share", try: after(creates(full), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "a gang beyond its share with a disruption budget", try: after(creates(`{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 100%, selector: {}}}`),
		creates(full), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed and never preemptable", try: after(creates(borrowed(`volcano.sh/preemptable: "false"`)), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed and cooling down", try: after(creates(borrowed(`volcano.sh/cooldown-time: 1000000h`)), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed by a real DaemonSet", try: after(creates(`{kind: DaemonSet, spec: {template: {metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}}}}`), afterUses("6")), held: othersGetTheirShare},
	{name: "borrowed and not preemptable by a label", try: after(creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 8,
		template: {metadata: {labels: {volcano.sh/preemptable: "false"}}}}]}}`), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed by a Job that is not preemptable", try: after(creates(`{kind: Job, metadata: {annotations: {volcano.sh/preemptable: "false",
		volcano.sh/cooldown-time: 1000000h}}, spec: {queue: $red, tasks: [{replicas: 8}]}}`), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed with a grace period of years", try: after(creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 8, template: {spec: {terminationGracePeriodSeconds: 1000000000}}}]}}`),
		runs("try-task-0-7")), held: othersGetTheirShare}, // the record knows the grace period
	{name: "borrowed with a high priority", try: after(class, creates(`{kind: Job, spec: {queue: $red, priorityClassName: court-high, tasks: [{replicas: 8}]}}`),
		runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed by surplus", try: after(creates(`{kind: Job, spec: {queue: $red, minAvailable: 1, tasks: [{replicas: 20}]}}`), afterUses("8")), held: othersGetTheirShare},
	{name: "borrowed by many small gangs", try: after(repeats(30, `{kind: Job, metadata: {name: try-$i}, spec: {queue: $red, tasks: [{replicas: 1}]}}`), afterUses("8")),
		held: othersGetTheirShare},
	{name: "borrowed by pods that wait for each other", try: after(creates(full), runs("try-task-0-7"), repeats(5, `{kind: Job, metadata: {name: try-$i}, spec: {queue: $red,
		tasks: [{replicas: 100, template: {spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 80m}}}]}}}]}}`)), held: othersGetTheirShare},
	{name: "borrowed by a forged DaemonSet", try: func(c *court) error {
		c.must(c.red.create(c.ctx, `{kind: DaemonSet, spec: {template: {spec: {nodeSelector: {a: b}}}}}`))
		return repeats(8, `{kind: Pod, metadata: {name: try-$i, annotations: {scheduling.volcano.sh/queue-name: $red},
			ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: try, uid: `+c.uid("DaemonSet", "try")+`, controller: true}]}}`)(c)
	}, held: both(uses("8"), othersGetTheirShare)},

	// PodGroups whose pods do not come hold no room that others deserve.
	{name: "a phantom PodGroup", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1, minResources: {cpu: 8}}}`), admitted("try")), held: othersGetTheirShare},
	{name: "a phantom PodGroup with a small pod", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 8, minResources: {cpu: 8}}}`), creates(small), admitted("try")), held: othersGetTheirShare},
	{name: "a phantom PodGroup that waits no time", try: after(creates(`{kind: PodGroup, metadata: {annotations: {volcano.sh/sla-waiting-time: 1s}}, spec: {queue: $red, minMember: 16, minResources: {cpu: 16}}}`), creates(small)), held: othersGetTheirShare},
	{name: "many phantom PodGroups", try: repeats(8, `{kind: PodGroup, metadata: {name: try-$i, annotations: {volcano.sh/sla-waiting-time: 1s}},
		spec: {queue: $red, minMember: 1, minResources: {cpu: 8}}}`), held: othersGetTheirShare},
	{name: "room for executors that never come", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1, minResources: {cpu: 8}}}`), creates(small), runs("try")),
		held: othersGetTheirShare},
	{name: "a Job beyond its queue that waits no time", try: creates(`{kind: Job, metadata: {annotations: {volcano.sh/sla-waiting-time: 1s}}, spec: {queue: $red,
		tasks: [{replicas: 8}, {replicas: 8}]}}`), held: both(nothingStarts, othersGetTheirShare)},
	{name: "a Job that is suspended", try: creates(`{kind: Job, spec: {queue: $red, suspend: true, tasks: [{replicas: 8}]}}`), held: both(nothingStarts, othersGetTheirShare)},

	// Room on a node that red waits for keeps no one out who is within the share. Each of these rows has a node of its own.
	{name: "room on a node that its own pod keeps", try: after(creates(onNode("first", "$red", "node-5", "200Gi")), runs("first-task-0-0"),
		creates(onNode("try", "$red", "node-5", "200Gi")), creates(many), afterUses("2100m")), held: othersRunOn("node-5")},
	{name: "room on a node for a high priority", try: after(class, creates(onNode("first", "$red", "node-4", "200Gi")), runs("first-task-0-0"),
		creates(`{kind: Job, spec: {queue: $red, priorityClassName: court-high, tasks: [{replicas: 3, template: {spec: {nodeSelector: {kubernetes.io/hostname: node-4},
			containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: 100Gi}}}]}}}]}}`)), held: both(othersRunOn("node-4"), stillRuns("first-task-0-0"))},

	// Pods outside all queues go only for a higher priority.
	{name: "a service outside the queues", try: after(service("node-3"), creates(onNode("try", "$red", "node-3", "200Gi"))),
		held: both(nothingStarts, serviceRuns)},
	{name: "a service, and a queue above its share", try: after(service("node-2"), greenBorrows("node-2"), creates(onNode("try", "$red", "node-2", "100Gi")), runs("try-task-0-0")),
		held: serviceRuns},

	// A class is a privilege, and counts only if the pods may have it.
	{name: "a class of the PodGroup", try: after(classRefused, creates(full), runs("try-task-0-7"), creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1,
		priorityClassName: court-high}}`), creates(member)), held: both(uses("8"), waits("try", "needed"))},
	{name: "a class of the Job", try: after(classRefused, creates(full), runs("try-task-0-7"), creates(`{kind: Job, metadata: {name: more}, spec: {queue: $red, priorityClassName: court-high, tasks: [{replicas: 8}]}}`)),
		held: both(uses("8"), says("more", "exceeded quota"))},
}

// small is a pod of the PodGroup try that asks for next to nothing.
const small = `{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: try}}, spec: {schedulerName: muster,
	containers: [{name: a, image: a, resources: {requests: {cpu: 10m}}}]}}`

// borrowed is a Job that fills red's queue, with an annotation on its pods.
func borrowed(annotation string) string {
	return `{kind: Job, spec: {queue: $red, tasks: [{replicas: 8, template: {metadata: {annotations: {` + annotation + `}}}}]}}`
}

// onNode is a Job of one pod that asks for a node's memory. No queue limits memory.
func onNode(name, queue, node, memory string) string {
	return `{kind: Job, metadata: {name: ` + name + `}, spec: {queue: ` + queue + `, tasks: [{replicas: 1, template: {spec: {nodeSelector: {kubernetes.io/hostname: ` + node + `},
		containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: ` + memory + `}}}]}}}]}}`
}

// many is a Job of more small pods than may bypass a gang that waits for room.
const many = `{kind: Job, metadata: {name: many}, spec: {queue: $red, minAvailable: 1, tasks: [{replicas: 110, template: {spec: {
	containers: [{name: a, image: a, resources: {requests: {cpu: 10m}}}]}}}]}}`
