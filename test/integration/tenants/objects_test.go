package tenants_test

// objects are tries to write what is not red's.
var objects = []row{
	{name: "a Job in another's namespace", try: creates(`{kind: Job, metadata: {namespace: $blue}, spec: {queue: $red, tasks: [{replicas: 1}]}}`),
		refused: "cannot create resource"},
	{name: "the end of another's Job", try: removes("Job", "$blue/resident"), refused: "cannot delete resource"},
	{name: "a pod in another's gang", try: creates(`{kind: Pod, metadata: {annotations: {scheduling.k8s.io/group-name: resident}}, spec: {schedulerName: muster}}`),
		held: waits("try", "PodGroup")},
	{name: "the end of another's queue", try: removes("Queue", "$blue"), refused: "cannot delete resource"},
}
