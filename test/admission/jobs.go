package admission

import (
	"fmt"
	"strings"
)

const (
	rowNoTask       = "1.5 No task specified in job spec"
	rowMPIMaster    = "1.5 The specified mpi master task was not found"
	rowTiers        = "1.5 must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
	rowTaskMinimum  = "1.5 'minAvailable' is greater than 'replicas' in task: <t>, job: <j>"
	rowTaskName     = "1.5 duplicated task name <t>"
	rowPodName      = "1.5 create pod with name <n> validate failed"
	rowTemplate     = "1.5 spec.task[<i>]. and field errors"
	rowWholeCores   = "1.5 the cpu request isn't an integer in spec.task[<i>] container[<id>]."
	rowPartitions   = "1.5 'TotalPartitions' / 'PartitionSize' must be greater than 0 in task"
	rowPartitioned  = "1.5 'Replicas' are not equal to TotalPartitions*PartitionSize in task"
	rowMinPartition = "1.5 'MinAvailable' is not equal to MinPartitions*PartitionSize in task"
	rowJobName      = "1.5 create job with name <n> validate failed"
	rowJobMinimum   = "1.5 job 'minAvailable' should not be greater than total replicas in tasks"
	rowPlugin       = "1.5 unable to find job plugin: <p>"
	rowNoQueue      = "1.5 unable to find job queue: <err>"
	rowQueueState   = "1.5 can only submit job to queue with state `Open`"
	rowRootQueue    = "1.5 can not submit job to root queue"
	rowLeafQueue    = "1.5 can only submit job to leaf queue"
	rowDependencies = "1.5 job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
	rowVolumes      = "1.5 mountPath is required / duplicated mountPath / conflict / invalid VolumeClaimName"
	rowBothOrNone   = "1.5 must not specify event and exitCode simultaneously / either event and exitCode should be specified"
	rowEvent        = "1.5 invalid policy event"
	rowAction       = "1.5 invalid policy action"
	rowTwice        = "1.5 duplicate event <e>  across different policy / duplicate exitCode <n> / 0 is not a valid error code"
	rowAny          = "1.5 if there's * here, no other policy should be here"
	rowNegative     = "1.5 update: 'replicas' must be >= 0 / 'minAvailable' must be >= 0"
	rowAddTasks     = "1.5 update: job updates may not add or remove tasks"
	rowImmutable    = "1.5 update: job updates may not change fields other than"
)

// tasks is a patch of the tasks of a Job. Tasks that have no template get one.
func tasks(list ...string) string {
	for i, task := range list {
		if !strings.Contains(task, "template") {
			list[i] = "{" + task + ", template: {spec: {containers: [{name: main, image: main}]}}}"
			continue
		}
		list[i] = "{" + task + "}"
	}
	return "spec: {tasks: [" + strings.Join(list, ", ") + "]}"
}

// pod is a patch of a Job whose only task has a template with this pod.
func pod(spec string) string { return tasks("name: main, replicas: 2, template: {spec: " + spec + "}") }

// container is a patch of a Job whose only container says this, too.
func container(fields string) string {
	return pod("{containers: [{name: main, image: main, " + fields + "}]}")
}

func policies(list string) string { return "spec: {policies: [" + list + "]}" }

func taskPolicies(list string) string {
	return tasks("name: main, replicas: 2, policies: [" + list + "]")
}

func jobCases() []Case {
	var cases []Case
	for _, some := range [][]Case{jobSizes, jobNames, jobPartitions, onlyCreate(jobQueues...), onlyCreate(mpiMasters...), onlyCreate(jobPlugins...), jobVolumes, onlyCreate(jobClaims...),
		onlyCreate(jobTemplates...), jobTemplateFields, jobUpdates} {
		cases = append(cases, some...)
	}
	cases = append(cases, onlyCreate(dependencyCases()...)...)
	return append(cases, policyCases()...)
}

