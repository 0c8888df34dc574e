package explain

// prospect says whether something that waits can ever go on.
type prospect int

const (
	// byItself: it goes on when other things end or come about.
	byItself prospect = iota
	// afterFix: it never goes on as it is; its owner has to change it.
	afterFix
	// afterAdmin: it goes on when an administrator, or the owner of another object, does something.
	afterAdmin
	// byAmounts: amounts say.
	byAmounts
)

// cause is what a reason means.
type cause struct {
	// means says what is in the way.
	means string
	// frees says what would help.
	frees string
	// ever says whether it can go on.
	ever prospect
}

// jobCauses has a row for each reason that a Job waits for, of status.state.reason.
var jobCauses = map[string]cause{
	"Invalid":               {"The Job contradicts itself.", "Correct the field that the message names. Where it cannot be changed, delete the Job and create it anew.", afterFix},
	"NotSupported":          {"It asks for something that Muster does not have.", "Remove what the message names, delete it and create it anew.", afterFix},
	"QueueNotFound":         {"The queue of the Job does not exist.", "Create the queue, or create the Job anew in a queue that exists.", afterAdmin},
	"QueueIsRoot":           {"The root queue takes no Jobs.", "Create the Job anew in another queue.", afterFix},
	"QueueHasChildren":      {"A queue that has queues below it takes no Jobs.", "Create the Job anew in one of the queues below it.", afterFix},
	"QueueNotOpen":          {"The queue is closed.", "Open it with muster queue open, or create the Job anew in another queue.", afterAdmin},
	"ClaimNotFound":         {"A volume names a PersistentVolumeClaim that does not exist.", "Create the claim.", afterAdmin},
	"FailedCreate":          {"The API server refuses the Job's pods.", "Correct what the message names: often a ResourceQuota, an admission policy or a field of the pod template. It is tried again.", afterAdmin},
	"FailedDelete":          {"The API server refuses to delete a pod.", "Look at the message. It is tried again.", afterAdmin},
	"PodGroupError":         {"The API server refuses the Job's PodGroup.", "Look at the message. It is tried again.", afterAdmin},
	"PVCError":              {"The API server refuses a PersistentVolumeClaim of the Job.", "Correct what the message names. It is tried again.", afterAdmin},
	"PluginError":           {"An object of a Job plugin cannot be made.", "Correct what the message names. It is tried again.", afterAdmin},
	"PodGroupNameTaken":     {"A PodGroup of the name that the Job needs belongs to another owner.", "Delete that PodGroup.", afterAdmin},
	"ClaimNameTaken":        {"A PersistentVolumeClaim of the name that the Job needs belongs to another owner.", "Delete that claim, or name another.", afterAdmin},
	"PluginObjectNameTaken": {"An object of the name that a plugin needs belongs to another owner.", "Delete that object, or give the Job another name.", afterAdmin},
	"PodDoesNotTerminate":   {"A pod of an earlier run does not end.", "Look at its node and its finalizers. If the node is gone for good, delete the Node object.", afterAdmin},
	"WaitingForEarlierPods": {"Pods of an earlier Job of this name are still ending.", "They end within their grace period.", byItself},
	"BackOff":               {"The Job failed or was evicted again and again, so it starts later each time.", "The time in the message comes.", byItself},
	"PodNotStarted":         {"A pod has a node and does not start there.", "Look at the pod's events: often an image that cannot be pulled, or a volume that cannot be mounted.", afterAdmin},
	"WaitingForDependency":  {"A task waits for other tasks.", "The tasks that the message names make progress.", byItself},
	"SchedulerNotServed":    {"The pods name a scheduler that does not keep gangs together.", "Leave schedulerName out, or name one of Muster's, and create the Job anew.", afterFix},
	"QuotaExceeded":         {"The queue, or the user, has no quota left for the minimum, so no pod is created.", "", byAmounts},
	"PodGroupPending":       {"The queue has not admitted the Job, so no pod is created.", "", byAmounts},
	"Unschedulable":         {"The queue has admitted the Job, but its minimum cannot start.", "", byAmounts},
}

// podCauses has a row for each reason that a pod waits for, of the condition PodScheduled.
var podCauses = map[string]cause{
	"SchedulingGated":      {"The pod has scheduling gates, and the scheduler does not look at it before they are gone.", "The controller that set the gates removes them.", afterAdmin},
	"WaitingForPodGroup":   {"The PodGroup that the pod names does not exist.", "Create the PodGroup, or correct the annotation scheduling.k8s.io/group-name.", afterAdmin},
	"WaitingForController": {"The pod names no PodGroup, and muster-controller has not made one for it yet.", "muster-controller makes it. If that does not happen, look at the pod's events, and whether muster-controller runs. It makes PodGroups for the scheduler names of its flag --podgroup-scheduler-names.", afterAdmin},
	"WaitingForAdmission":  {"The queue has not admitted the gang.", "", byAmounts},
	"DifferentQueues":      {"The pods of the gang name different queues, and its PodGroup names none.", "Give all pods the same annotation scheduling.volcano.sh/queue-name and the same label muster.sh/user, or name a queue in the PodGroup.", afterAdmin},
	"NotEnoughTasks":       {"Fewer pods exist than start together.", "The missing pods are created. A ResourceQuota or an admission policy may be in their way. Or lower minMember.", afterAdmin},
	"NotEnoughPodsOfTask":  {"Fewer pods of a task exist than start together.", "The missing pods are created. A ResourceQuota or an admission policy may be in their way. Or lower minTaskMember.", afterAdmin},
	"WaitingForQuota":      {"The queue has less left of its capability than the whole minimum needs.", "", byAmounts},
	"WaitingForEvictions":  {"Pods were evicted to make room for it, and have not gone yet.", "Their grace period ends.", byItself},
	"Unschedulable":        {"The nodes have no room for the whole minimum.", "", byAmounts},
	"SchedulerError":       {"An attempt failed, but not for lack of room.", "The scheduler tries again by itself.", byItself},
}

// inWords is the answer to "Can it ever run?" for what amounts do not decide.
var inWords = map[prospect]string{
	byItself:   "Yes. It goes on by itself.",
	afterFix:   "Not as it is. Waiting does not help: it has to be changed.",
	afterAdmin: "Yes, but only when what is in the way is removed. Waiting alone does not help.",
}
