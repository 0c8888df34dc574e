package tenants_test

// names are tries to charge a queue, or a user, that is not red's.
var names = []row{
	{name: "a Job in another's queue", try: creates(`{kind: Job, spec: {queue: $blue, tasks: [{replicas: 1}]}}`),
		refused: "spec.queue: $red may not use queue $blue: name another queue"},
	{name: "a Job without a queue", try: creates(`{kind: Job, spec: {tasks: [{replicas: 1}]}}`), refused: "spec.queue: $red may not use queue default"},
	{name: "a Job in the parent", try: creates(`{kind: Job, spec: {queue: $parent, tasks: [{replicas: 1}]}}`), refused: "$parent"},
	{name: "a Job in the root", try: creates(`{kind: Job, spec: {queue: root, tasks: [{replicas: 1}]}}`), refused: "root"},
	{name: "a PodGroup in another's queue", try: creates(`{kind: PodGroup, spec: {queue: $blue}}`), refused: "spec.queue: $red may not use queue $blue"},
	{name: "a PodGroup that moves", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`), patches("PodGroup", "try", `spec: {queue: $blue}`)),
		refused: "spec.queue: $red may not use queue $blue"},
	{name: "a pod that names another's queue", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}}`),
		refused: "may use queue $blue"},
	{name: "a pod that moves", try: after(
		creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster}}`), runs("try"),
		patches("Pod", "try", `metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}`)), refused: "may use queue $blue"},
	{name: "a Job in another's name", try: creates(`{kind: Job, metadata: {labels: {muster.sh/user: $blue}}, spec: {queue: $red, tasks: [{replicas: 1}]}}`),
		refused: "$red may not act for user $blue"},
	{name: "a Job of pods in another's name", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 1, template: {metadata: {labels: {muster.sh/user: $blue}}}}]}}`),
		refused: "$red may not act for user $blue"},
	{name: "a PodGroup in another's name", try: creates(`{kind: PodGroup, metadata: {labels: {muster.sh/user: $blue}}, spec: {queue: $red}}`),
		refused: "$red may not act for user $blue"},
	{name: "a pod in another's name", try: creates(`{kind: Pod, metadata: {labels: {muster.sh/user: $blue}}}`), refused: "$red may not act for user $blue"},
}