var jobSizes = []Case{
	{Name: "no tasks", Row: rowNoTask, Base: Job, Patch: `spec: {tasks: null}`, Says: []string{"spec.tasks", "No task specified in job spec"}},
	{Name: "an empty list of tasks", Row: rowNoTask, Base: Job, Patch: `spec: {tasks: []}`, Says: []string{"spec.tasks", "at least 1 item"}},
	{Name: "no spec", Row: rowNoTask, Base: Job, Patch: `spec: null`, Says: []string{"spec.tasks", "No task specified in job spec"}},
	{Name: "a task's minimum above its replicas", Row: rowTaskMinimum, Base: Job, Patch: tasks("name: a, replicas: 9", "name: b, replicas: 2, minAvailable: 3"),
		Says: []string{"spec.tasks[1].minAvailable", "'minAvailable' is greater than 'replicas' in task: b", "lower it, or raise the replicas"}},
	{Name: "a task's minimum at its replicas", Row: rowTaskMinimum, Base: Job, Patch: tasks("name: a, replicas: 2, minAvailable: 2")},
	{Name: "a task's minimum below its replicas", Row: rowTaskMinimum, Base: Job, Patch: tasks("name: a, replicas: 2, minAvailable: 1")},
	{Name: "a minimum of a task without replicas", Row: rowTaskMinimum, Base: Job, Patch: tasks("name: a, minAvailable: 1"), Says: []string{"greater than 'replicas' in task: a"}},
	{Name: "a minimum of a task without a name", Row: rowTaskMinimum, Base: Job, Patch: tasks("replicas: 1, minAvailable: 2"), Says: []string{"greater than 'replicas' in task"}},
	{Name: "a minimum above all replicas", Row: rowJobMinimum, Base: Job, Patch: `spec: {minAvailable: 3}`,
		Says: []string{"spec.minAvailable", "job 'minAvailable' should not be greater than total replicas in tasks"}},
	{Name: "a minimum at all replicas", Row: rowJobMinimum, Base: Job, Patch: `spec: {minAvailable: 2}`},
	{Name: "a minimum below all replicas", Row: rowJobMinimum, Base: Job, Patch: `spec: {minAvailable: 1}`},
	{Name: "a minimum of nothing", Row: rowJobMinimum, Base: Job, Patch: `spec: {minAvailable: 0}`},
	{Name: "a negative minimum", Row: rowNegative, Base: Job, Patch: `spec: {minAvailable: -1}`, Says: []string{"spec.minAvailable", "greater than or equal to 0"}},
	{Name: "negative replicas", Row: rowNegative, Base: Job, Patch: tasks("name: a, replicas: -1"), Says: []string{"spec.tasks[0].replicas", "greater than or equal to 0"}},
	{Name: "a negative minimum of a task", Row: rowNegative, Base: Job, Patch: tasks("name: a, replicas: 1, minAvailable: -1"), Says: []string{"spec.tasks[0].minAvailable", "greater than or equal to 0"}},
	{Name: "no replicas", Row: rowNegative, Base: Job, Patch: tasks("name: a, replicas: 0")},
	{Name: "successes above all replicas", Base: Job, Patch: `spec: {minSuccess: 3}`, Says: []string{"spec.minSuccess", "should not be greater than total replicas"}},
	{Name: "successes at all replicas", Base: Job, Patch: `spec: {minSuccess: 2}`},
	{Name: "successes of nothing", Base: Job, Patch: `spec: {minSuccess: 0}`, Says: []string{"spec.minSuccess", "greater than or equal to 1"}},
	{Name: "more pods than a cluster", Base: Job, Patch: tasks("name: a, replicas: 150000", "name: b, replicas: 1"), Says: []string{"spec.tasks", "a job may have 150000 pods in all tasks together"}},
	{Name: "more pods of a task than a cluster", Base: Job, Patch: tasks("name: a, replicas: 150001"), Says: []string{"spec.tasks[0].replicas", "less than or equal to 150000"}},
	{Name: "as many pods as a cluster", Base: Job, Patch: tasks("name: a, replicas: 150000")},
	{Name: "both tiers", Row: rowTiers, Base: Job, Patch: `spec: {networkTopology: {highestTierAllowed: 1, highestTierName: rack}}`,
		Says: []string{"spec.networkTopology", "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously", "remove one"}},
	{Name: "both tiers of a partition", Row: rowTiers, Base: Job,
		Patch: tasks("name: a, replicas: 2, partitionPolicy: {totalPartitions: 1, partitionSize: 2, networkTopology: {highestTierAllowed: 1, highestTierName: rack}}"),
		Says:  []string{"spec.tasks[0].partitionPolicy.networkTopology", "simultaneously"}},
	{Name: "one tier", Row: rowTiers, Base: Job, Patch: `spec: {networkTopology: {highestTierName: rack}}`},
}

var jobNames = []Case{
	{Name: "two tasks of one name", Row: rowTaskName, Base: Job, Patch: tasks("name: a, replicas: 1", "name: b, replicas: 1", "name: a, replicas: 1"),
		Says: []string{"spec.tasks", "duplicated task name", "give each task a name of its own"}},
	{Name: "two tasks without a name", Row: rowTaskName, Base: Job, Patch: tasks("replicas: 1", "replicas: 1")},
	{Name: "a name of 64 characters", Row: rowJobName, Base: Job, Patch: `metadata: {name: ` + strings.Repeat("n", 64) + `}`,
		Says: []string{"create job with name " + strings.Repeat("n", 64) + " validate failed", "no more than 63 characters"}},
	{Name: "a pod name of 64 characters", Row: rowPodName, Base: Job, Patch: `metadata: {name: ` + strings.Repeat("n", 57) + `}`,
		Says: []string{"spec.tasks", "create pod with name " + strings.Repeat("n", 57) + "-main-1 validate failed", "shorten the names of job and task"}},
	{Name: "a pod name of 63 characters", Row: rowPodName, Base: Job, Patch: `metadata: {name: ` + strings.Repeat("n", 56) + `}`},
	{Name: "a pod name that is too long with its largest index", Row: rowPodName, Base: Job,
		Patch: `{metadata: {name: ` + strings.Repeat("n", 56) + `}, ` + tasks("name: main, replicas: 11") + `}`, Says: []string{"-main-10 validate failed"}},
	{Name: "a pod name of a task without a name", Row: rowPodName, Base: Job,
		Patch: `{metadata: {name: ` + strings.Repeat("n", 53) + `}, ` + tasks("replicas: 1") + `}`, Says: []string{"-default0-0 validate failed"}},
	{Name: "a task name of 64 characters", Row: rowPodName, Base: Job, Patch: tasks("name: " + strings.Repeat("t", 64) + ", replicas: 1"), Says: []string{"spec.tasks[0].name"}},
}

