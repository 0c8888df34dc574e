package tenants_test

// names are tries to charge a queue, or a user, that is not red's.
var names = []row{
	// The API server asks who writes the name.
	{name: "a Job in another's queue", try: creates(`{kind: Job, spec: {queue: $blue, tasks: [{replicas: 1}]}}`),
		refused: "spec.queue: $red may not use queue $blue: name another queue"},
	{name: "a Job without a queue", try: creates(`{kind: Job, spec: {tasks: [{replicas: 1}]}}`), refused: "spec.queue: $red may not use queue default"},
	{name: "a Job in the parent", try: creates(`{kind: Job, spec: {queue: $parent, tasks: [{replicas: 1}]}}`), refused: "$parent"},
	{name: "a Job in the root", try: creates(`{kind: Job, spec: {queue: root, tasks: [{replicas: 1}]}}`), refused: "root"},
	{name: "a Job that moves", try: after(creates(gang), patches("Job", "try", `spec: {queue: $blue}`)), refused: "queue"},
	{name: "a PodGroup in another's queue", try: creates(`{kind: PodGroup, spec: {queue: $blue}}`), refused: "spec.queue: $red may not use queue $blue"},
	{name: "a PodGroup without a queue", try: creates(`{kind: PodGroup, spec: {minMember: 1}}`), refused: "spec.queue: $red may not use queue default"},
	{name: "a PodGroup that moves", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`), patches("PodGroup", "try", `spec: {queue: $blue}`)),
		refused: "spec.queue: $red may not use queue $blue"},
	{name: "a PodGroup whose queue is removed", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 1}}`),
		patches("PodGroup", "try", `spec: {queue: null}`)), refused: "spec.queue: $red may not use queue default"},
	{name: "a PodGroup as if of the controller", try: creates(`{kind: PodGroup, metadata: {ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1,
		kind: Job, name: a, uid: a, controller: true}]}, spec: {queue: $blue}}`), refused: "spec.queue: $red may not use queue $blue"},
	{name: "a PodGroup by apply", try: applies(`{kind: PodGroup, spec: {queue: $blue}}`), refused: "spec.queue: $red may not use queue $blue"},
	{name: "a pod that names another's queue", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}}`),
		refused: "may use queue $blue"},
	{name: "a pod that moves", try: after(creates(inQueue), runs("try"),
		patches("Pod", "try", `metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}`)), refused: "scheduling.volcano.sh/queue-name]", held: uses("1")},
	{name: "a pod of a Job that moves", try: after(creates(gang), runs("try-task-0-0"),
		patches("Pod", "try-task-0-0", `metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}`)), refused: "scheduling.volcano.sh/queue-name]", held: uses("2")},
	{name: "a Deployment that names another's queue", try: creates(`{kind: Deployment, spec: {replicas: 2, template: {
		metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}}}}`), held: both(replicasRefused("may use queue $blue"), nothingStarts)},

	{name: "a pod without a queue", try: creates(`{kind: Pod, spec: {schedulerName: muster}}`), refused: "may use queue default"},
	{name: "a pod of volcano without a queue", try: creates(`{kind: Pod, spec: {schedulerName: volcano}}`), refused: "may use queue default"},
	{name: "a pod of the default scheduler without a queue", try: creates(`{kind: Pod}`), refused: "pods of this namespace are in a queue"},
	{name: "a Job whose pods name another's queue", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 1, template: {metadata: {annotations: {
		scheduling.volcano.sh/queue-name: $blue}}}}]}}`), refused: "a template names queue $blue"},
	{name: "a Job that names another's queue in an annotation", try: after(creates(`{kind: Job, metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}},
		spec: {queue: $red, tasks: [{replicas: 1}]}}`), runs("try-task-0-0")), held: both(uses("1"), charged("try-task-0-0", "$red"))},
	{name: "a running pod that leaves its gang", try: after(creates(gang), runs("try-task-0-0", "try-task-0-1"),
		patches("Pod", "try-task-0-0", `metadata: {annotations: {scheduling.k8s.io/group-name: null}}`)), refused: "stays as it was created", held: uses("2")},
	{name: "a waiting pod that leaves its gang", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 3}}`), creates(member),
		patches("Pod", "try", `metadata: {annotations: {scheduling.k8s.io/group-name: null}}`)), refused: "stays as it was created"},

	// So is the label of a group of PrimeHub.
	{name: "a pod of another's group", try: after(creates(`{kind: Pod, metadata: {labels: {primehub.io/group: escaped-$blue}, annotations: {
		scheduling.volcano.sh/queue-name: $red}}}`), runs("try")), held: both(uses("1"), charged("try", "$red"))}, // a queue goes before a group
	{name: "a Job whose pods are of another's group", try: after(creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 1, template: {metadata: {labels: {
		primehub.io/group: escaped-$blue}}}}]}}`), runs("try-task-0-0")), held: both(uses("1"), charged("try-task-0-0", "$red"))},
	{name: "a pod that changes its group", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {labels: {primehub.io/group: escaped-$blue}}`)),
		refused: "metadata.labels[primehub.io/group]", held: uses("1")},

	// The name of a user is judged in the same way.
	{name: "a Job in another's name", try: creates(`{kind: Job, metadata: {labels: {muster.sh/user: $blue}}, spec: {queue: $red, tasks: [{replicas: 1}]}}`),
		refused: "$red may not act for user $blue"},
	{name: "a Job of pods in another's name", try: creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 1, template: {metadata: {labels: {muster.sh/user: $blue}}}}]}}`),
		refused: "$red may not act for user $blue"},
	{name: "a PodGroup in another's name", try: creates(`{kind: PodGroup, metadata: {labels: {muster.sh/user: $blue}}, spec: {queue: $red}}`),
		refused: "$red may not act for user $blue"},
	{name: "a PodGroup that changes its name", try: after(creates(`{kind: PodGroup, metadata: {labels: {muster.sh/user: $red}}, spec: {queue: $red}}`),
		patches("PodGroup", "try", `metadata: {labels: {muster.sh/user: $blue}}`)), refused: "$red may not act for user $blue"},
	{name: "a pod in another's name", try: creates(`{kind: Pod, metadata: {labels: {muster.sh/user: $blue}, annotations: {scheduling.volcano.sh/queue-name: $red}}}`), refused: "$red may not act for user $blue"},
	{name: "a Deployment in another's name", try: creates(`{kind: Deployment, spec: {replicas: 2, template: {metadata: {labels: {muster.sh/user: $blue},
		annotations: {scheduling.volcano.sh/queue-name: $red}}}}}`), held: both(replicasRefused("may not act for user $blue"), nothingStarts)},

	// Red cannot give itself the right.
	{name: "a RoleBinding to another's queue", try: creates(`{kind: RoleBinding, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-$blue},
		subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $red}]}`), refused: "attempting to grant RBAC permissions not currently held"},
	{name: "a Role for all queues", try: creates(`{kind: Role, rules: [{apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [use]}]}`),
		refused: "attempting to grant RBAC permissions not currently held"},
	{name: "a ClusterRole for all queues", try: creates(`{kind: ClusterRole, rules: [{apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [use]}]}`),
		refused: "cannot create resource"},
	{name: "a namespace that names another's queue", try: patches("Namespace", "$red", `metadata: {annotations: {scheduling.volcano.sh/queue-name: $blue}}`),
		refused: "cannot patch resource"},
	{name: "a ServiceAccount of the controller's name", try: after(creates(`{kind: ServiceAccount, metadata: {name: muster-controller}}`), creates(`{kind: RoleBinding,
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: ServiceAccount, namespace: $red, name: muster-controller}]}`),
		eventually(as("system:serviceaccount:$red:muster-controller", `{kind: PodGroup, spec: {queue: $blue}}`),
			"may not use queue $blue")), refused: "may not use queue $blue"},
	{name: "a token of the controller", try: func(c *court) error {
		token := parse(`{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: {name: muster-controller}}`)[0]
		_, err := c.red.in(gvrOf("ServiceAccount"), "muster-system").Create(c.ctx, token, noOptions, "token")
		return err
	}, refused: "cannot create resource"},

	// Names that Muster does not follow charge no one.
	{name: "the annotation of Jobs' pods with another's queue", try: after(creates(`{kind: Pod, metadata: {annotations: {
		scheduling.volcano.sh/queue-name: $red, volcano.sh/queue-name: $blue}}, spec: {schedulerName: muster}}`), runs("try")), held: uses("1")},
	{name: "a pod of the default scheduler", try: after(creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}}`), runs("try")), held: uses("1")},
	{name: "a pod of an unknown scheduler", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: another}}`),
		refused: "spec.schedulerName: pods of this namespace are for Muster's schedulers, and another is none"},
	{name: "a pod in another's gang", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: resident}}, spec: {schedulerName: muster}}`),
		held: waits("try", "PodGroup")},
	{name: "a pod of a gang by its whole name", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: $blue/resident}}, spec: {schedulerName: muster}}`),
		held: waits("try", "PodGroup")},
	{name: "a pod of a gang of scheduler-plugins", try: creates(`{kind: Pod, metadata: {labels: {scheduling.x-k8s.io/pod-group: resident}}, spec: {schedulerName: muster}}`),
		refused: "may use queue default"},
	{name: "a native gang", try: creates(`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, spec: {schedulingPolicy: {gang: {minCount: 1}}}}`),
		refused: "cannot create resource"},
}

const (
	// inQueue is a pod of red's queue, by itself.
	inQueue = `{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster}}`
	// gang is a Job of two pods, full one that fills red's queue.
	gang = `{kind: Job, spec: {queue: $red, tasks: [{replicas: 2}]}}`
	full = `{kind: Job, spec: {queue: $red, tasks: [{replicas: 8}]}}`
)
