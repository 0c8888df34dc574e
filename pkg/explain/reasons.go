package explain

// Ever says whether something that waits can ever go on.
type Ever string

const (
	// never: what limits there are rule it out, as it is and as they are.
	never Ever = "never"
	// afterChange: it never goes on as it is; its owner has to change it.
	afterChange Ever = "afterChange"
	// afterOthers: it goes on when an administrator, or the owner of another object, does something.
	afterOthers Ever = "afterOthers"
	// byItself: this wait ends by itself.
	byItself Ever = "byItself"
	// notRuledOut: amounts decide, and nothing that was found rules it out.
	notRuledOut Ever = "notRuledOut"
	// notKnown: nothing has been found yet.
	notKnown Ever = "notKnown"
)

// cause is what a reason means.
type cause struct {
	// means says what is in the way.
	means string
	// frees says what would help.
	frees string
	// ever says whether it can go on.
	ever Ever
}

// jobCauses has a row for each reason that a Job waits for, of status.state.reason.
var jobCauses = map[string]cause{
	"Invalid":               {"The Job contradicts itself.", "Correct the field that the message names. Where it cannot be changed, delete the Job and create it anew.", afterChange},
	"NotSupported":          {"It asks for something that Muster does not have.", "Remove what the message names, delete it and create it anew.", afterChange},
	"QueueNotFound":         {"The queue of the Job does not exist.", "Create the queue, or create the Job anew in a queue that exists.", afterOthers},
	"QueueIsRoot":           {"The root queue takes no Jobs.", "Create the Job anew in another queue.", afterChange},
	"QueueHasChildren":      {"A queue that has queues below it takes no Jobs.", "Create the Job anew in one of the queues below it.", afterChange},
	"QueueNotOpen":          {"The queue is closed.", "Open it with muster queue open, or create the Job anew in another queue.", afterOthers},
	"ClaimNotFound":         {"A volume names a PersistentVolumeClaim that does not exist.", "Create the claim.", afterOthers},
	"FailedCreate":          {"The API server refuses the Job's pods.", "Correct what the message names: often a ResourceQuota, an admission policy or a field of the pod template. It is tried again.", afterOthers},
	"FailedDelete":          {"The API server refuses to delete a pod.", "Look at the message. It is tried again.", afterOthers},
	"PodGroupError":         {"The API server refuses the Job's PodGroup.", "Look at the message. It is tried again.", afterOthers},
	"PVCError":              {"The API server refuses a PersistentVolumeClaim of the Job.", "Correct what the message names. It is tried again.", afterOthers},
	"PluginError":           {"An object of a Job plugin cannot be made.", "Correct what the message names. It is tried again.", afterOthers},
	"PodGroupNameTaken":     {"A PodGroup of the name that the Job needs belongs to another owner.", "Delete that PodGroup.", afterOthers},
	"ClaimNameTaken":        {"A PersistentVolumeClaim of the name that the Job needs belongs to another owner.", "Delete that claim, or name another.", afterOthers},
	"PluginObjectNameTaken": {"An object of the name that a plugin needs belongs to another owner.", "Delete that object, or give the Job another name.", afterOthers},
	"PodDoesNotTerminate":   {"A pod of an earlier run does not end.", "Look at its node and its finalizers. If the node is gone for good, delete the Node object.", afterOthers},
	"WaitingForEarlierPods": {"Pods of an earlier Job of this name are still ending.", "They end within their grace period.", byItself},
	"BackOff":               {"The Job failed or was evicted again and again, so it starts later each time.", "The time in the message comes.", byItself},
	"PodNotStarted":         {"A pod has a node and does not start there.", "Look at the pod's events: often an image that cannot be pulled, or a volume that cannot be mounted.", afterOthers},
	"WaitingForDependency":  {"A task waits for other tasks.", "The tasks that the message names make progress.", byItself},
	"SchedulerNotServed":    {"The pods name a scheduler that does not keep gangs together.", "Leave schedulerName out, or name one of Muster's, and create the Job anew.", afterChange},
	"QuotaExceeded":         {"The queue, or the user, has no quota left for the minimum, so no pod is created.", "", notRuledOut},
	"PodGroupPending":       {"The queue has not admitted the Job, so no pod is created.", "", notRuledOut},
	"Unschedulable":         {"The queue has admitted the Job, but its minimum cannot start.", "", notRuledOut},
}

// podCauses has a row for each reason that a pod waits for, of the condition PodScheduled.
var podCauses = map[string]cause{
	"SchedulingGated":      {"The pod has scheduling gates, and the scheduler does not look at it before they are gone.", "The controller that set the gates removes them.", afterOthers},
	"WaitingForPodGroup":   {"The PodGroup that the pod names does not exist.", "Create the PodGroup, or correct the annotation scheduling.k8s.io/group-name.", afterOthers},
	"WaitingForController": {"The pod names no PodGroup, and muster-controller has not made one for it yet.", "muster-controller makes it. If that does not happen, look at the pod's events, and whether muster-controller runs. It makes PodGroups for the scheduler names of its flag --podgroup-scheduler-names.", afterOthers},
	"WaitingForAdmission":  {"The queue has not admitted the gang.", "", notRuledOut},
	"DifferentQueues":      {"The pods of the gang name different queues, and its PodGroup names none.", "Give all pods the same annotation scheduling.volcano.sh/queue-name and the same label muster.sh/user, or name a queue in the PodGroup.", afterOthers},
	"NotEnoughTasks":       {"Not all pods exist that start together.", "The missing pods are created. A ResourceQuota or an admission policy may be in their way. Or lower minMember.", afterOthers},
	"NotEnoughPodsOfTask":  {"Not all pods of a task exist that start together.", "The missing pods are created. A ResourceQuota or an admission policy may be in their way. Or lower minTaskMember.", afterOthers},
	"WaitingForQuota":      {"The queue has too little left of its capability.", "", notRuledOut},
	"WaitingForEvictions":  {"Pods were evicted to make room for it, and have not gone yet.", "Their grace period ends.", byItself},
	"Unschedulable":        {"The scheduler found no nodes for it.", "", notRuledOut},
	"SchedulerError":       {"An attempt failed, but not for lack of room.", "The scheduler tries again by itself.", byItself},
}

// inWords is the answer to "Can it ever run?".
var inWords = map[Ever]string{
	afterChange: "Not as it is. Waiting does not help: it has to be changed.",
	afterOthers: "Only when what is in the way is removed. Waiting alone does not help.",
	byItself:    "This wait ends by itself.",
	notRuledOut: "Nothing that was found rules it out.",
	notKnown:    "Not known: nothing has been found yet.",
}