var jobPartitions = []Case{
	{Name: "no partitions", Row: rowPartitions, Base: Job, Patch: partitioned(0, 0, 2, ""), Says: []string{"spec.tasks[0].partitionPolicy.totalPartitions", "greater than or equal to 1"}},
	{Name: "partitions of nothing", Row: rowPartitions, Base: Job, Patch: partitioned(0, 2, 0, ""), Says: []string{"spec.tasks[0].partitionPolicy.partitionSize", "greater than or equal to 1"}},
	{Name: "fewer replicas than partitions make up", Row: rowPartitioned, Base: Job, Patch: partitioned(5, 3, 2, ""),
		Says: []string{"spec.tasks[0].replicas", "'replicas' are not equal to totalPartitions*partitionSize"}},
	{Name: "more replicas than partitions make up", Row: rowPartitioned, Base: Job, Patch: partitioned(7, 3, 2, ""), Says: []string{"totalPartitions*partitionSize"}},
	{Name: "as many replicas as partitions make up", Row: rowPartitioned, Base: Job, Patch: partitioned(6, 3, 2, "")},
	{Name: "a minimum above the least partitions", Row: rowMinPartition, Base: Job, Patch: partitionedMin(6, 5, 2),
		Says: []string{"spec.tasks[0].minAvailable", "'minAvailable' is not equal to minPartitions*partitionSize"}},
	{Name: "a minimum below the least partitions", Row: rowMinPartition, Base: Job, Patch: partitionedMin(6, 3, 2), Says: []string{"minPartitions*partitionSize"}},
	{Name: "a minimum at the least partitions", Row: rowMinPartition, Base: Job, Patch: partitionedMin(6, 4, 2)},
	{Name: "least partitions above all", Base: Job, OnlyCreate: true, Patch: partitioned(6, 3, 2, ", minPartitions: 4"), Says: []string{"spec.tasks[0].partitionPolicy.minPartitions", "must not be greater than totalPartitions"}},
	{Name: "least partitions at all", Base: Job, Patch: partitioned(6, 3, 2, ", minPartitions: 3")},
	{Name: "negative least partitions", Base: Job, Patch: partitioned(6, 3, 2, ", minPartitions: -1"), Says: []string{"minPartitions", "greater than or equal to 0"}},
}

func partitioned(replicas, total, size int, more string) string {
	return tasks(fmt.Sprintf("name: a, replicas: %d, partitionPolicy: {totalPartitions: %d, partitionSize: %d%s}", replicas, total, size, more))
}

// partitionedMin is a patch with 3 partitions of 2 pods.
func partitionedMin(replicas, minimum, minPartitions int) string {
	return tasks(fmt.Sprintf("name: a, replicas: %d, minAvailable: %d, partitionPolicy: {totalPartitions: 3, partitionSize: 2, minPartitions: %d}", replicas, minimum, minPartitions))
}

var jobQueues = []Case{
	{Name: "a closed queue", Row: rowQueueState, Base: Job, Patch: `spec: {queue: closed}`, Needs: NeedsQueues,
		Says: []string{"spec.queue", "can only submit job to queue with state `Open`, queue `closed` status is `Closed`", "name another queue"}},
	{Name: "a closing queue", Row: rowQueueState, Base: Job, Patch: `spec: {queue: closing}`, Needs: NeedsQueues, Says: []string{"spec.queue", "queue `closing` status is `Closing`"}},
	{Name: "a queue of unknown state", Row: rowQueueState, Base: Job, Patch: `spec: {queue: unknown}`, Needs: NeedsQueues, Says: []string{"spec.queue", "queue `unknown` status is `Unknown`"}},
	{Name: "an open queue", Row: rowQueueState, Base: Job, Patch: `spec: {queue: open}`, Needs: NeedsQueues},
	{Name: "a queue that is about to be opened", Row: rowQueueState, Base: Job, Patch: `spec: {queue: new}`, Needs: NeedsQueues},
	{Name: "the root queue", Row: rowRootQueue, Base: Job, Patch: `spec: {queue: root}`, Needs: NeedsQueues,
		Says: []string{"spec.queue", "can not submit job to root queue", "name a queue below it"}},
	{Name: "a queue with children", Row: rowLeafQueue, Base: Job, Patch: `spec: {queue: org}`, Needs: NeedsQueues,
		Says: []string{"spec.queue", "can only submit job to leaf queue, queue `org` has child queues: name one of them"}},
	{Name: "a queue that is a child", Row: rowLeafQueue, Base: Job, Patch: `spec: {queue: org-team}`, Needs: NeedsQueues},
	{Name: "a queue that does not exist", Row: rowNoQueue, Base: Job, Patch: `spec: {queue: nowhere}`, Needs: NeedsQueues},
}

