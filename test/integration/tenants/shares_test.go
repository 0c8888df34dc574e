package tenants_test

// shares are tries to keep, or to take, what is others'. In the end blue and green must get their whole shares at the same time.
var shares = []row{
	// Room that was borrowed is taken back.
	{name: "a gang beyond its share", try: after(creates(full), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "a gang beyond its share with a disruption budget", try: after(creates(`{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 100%, selector: {}}}`),
		creates(full), runs("try-task-0-7")), held: othersGetTheirShare},
	{name: "borrowed by a forged DaemonSet", try: func(c *court) error {
		c.must(c.red.create(c.ctx, `{kind: DaemonSet, spec: {template: {spec: {nodeSelector: {a: b}}}}}`))
		for _, i := range "01234567" {
			c.must(c.red.create(c.ctx, c.text(`{kind: Pod, metadata: {name: try-`+string(i)+`, annotations: {scheduling.volcano.sh/queue-name: $red},
				ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: try, uid: `+c.uid("DaemonSet", "try")+`, controller: true}]}, spec: {schedulerName: muster}}`)))
		}
		return nil
	}, held: both(uses("8"), othersGetTheirShare)},

	// PodGroups whose pods do not come hold no room that others deserve.
	{name: "a phantom PodGroup", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1, minResources: {cpu: 8}}}`), admitted("try")), held: othersGetTheirShare},
	{name: "a phantom PodGroup with a small pod", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 8, minResources: {cpu: 8}}}`), creates(small), admitted("try")), held: othersGetTheirShare},
	{name: "a phantom PodGroup that waits no time", try: after(creates(`{kind: PodGroup, metadata: {annotations: {volcano.sh/sla-waiting-time: 1s}}, spec: {queue: $red, minMember: 16, minResources: {cpu: 16}}}`), creates(small)), held: othersGetTheirShare},
	{name: "many phantom PodGroups", try: func(c *court) error {
		for _, i := range "01234567" {
			c.must(c.red.create(c.ctx, c.text(`{kind: PodGroup, metadata: {name: try-`+string(i)+`, annotations: {volcano.sh/sla-waiting-time: 1s}}, spec: {queue: $red, minMember: 1, minResources: {cpu: 8}}}`)))
		}
		return nil
	}, held: othersGetTheirShare},

	// A class is a privilege, and counts only if the pods may have it.
	{name: "a class of the Job", try: after(classRefused, creates(full), runs("try-task-0-7"), creates(`{kind: Job, metadata: {name: more}, spec: {queue: $red, priorityClassName: court-high, tasks: [{replicas: 8}]}}`)),
		held: both(uses("8"), says("more", "exceeded quota"))},
}

// small is a pod of the PodGroup try that asks for next to nothing.
const small = `{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: try}}, spec: {schedulerName: muster,
	containers: [{name: a, image: a, resources: {requests: {cpu: 10m}}}]}}`
