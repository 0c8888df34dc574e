package tenants_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noOptions = metav1.CreateOptions{}

// objects are tries to write, or to command, what is not red's.
var objects = []row{
	// Rights of Kubernetes keep a tenant in its namespace.
	{name: "a Job in another's namespace", try: creates(`{kind: Job, metadata: {namespace: $blue}, spec: {queue: $red, tasks: [{replicas: 1}]}}`),
		refused: "cannot create resource"},
	{name: "a Job in kube-system", try: creates(`{kind: Job, metadata: {namespace: kube-system}, spec: {queue: $red, tasks: [{replicas: 1}]}}`), refused: "cannot create resource"},
	{name: "a PodGroup in another's namespace", try: creates(`{kind: PodGroup, metadata: {namespace: $blue}, spec: {queue: $red}}`), refused: "cannot create resource"},
	{name: "the end of another's Job", try: removes("Job", "$blue/resident"), refused: "cannot delete resource"},
	{name: "the end of another's pod", try: removes("Pod", "$blue/resident-worker-0"), refused: "cannot delete resource"},
	{name: "the eviction of another's pod", try: func(c *court) error {
		eviction := parse(c.text(`{apiVersion: policy/v1, kind: Eviction, metadata: {name: resident-worker-0, namespace: $blue}}`))[0]
		_, err := c.red.in(gvrOf("Pod"), c.blue.name).Create(c.ctx, eviction, noOptions, "eviction")
		return err
	}, refused: "cannot create resource"},
	{name: "another's Job that is suspended", try: patches("Job", "$blue/resident", `spec: {suspend: true}`), refused: "cannot patch resource"},
	{name: "a new queue", try: creates(`{kind: Queue, metadata: {name: $red-more}}`), refused: "cannot create resource"},
	{name: "the capability of its queue", try: patches("Queue", "$red", `spec: {capability: {cpu: 100}}`), refused: "cannot patch resource"},
	{name: "the end of another's queue", try: removes("Queue", "$blue"), refused: "cannot delete resource"},
	{name: "a class of pods that go first", try: creates(`{kind: PriorityClass, value: 1000}`), refused: "cannot create resource"},
	{name: "a node of its own group", try: patches("Node", "node-0", `metadata: {labels: {volcano.sh/nodegroup-name: $red}}`), refused: "cannot patch resource"},
	{name: "the end of a policy", try: func(c *court) error {
		bindings := gvrOf("ClusterRole")
		bindings.Group, bindings.Resource = "admissionregistration.k8s.io", "validatingadmissionpolicybindings"
		return c.red.in(bindings, "").Delete(c.ctx, "muster-queue-use", metav1.DeleteOptions{})
	}, refused: "cannot delete resource"},
	{name: "the names of schedulers", try: patches("ConfigMap", "muster-system/muster-scheduler-names", `data: {served: other}`), refused: "cannot patch resource"},
	{name: "the lease of the scheduler", try: patches("Lease", "muster-system/muster-scheduler", `spec: {holderIdentity: red}`), refused: "cannot patch resource"},
	{name: "an image of its own", try: creates(`{kind: Image, spec: {url: a}}`), refused: "cannot create resource"},
	{name: "an instance type of its own", try: creates(`{kind: InstanceType, spec: {limits.cpu: 1}}`), refused: "cannot create resource"},

	// Commands.
	{name: "a Command that closes another's queue", try: commands("CloseQueue", "Queue", "$blue"), refused: "$red may not order anything of queue $blue"},
	{name: "a Command that closes its queue", try: commands("CloseQueue", "Queue", "$red"), refused: "$red may not order anything of queue $red"},
	{name: "a Command that closes the root", try: commands("CloseQueue", "Queue", "root"), refused: "$red may not order anything of queue root"},
	{name: "a Command in another's namespace", try: creates(`{kind: Command, metadata: {namespace: $blue}, action: AbortJob,
		target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: resident, uid: a}}`), refused: "cannot create resource"},
	// A Command acts on Jobs of its own namespace.
	{name: "a Command on another's Job", try: commands("AbortJob", "Job", "$blue/resident")},
	{name: "a Command that changes its mind", try: after(byAdmin(`{kind: Command, metadata: {finalizers: [example.com/kept]}, action: AbortJob,
		target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: resident, uid: a}}`), atTheEnd(adminPatches("Command", "try", `metadata: {finalizers: null}`)),
		patches("Command", "try", `{action: CloseQueue, target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: $blue, uid: a}}`)),
		refused: "$red may not order anything of queue $blue"},

	// Owners and names of others' objects.
	{name: "a pod that another's Job owns", try: func(c *court) error {
		return c.red.create(c.ctx, c.text(`{kind: Pod, metadata: {name: resident-worker-0, labels: {volcano.sh/job-name: resident}, annotations: {volcano.sh/job-name: resident,
			volcano.sh/task-spec: worker, volcano.sh/job-version: "0", scheduling.volcano.sh/queue-name: $red},
			ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: resident, uid: `+c.uid("Job", "$blue/resident")+`, controller: true}]}, spec: {schedulerName: muster}}`))
	}},
	{name: "a PodGroup of the name of another's", try: func(c *court) error {
		return c.red.create(c.ctx, c.text(`{kind: PodGroup, metadata: {name: resident-`+c.uid("Job", "$blue/resident")+`, ownerReferences: [
			{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: resident, uid: `+c.uid("Job", "$blue/resident")+`, controller: true}]}, spec: {queue: $red, minMember: 100}}`))
	}},
	{name: "names that the controller's objects will have", try: after(
		creates(`{kind: ConfigMap, metadata: {name: try-svc}}`), creates(`{kind: Secret, metadata: {name: try-ssh}}`),
		creates(`{kind: Service, metadata: {name: try}, spec: {ports: [{port: 80}]}}`),
		creates(`{kind: RoleBinding, metadata: {name: try-ssh}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}`),
		creates(`{kind: Job, spec: {queue: $red, plugins: {svc: [], ssh: []}, tasks: [{replicas: 1}]}}`)), held: both(says("try", "try"), nothingStarts)},
	{name: "a Job of the name of another's", try: after(creates(`{kind: Job, metadata: {name: resident}, spec: {queue: $red, plugins: {svc: [], ssh: []}, tasks: [{replicas: 1}]}}`),
		runs("resident-task-0-0")), held: uses("1")},

	// A closed queue takes nothing.
	{name: "a Job in a closed queue", try: after(closed, creates(gang)), refused: "$red"},
	{name: "a PodGroup of a ConfigMap in a closed queue", try: after(closed, creates(ownedBy("v1", "ConfigMap"))), refused: "takes no new work"},
	{name: "a PodGroup of a Job in a closed queue", try: after(closed, creates(ownedBy("batch.volcano.sh/v1alpha1", "Job"))), refused: "takes no new work"},
	// Nothing would limit what is in a queue that is gone.
	{name: "a queue that is deleted as a gang comes", try: deletedAsAGangComes, held: both(waits("try", "queue"), nothingStarts)},
	{name: "a pod in a closed queue", try: after(closed, creates(inQueue)), held: nothingStarts},

	// Gangs that never come.
	{name: "a gang with a gate", try: after(creates(`{kind: PodGroup, spec: {queue: $red, minMember: 2}}`), creates(member), creates(`{kind: Pod, metadata: {name: gated,
		annotations: {scheduling.k8s.io/group-name: try}}, spec: {schedulerName: muster, schedulingGates: [{name: example.com/never}]}}`)), held: nothingStarts},
	{name: "a gang that tolerates all taints", try: after(creates(`{kind: Job, spec: {queue: $red, tasks: [{replicas: 2, template: {spec: {tolerations: [{operator: Exists}]}}}]}}`),
		runs("try-task-0-0")), held: uses("2")},
}

// ownedBy is a PodGroup that names a controller of a kind.
func ownedBy(version, kind string) string {
	return `{kind: PodGroup, metadata: {ownerReferences: [{apiVersion: ` + version + `, kind: ` + kind + `, name: a, uid: a, controller: true}]}, spec: {queue: $red, minMember: 1}}`
}