var mpiMasters = []Case{
	{Name: "mpi without a master", Row: rowMPIMaster, Base: Job, Patch: `spec: {plugins: {mpi: []}}`,
		Says: []string{"spec.plugins[mpi]", "The specified mpi master task was not found", "name it with --master"}},
	{Name: "mpi whose master is misspelt", Row: rowMPIMaster, Base: Job, Patch: `spec: {plugins: {mpi: [--master=mian]}}`, Says: []string{"The specified mpi master task was not found: the Job has no task mian"}},
	{Name: "mpi whose last master is misspelt", Row: rowMPIMaster, Base: Job, Patch: `spec: {plugins: {mpi: [--master=main, -master=mian]}}`, Says: []string{"the Job has no task mian"}},
	{Name: "mpi with a master", Row: rowMPIMaster, Base: Job, Patch: `spec: {plugins: {mpi: [--master=main]}}`},
	{Name: "mpi with a master in two words", Row: rowMPIMaster, Base: Job, Patch: `spec: {plugins: {mpi: [--master, main]}}`},
}

var jobPlugins = []Case{
	{Name: "an unknown plugin", Row: rowPlugin, Base: Job, Patch: `spec: {plugins: {scv: []}}`, Needs: NeedsPlugins,
		Says: []string{"spec.plugins[scv]", "unable to find job plugin: scv", "use env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow"}},
	{Name: "known plugins", Row: rowPlugin, Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {env: [], hcclrank: [], pytorch: [], ray: [], ssh: [], svc: [], tensorflow: []}}`},
	{Name: "a port of nothing", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {pytorch: [--port=0]}}`, Says: []string{"spec.plugins[pytorch]", "--port=0", "invalid argument"}},
	{Name: "the smallest port", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {pytorch: [--port=1]}}`},
	{Name: "the largest port", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {pytorch: [--port=65535]}}`},
	{Name: "a port beyond the largest", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {mpi: [--master=main, --port=65536]}}`, Says: []string{"spec.plugins[mpi]", "--port=65536"}},
	{Name: "a port that is a word", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {tensorflow: [--port=http]}}`, Says: []string{"spec.plugins[tensorflow]", "--port=http"}},
	{Name: "a switch that is no boolean", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {svc: [--publish-not-ready-addresses=maybe]}}`, Says: []string{"spec.plugins[svc]", "--publish-not-ready-addresses=maybe"}},
	{Name: "a switch that is a boolean", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {svc: [--publish-not-ready-addresses=T]}}`},
	{Name: "an unknown type of key", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {ssh: [--ssh-key-type=dsa]}}`, Says: []string{"spec.plugins[ssh]", "--ssh-key-type=dsa"}},
	{Name: "a known type of key", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {ssh: [--ssh-key-type=rsa]}}`},
	{Name: "an argument that plugins of other releases had", Base: Job, Needs: NeedsPlugins, Patch: `spec: {plugins: {ssh: [--no-root]}}`},
}

