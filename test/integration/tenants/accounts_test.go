package tenants_test

// accounts are tries to change what pods are charged to, or to free it.
var accounts = []row{
	{name: "a pod with an account", try: creates(`{kind: Pod, metadata: {annotations: {muster.sh/charged-to: $blue}}}`), refused: "are written by the scheduler"},
	{name: "a pod with a PodGroup that it was bound for", try: creates(`{kind: Pod, metadata: {annotations: {muster.sh/bound-for: a}}}`),
		refused: "are written by the scheduler"},
	{name: "an account that moves", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {muster.sh/charged-to: $blue}}`)),
		refused: "are written by the scheduler", held: uses("1")},
	{name: "an account that is removed", try: after(creates(inQueue), runs("try"), patches("Pod", "try", `metadata: {annotations: {muster.sh/charged-to: null}}`)),
		refused: "are written by the scheduler", held: uses("1")},
}

// inQueue is a pod of red's queue, by itself.
const inQueue = `{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: $red}}, spec: {schedulerName: muster}}`
