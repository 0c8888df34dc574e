package admission

// Names of the bases.
const (
	Job      = "job"
	PodGroup = "podgroup"
	Queue    = "queue"
	Root     = "root queue"
	Pod      = "pod"
)

// Bases are valid objects, by name, which cases change.
var Bases = map[string]string{
	Job: `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: small}
spec: {tasks: [{name: main, replicas: 2, template: {spec: {containers: [{name: main, image: main}]}}}]}
`,
	PodGroup: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: small}
spec: {minMember: 1}
`,
	Pod: `
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: main, image: main}]}
`,
	Queue: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {weight: 1}
`,
	Root: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root, labels: {muster.sh/takes-no-jobs: parent}}
spec: {weight: 1, reclaimable: false}
`,
	HyperNode: `
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: small}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: node-0}}}]}
`,
	NetworkTopology: `
apiVersion: muster.sh/v1alpha1
kind: NetworkTopology
metadata: {name: small}
spec: {levels: [{nodeLabel: spine}, {nodeLabel: example.com/leaf}]}
`,
}

// Queues are the queues that exist where cases are tried, with their status, in YAML.
var Queues = []string{
	queueNamed("open", `{}`, `{state: Open}`),
	labelled("closed", "closed", `{}`, `{state: Closed}`),
	labelled("closed", "closing", `{}`, `{state: Closing}`),
	labelled("closed", "unknown", `{}`, `{state: Unknown}`),
	queueNamed("new", `{}`, `{}`),
	labelled("parent", "org", `{}`, `{state: Open}`),
	queueNamed("org-team", `{parent: org}`, `{state: Open}`),
	labelled("parent", "limited", `{capability: {cpu: 8, memory: 16Gi}, deserved: {cpu: 4}, guarantee: {resource: {cpu: 2}}}`, `{state: Open}`),
	queueNamed("limited-team", `{parent: limited, capability: {cpu: 4}, deserved: {cpu: 2}, guarantee: {resource: {cpu: 1}}}`, `{state: Open}`),
	queueNamed("working", `{}`, `{state: Open, running: 1, allocated: {pods: 3}}`),
	queueNamed("working-below", `{}`, `{state: Open, allocated: {pods: 3}}`),
	`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: dev, annotations: {
		volcano.sh/hierarchy: root/eng/dev, volcano.sh/hierarchy-weights: 1/2/8}}, status: {state: Open}}`,
}

func queueNamed(name, spec, status string) string { return queueOf("{name: "+name+"}", spec, status) }

// labelled is a queue that takes no Jobs, as the queue controller labels it.
func labelled(why, name, spec, status string) string {
	return queueOf("{name: "+name+", labels: {muster.sh/takes-no-jobs: "+why+"}}", spec, status)
}

func queueOf(metadata, spec, status string) string {
	return `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: ` + metadata + `, spec: ` + spec + `, status: ` + status + `}`
}