var jobVolumes = []Case{
	{Name: "no mountPath", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{volumeClaimName: c}]}`, Says: []string{"spec.volumes[0].mountPath", "Required value"}},
	{Name: "an empty mountPath", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: ""}]}`, Says: []string{"spec.volumes[0].mountPath"}},
	{Name: "a mountPath with a colon", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: "/a:b"}]}`, Says: []string{"spec.volumes[0].mountPath"}},
	{Name: "a mountPath twice", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a}, {mountPath: /a}]}`, Says: []string{"spec.volumes", "duplicated mountPath"}},
	{Name: "two mountPaths", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a}, {mountPath: /a/b}]}`},
	{Name: "neither claim nor name", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a}]}`},
	{Name: "a claim", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`},
	{Name: "a claim's name", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: mine.or.yours-2}]}`},
	{Name: "a claim's name with upper case", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: Mine}]}`, Says: []string{"spec.volumes[0].volumeClaimName", "invalid VolumeClaimName Mine"}},
	{Name: "a claim's name that is a path", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: ../mine}]}`, Says: []string{"invalid VolumeClaimName ../mine"}},
	{Name: "a claim's name with two dots", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: a..b}]}`, Says: []string{"invalid VolumeClaimName a..b"}},
	{Name: "a claim's name that ends with a hyphen", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: a-}]}`, Says: []string{"invalid VolumeClaimName a-"}},
	{Name: "a claim's name of 254 characters", Row: rowVolumes, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: ` + strings.Repeat("n", 254) + `}]}`, Says: []string{"spec.volumes[0].volumeClaimName"}},
}

// These rules apply when the volumes are written: later only the names of claims change, which the controller fills in.
var jobClaims = []Case{
	{Name: "a mountPath of a container's own", Row: rowVolumes, Base: Job,
		Patch: `{spec: {volumes: [{mountPath: /a}], tasks: [{name: main, replicas: 2, template: {spec: {volumes: [{name: v, emptyDir: {}}],
			containers: [{name: main, image: main, volumeMounts: [{name: v, mountPath: /a}]}]}}}]}}`,
		Says: []string{"spec.volumes[0].mountPath", "duplicated mountPath: a container mounts something else there"}},
	{Name: "a claim and a name", Row: rowVolumes, Base: Job,
		Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: mine, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`,
		Says:  []string{"spec.volumes[0].volumeClaimName", "conflict: If you want to use an existing PVC, just specify VolumeClaimName."}},
}

var jobTemplates = []Case{
	{Name: "no containers", Row: rowTemplate, Base: Job, Patch: pod("{containers: []}"), Says: []string{"spec.tasks[0].template.spec.containers", "a pod needs a container"}},
	{Name: "no template", Row: rowTemplate, Base: Job, Patch: `spec: {tasks: [{name: main, replicas: 2}]}`, Says: []string{"spec.tasks[0].template.spec.containers", "a pod needs a container"}},
	{Name: "an unknown restartPolicy", Row: rowTemplate, Base: Job, Patch: pod("{restartPolicy: Sometimes, containers: [{name: main, image: main}]}"),
		Says: []string{"spec.tasks[0].template.spec.restartPolicy", "Unsupported value: Sometimes", "use Always, OnFailure or Never"}},
	{Name: "a known restartPolicy", Row: rowTemplate, Base: Job, Patch: pod("{restartPolicy: OnFailure, containers: [{name: main, image: main}]}")},
	{Name: "an init container of a container's name", Row: rowTemplate, Base: Job, Patch: pod("{initContainers: [{name: main, image: main}], containers: [{name: main, image: main}]}"), Says: []string{"Duplicate value"}},
	{Name: "a container whose name is a path", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{name: ../main, image: main}]}"), Says: []string{"spec.tasks[0].template.spec.containers[0].name", "use 1 to 63 lower case letters"}},
	{Name: "a container whose name is upper case", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{name: Main, image: main}]}"), Says: []string{"containers[0].name"}},
	{Name: "a container with a name of 64 characters", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{name: " + strings.Repeat("c", 64) + ", image: main}]}"), Says: []string{"containers[0].name"}},
	{Name: "a container with a name of 63 characters", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{name: " + strings.Repeat("c", 63) + ", image: main}]}")},
	{Name: "a port of a container that is 0", Row: rowTemplate, Base: Job, Patch: container("ports: [{containerPort: 0}]"), Says: []string{"spec.tasks[0].template.spec.containers[0].ports[0]", "ports from 1 to 65535"}},
	{Name: "a port of a container that is 65535", Row: rowTemplate, Base: Job, Patch: container("ports: [{containerPort: 65535}]")},
	{Name: "a port of a container that is 65536", Row: rowTemplate, Base: Job, Patch: container("ports: [{containerPort: 65536}]"), Says: []string{"ports[0]"}},
	{Name: "a port of an unknown protocol", Row: rowTemplate, Base: Job, Patch: container("ports: [{containerPort: 80, protocol: ICMP}]"), Says: []string{"ports[0]", "the protocol TCP, UDP or SCTP"}},
	{Name: "a request above its limit", Row: rowTemplate, Base: Job, Patch: container("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), Says: []string{"spec.tasks[0].template.spec.containers[0].resources.requests[cpu]", "less than or equal to the limit"}},
	{Name: "a request at its limit", Row: rowTemplate, Base: Job, Patch: container("resources: {requests: {cpu: 1000m}, limits: {cpu: 1}}")},
	{Name: "a negative request", Row: rowTemplate, Base: Job, Patch: container("resources: {requests: {cpu: -1}}"), Says: []string{"resources.requests[cpu]", "greater than or equal to 0"}},
	{Name: "a negative limit", Row: rowTemplate, Base: Job, Patch: container("resources: {limits: {memory: -1Mi}}"), Says: []string{"resources.limits[memory]", "greater than or equal to 0"}},
	{Name: "a mount of no volume", Row: rowTemplate, Base: Job, Patch: container("volumeMounts: [{name: none, mountPath: /none}]"), Says: []string{"spec.tasks[0].template.spec.containers", "volumeMounts[none]", "Not found"}},
	{Name: "half a core", Row: rowWholeCores, Base: Job, Patch: cores("resources: {requests: {cpu: 500m}}"),
		Says: []string{"spec.tasks[0].template.spec.containers[0].resources.requests.cpu", "the cpu request isn't an integer in spec.task[0] containers[0]."}},
	{Name: "a core and a half", Row: rowWholeCores, Base: Job, Patch: cores("resources: {requests: {cpu: 1500m}}"), Says: []string{"the cpu request isn't an integer"}},
	{Name: "no cores", Row: rowWholeCores, Base: Job, Patch: cores("resources: {}"), Says: []string{"the cpu request isn't an integer"}},
	{Name: "a core", Row: rowWholeCores, Base: Job, Patch: cores("resources: {requests: {cpu: 1000m}}")},
	{Name: "two cores as a limit", Row: rowWholeCores, Base: Job, Patch: cores("resources: {limits: {cpu: 2}}")},
}

// The schema's rules for templates.
var jobTemplateFields = []Case{
	{Name: "two containers of one name", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{name: main, image: main}, {name: main, image: other}]}"),
		Says: []string{"spec.tasks[0].template.spec.containers", "Duplicate value"}},
	{Name: "a container without a name", Row: rowTemplate, Base: Job, Patch: pod("{containers: [{image: main}]}"), Says: []string{"spec.tasks[0].template.spec.containers[0].name"}},
	{Name: "an unknown iteration", Base: Job, Patch: tasks("name: a, replicas: 1", "name: b, replicas: 1, dependsOn: {name: [a], iteration: some}"), Says: []string{"spec.tasks[1].dependsOn.iteration", "Unsupported value"}},
	{Name: "a request that is no quantity", Row: rowTemplate, Base: Job, Patch: container("resources: {requests: {cpu: one}}"), Says: []string{"resources.requests.cpu"}},
	{Name: "an unknown topologyPolicy", Row: rowWholeCores, Base: Job, Patch: tasks("name: a, replicas: 1, topologyPolicy: best"), Says: []string{"spec.tasks[0].topologyPolicy", "Unsupported value"}},
}

// cores is a patch of a Job that wants its cores aligned.
func cores(fields string) string {
	return tasks("name: main, replicas: 2, topologyPolicy: best-effort, template: {spec: {containers: [{name: main, image: main, " + fields + "}]}}")
}

func dependencyCases() []Case {
	return []Case{
		{Name: "a dependency on itself", Row: rowDependencies, Base: Job, Patch: tasks("name: a, replicas: 1, dependsOn: {name: [a]}"),
			Says: []string{"spec.tasks", "doesn't form a directed acyclic graph(DAG)", "wait for each other"}},
		{Name: "a dependency on each other", Row: rowDependencies, Base: Job,
			Patch: tasks("name: a, replicas: 1, dependsOn: {name: [b]}", "name: b, replicas: 1, dependsOn: {name: [a]}"), Says: []string{"doesn't form a directed acyclic graph(DAG)", "a, b"}},
		{Name: "a dependency on no task", Row: rowDependencies, Base: Job, Patch: tasks("name: a, replicas: 1", "name: b, replicas: 1, dependsOn: {name: [a, c]}"),
			Says: []string{"spec.tasks[1].dependsOn.name", "c: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): no task has this name"}},
		{Name: "a dependency on a task without a name", Row: rowDependencies, Base: Job, Patch: tasks("replicas: 1", "name: b, replicas: 1, dependsOn: {name: [default0]}")},
		{Name: "a dependency on two tasks", Row: rowDependencies, Base: Job, Patch: tasks("name: a, replicas: 1", "name: b, replicas: 1", "name: c, replicas: 1, dependsOn: {name: [a, b]}")},
		{Name: "a chain of 100 tasks", Row: rowDependencies, Base: Job, Patch: chain(100, false)},
		{Name: "a circle of 100 tasks", Row: rowDependencies, Base: Job, Patch: chain(100, true), Says: []string{"doesn't form a directed acyclic graph(DAG)"}},
		{Name: "a circle of 7 tasks", Row: rowDependencies, Base: Job, Patch: chain(7, true), Says: []string{"doesn't form a directed acyclic graph(DAG)"}},
		{Name: "each of 100 tasks waits for all before it", Row: rowDependencies, Base: Job, Patch: dense(100)},
		{Name: "tasks in no order", Row: rowDependencies, Base: Job,
			Patch: tasks("name: b, replicas: 1, dependsOn: {name: [a]}", "name: a, replicas: 1", "name: c, replicas: 1, dependsOn: {name: [a, b]}")},
		{Name: "tasks in no order, with a circle", Row: rowDependencies, Base: Job, Says: []string{"doesn't form a directed acyclic graph(DAG)"},
			Patch: tasks("name: b, replicas: 1, dependsOn: {name: [a]}", "name: a, replicas: 1, dependsOn: {name: [c]}", "name: c, replicas: 1, dependsOn: {name: [b]}")},
		{Name: "50 tasks wait for 50 others", Row: rowDependencies, Base: Job, Patch: layered(50)},
	}
}

// chain is a patch of a Job each of whose tasks depends on the one before it. In a circle the first depends on the last.
func chain(length int, isCircle bool) string {
	var list []string
	for i := range length {
		task := fmt.Sprintf("name: t%d, replicas: 1", i)
		if i > 0 || isCircle {
			task += fmt.Sprintf(", dependsOn: {name: [t%d]}", (i+length-1)%length)
		}
		list = append(list, task)
	}
	return tasks(list...)
}

func dense(length int) string {
	var list, before []string
	for i := range length {
		name := fmt.Sprintf("t%d", i)
		list = append(list, fmt.Sprintf("name: %s, replicas: 1, dependsOn: {name: [%s]}", name, strings.Join(before, ", ")))
		before = append(before, name)
	}
	return tasks(list...)
}

func layered(width int) string {
	var list, first []string
	for i := range width {
		first = append(first, fmt.Sprintf("a%d", i))
		list = append(list, fmt.Sprintf("name: a%d, replicas: 1", i))
	}
	for i := range width {
		list = append(list, fmt.Sprintf("name: b%d, replicas: 1, dependsOn: {name: [%s]}", i, strings.Join(first, ", ")))
	}
	return tasks(list...)
}

// policyCases are cases of policies, each of the Job's and of a task's.
func policyCases() []Case {
	var cases []Case
	for _, p := range []struct {
		name, row, list string
		says            []string
	}{
		{"an event and an exit code", rowBothOrNone, `{event: PodFailed, exitCode: 3, action: RestartJob}`, []string{"must not specify event and exitCode simultaneously"}},
		{"events and an exit code", rowBothOrNone, `{events: [PodFailed], exitCode: 3, action: RestartJob}`, []string{"must not specify event and exitCode simultaneously"}},
		{"neither event nor exit code", rowBothOrNone, `{action: RestartJob}`, []string{"either event and exitCode should be specified"}},
		{"no events", rowBothOrNone, `{events: [], action: RestartJob}`, []string{"either event and exitCode should be specified"}},
		{"an event", rowBothOrNone, `{event: PodFailed, action: RestartJob}`, nil},
		{"an unknown event", rowEvent, `{event: PodFell, action: RestartJob}`, []string{"Unsupported value", "PodFell"}},
		{"an event of the controller's own", rowEvent, `{event: OutOfSync, action: RestartJob}`, []string{"Unsupported value", "OutOfSync"}},
		{"the event of Commands", rowEvent, `{events: [CommandIssued], action: RestartJob}`, []string{"Unsupported value", "CommandIssued"}},
		{"the event PodRunning", rowEvent, `{event: PodRunning, action: RestartJob}`, []string{"Unsupported value", "PodRunning"}},
		{"an unknown action", rowAction, `{event: PodFailed, action: Restart}`, []string{"invalid policy action"}},
		{"no action", rowAction, `{event: PodFailed}`, []string{"invalid policy action"}},
		{"the action SyncJob", rowAction, `{event: PodFailed, action: SyncJob}`, []string{"invalid policy action"}},
		{"an unknown action of an exit code", rowAction, `{exitCode: 3, action: Restart}`, []string{"invalid policy action"}},
		{"RestartTask by a change of the spec", rowAction, `{event: JobUpdated, action: RestartTask}`, []string{"invalid policy action", "Unknown and JobUpdated are about no single task", "restart more"}},
		{"RestartTask by a split gang, in a list", rowAction, `{events: [PodFailed, Unknown], action: RestartTask}`, []string{"invalid policy action", "about no single task"}},
		{"RestartPod by the end of a task", rowAction, `{event: TaskCompleted, action: RestartPod}`, []string{"invalid policy action", "about no single pod"}},
		{"RestartTask by the end of a task", rowAction, `{events: [TaskCompleted, TaskFailed], action: RestartTask}`, nil},
		{"RestartPartition without partitions", rowAction, `{event: PodFailed, action: RestartPartition}`, []string{"invalid policy action", "RestartPartition needs a task with a partitionPolicy"}},
		{"an event twice", rowTwice, `{event: PodFailed, action: RestartJob}, {event: PodFailed, action: AbortJob}`, []string{"duplicate event"}},
		{"an event twice in lists", rowTwice, `{events: [PodFailed], action: RestartJob}, {events: [PodFailed], action: AbortJob}`, []string{"duplicate event"}},
		{"an event twice, once in a list", rowTwice, `{event: PodFailed, action: RestartJob}, {events: [PodFailed], action: AbortJob}`, []string{"duplicate event"}},
		{"an exit code twice", rowTwice, `{exitCode: 3, action: RestartJob}, {exitCode: 3, action: AbortJob}`, []string{"duplicate exitCode"}},
		{"exit code 0", rowTwice, `{exitCode: 0, action: RestartJob}`, []string{"0 is not a valid error code"}},
		{"exit codes around 0", rowTwice, `{exitCode: -1, action: RestartJob}, {exitCode: 1, action: RestartJob}`, nil},
		{"* beside PodFailed", rowAny, `{event: "*", action: RestartJob}, {event: PodFailed, action: AbortJob}`, []string{"if there's * here, no other policy should be here"}},
		{"* beside PodEvicted in a list", rowAny, `{events: ["*", PodEvicted], action: RestartJob}`, []string{"no other policy should be here"}},
		{"* beside TaskFailed", rowAny, `{event: TaskFailed, action: RestartJob}, {events: ["*"], action: AbortJob}`, []string{"no other policy should be here"}},
		{"* beside Unknown", rowAny, `{event: Unknown, action: RestartJob}, {event: "*", action: AbortJob}`, []string{"no other policy should be here"}},
		{"* beside what is no failure", rowAny, `{event: "*", action: RestartJob}, {event: TaskCompleted, action: CompleteJob}`, nil},
		{"PodPending without a timeout", "", `{event: PodPending, action: RestartJob}`, []string{"a policy for PodPending needs a timeout"}},
		{"a timeout in days", "", `{event: PodFailed, action: RestartJob, timeout: 1d}`, []string{"timeout", "invalid duration"}},
		{"a negative timeout", "", `{event: PodFailed, action: RestartJob, timeout: -1s}`, []string{"timeout", "invalid duration"}},
	} {
		cases = append(cases,
			Case{Name: p.name + " in the Job's policies", Row: p.row, Base: Job, Patch: policies(p.list), Says: in("spec.policies", p.says)},
			Case{Name: p.name + " in a task's policies", Row: p.row, Base: Job, Patch: taskPolicies(p.list), Says: in("spec.tasks[0].policies", p.says)})
	}
	return cases
}

// in adds the field to what a refusal says.
func in(field string, says []string) []string {
	if len(says) == 0 {
		return nil
	}
	return append([]string{field}, says...)
}

var jobUpdates = []Case{
	{Name: "a change of the queue", Row: rowImmutable, Base: Job, Old: named("update"), Patch: `spec: {queue: open}`,
		Says: []string{"spec.queue is immutable", "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"}},
	{Name: "a change of an image", Row: rowImmutable, Base: Job, Old: named("update"), Patch: pod("{containers: [{name: main, image: other}]}"), Says: []string{"spec.tasks[*].template is immutable", "may not change fields other than"}},
	{Name: "a time to live that is added", Base: Job, Old: named("update"), Patch: `spec: {ttlSecondsAfterFinished: 5}`},
	{Name: "a task more", Row: rowAddTasks, Base: Job, Old: named("update"), Patch: tasks("name: main, replicas: 2", "name: more, replicas: 1"), Says: []string{"spec.tasks", "job updates may not add or remove tasks"}},
	{Name: "a task less", Row: rowAddTasks, Base: Job, Old: `{metadata: {name: update-two}, ` + tasks("name: main, replicas: 2", "name: more, replicas: 1") + `}`,
		Patch: tasks("name: main, replicas: 2"), Says: []string{"spec.tasks", "job updates may not add or remove tasks"}},
	{Name: "more replicas", Row: rowImmutable, Base: Job, Old: named("update"), Patch: tasks("name: main, replicas: 9")},
	{Name: "replicas below the minimum", Row: rowJobMinimum, Base: Job, Old: `{metadata: {name: update-min}, spec: {minAvailable: 2}}`, Patch: tasks("name: main, replicas: 1"), Says: []string{"spec.minAvailable", "greater than total replicas"}},
	{Name: "replicas below the task's minimum", Row: rowTaskMinimum, Base: Job, Old: `{metadata: {name: update-task-min}, ` + tasks("name: main, replicas: 2, minAvailable: 2") + `}`,
		Patch: tasks("name: main, replicas: 1, minAvailable: 2"), Says: []string{"greater than 'replicas' in task: main"}},
	{Name: "replicas whose pod names are too long", Row: rowPodName, Base: Job, Old: named(strings.Repeat("u", 56)), Patch: tasks("name: main, replicas: 11"), Says: []string{"create pod with name", "validate failed"}},
	{Name: "least partitions that grow above all", Base: Job, Old: `{metadata: {name: update-partitions}, ` + partitioned(6, 3, 2, "") + `}`,
		Patch: partitioned(6, 3, 2, ", minPartitions: 4"), Says: []string{"spec.tasks[0].partitionPolicy.minPartitions", "must not be greater than totalPartitions"}},
	{Name: "a label", Row: rowImmutable, Base: Job, Old: named("update"), Patch: `metadata: {labels: {a: b}}`},
}

func named(name string) string { return "metadata: {name: " + name + "}" }
