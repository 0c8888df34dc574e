package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Job is a set of tasks, each a set of pods of one template, whose pods start together.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=jobs,singular=job,shortName=vcjob;vj
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state.phase`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.runningOfMinimum`
// +kubebuilder:printcolumn:name="SUCCEEDED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="QUEUE",type=string,JSONPath=`.spec.queue`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="START",type=string,JSONPath=`.status.expectedStart`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.state.reason`,priority=1
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.state.message`,priority=1
// +kubebuilder:selectablefield:JSONPath=`.spec.queue`
// +kubebuilder:selectablefield:JSONPath=`.status.state.phase`
// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.tasks)",fieldPath=".spec.tasks",reason=FieldValueRequired,message="No task specified in job spec: name at least one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",messageExpression="\"create job with name \" + self.metadata.name + \" validate failed: metadata.name must be no more than 63 characters, as pods carry it as a label\"",message="create job with name validate failed: metadata.name must be no more than 63 characters, as pods carry it as a label"
type Job struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the Job should run, and how.
	// +optional
	Spec JobSpec `json:"spec,omitempty"`
	// Status is what has become of it; the job controller writes it.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// JobSpec says what a Job runs, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || !has(self.tasks) || self.minAvailable <= self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()",fieldPath=".minAvailable",message="job 'minAvailable' should not be greater than total replicas in tasks: lower it, or raise the replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.minSuccess) || !has(self.tasks) || self.minSuccess <= self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()",fieldPath=".minSuccess",message="'minSuccess' should not be greater than total replicas in tasks: lower it, or raise the replicas"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.tasks) || !has(self.tasks) || oldSelf.tasks.size() == self.tasks.size()",fieldPath=".tasks",message="job updates may not add or remove tasks: create a new job"
// +kubebuilder:validation:XValidation:rule="!has(self.tasks) || self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum() <= 150000",fieldPath=".tasks",message="a job may have 150000 pods in all tasks together, the most that Kubernetes supports in a cluster: lower the replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.policies) || !self.policies.exists(p, has(p.action) && p.action == 'RestartPartition') || !has(self.tasks) || self.tasks.exists(t, has(t.partitionPolicy))",fieldPath=".policies",message="invalid policy action: RestartPartition needs a task with a partitionPolicy: add one, or restart pod or task"
type JobSpec struct {
	// SchedulerName is the scheduler of the Job's pods where their template names none. Default: the controller's
	// --scheduler-name ("muster").
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// MinAvailable is the number of pods that start together or not at all. The Job is Running while at least as many run or have
	// succeeded. Default: the sum of the tasks' minAvailable.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinAvailable int32 `json:"minAvailable,omitempty"`

	// Volumes are mounted into every container of the Job.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(v, v.mountPath).distinct().size() == self.size()",message="duplicated mountPath: mount each volume somewhere else"
	// +optional
	Volumes []VolumeSpec `json:"volumes,omitempty"`

	// Tasks are the kinds of pods that the Job consists of.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="[self.map(t, has(t.name), t.name)].all(names, names.distinct().size() == names.size())",message="duplicated task name: give each task a name of its own"
	// +optional
	Tasks []TaskSpec `json:"tasks,omitempty"`

	// Policies answer events of the Job and of tasks whose own policies do not answer them.
	// +optional
	Policies LifecyclePolicies `json:"policies,omitempty"`

	// Plugins are the job plugins to use, by name, with their arguments as on a command line. There may be at most 64 for each, of at most
	// 65536 bytes. They are stored in plain text: each user who can read the Job can read a key among them.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Plugins map[string][]string `json:"plugins,omitempty"`

	// RunningEstimate is how long the user expects the Job to run, from the time when its minimum has nodes. It plans the starts of others. The
	// Job is not ended for it: activeDeadlineSeconds is the limit.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+([mnuµμ]?s|m|h))+)$') && duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="invalid duration: use a Go duration like 90s, 5m or 1h30m, not a negative one, of at most 8760h"
	// +optional
	RunningEstimate *metav1.Duration `json:"runningEstimate,omitempty"`

	// Queue that the Job waits and runs in.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	Queue string `json:"queue,omitempty"`

	// MaxRetry is the number of times that the Job runs in all before a restart makes it Failed. 0 means the default, 3.
	// The maximum keeps the counts of runs far from what 32 bits hold. With a run in ten minutes, a Job reaches it in 19 years.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxRetry int32 `json:"maxRetry,omitempty"`

	// TTLSecondsAfterFinished is how many seconds after its end the Job is deleted. Never when unset.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// PriorityClassName names the PriorityClass of the Job and of its pods whose template names none.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// MinSuccess is the number of succeeded pods that completes the Job.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinSuccess *int32 `json:"minSuccess,omitempty"`

	// NetworkTopology asks for the Job's pods to be near each other in the network. It is copied into the PodGroup when that is made.
	// +kubebuilder:validation:XValidation:rule="!(has(self.highestTierAllowed) && has(self.highestTierName))",message="must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: remove one"
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`

	// Suspend aborts the Job while true and resumes it when it becomes false again. An extra of Muster's.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// ActiveDeadlineSeconds is how many seconds after its start the Job is terminated if it has not ended. The time begins anew when the
	// Job is resumed.
	// Unlimited when unset, at most 2147483647. An extra of Muster's.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// NetworkTopologySpec asks for pods to be near each other in the network.
type NetworkTopologySpec struct {
	// Mode says whether the constraint must hold (hard) or should (soft).
	// +kubebuilder:default=hard
	// +optional
	Mode schedulingv1beta1.NetworkTopologyMode `json:"mode,omitempty"`
	// HighestTierAllowed is the highest network tier that pods may span. A lower tier is closer.
	// +kubebuilder:validation:Minimum=0
	// +optional
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`
	// HighestTierName names the highest network tier that pods may span; not together with highestTierAllowed.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HighestTierName string `json:"highestTierName,omitempty"`
}

// MaxReplicas is the most pods that all tasks of a Job may have together. Kubernetes supports no more in a cluster, and a gang of more
// could never start.
const MaxReplicas = 150_000

// VolumeSpec is one volume of a Job. It is a claim to be made (volumeClaim), an existing one (volumeClaimName), or
// else an emptyDir per pod.
type VolumeSpec struct {
	// MountPath is where the volume appears in the containers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[^:]+$`
	MountPath string `json:"mountPath"`
	// VolumeClaimName names the claim to mount. The controller fills it in where volumeClaim is set.
	// +kubebuilder:validation:XValidation:rule="self.matches('^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",messageExpression="\"invalid VolumeClaimName \" + self + \": use lower case letters, digits, hyphens and dots, as names of claims have\"",message="invalid VolumeClaimName: use lower case letters, digits, hyphens and dots, as names of claims have"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VolumeClaimName string `json:"volumeClaimName,omitempty"`
	// VolumeClaim describes a claim to make for the Job.
	// +optional
	VolumeClaim *corev1.PersistentVolumeClaimSpec `json:"volumeClaim,omitempty"`
}

// NumaPolicy asks the kubelet's topology manager for an alignment.
//
// +kubebuilder:validation:Enum="";none;best-effort;restricted;single-numa-node
type NumaPolicy string

// Iteration says how many of the named tasks are waited for.
//
// +kubebuilder:validation:Enum="";any;all
type Iteration string

// The iterations of a dependency.
const (
	// IterationAny waits for one of the tasks.
	IterationAny Iteration = "any"
	// IterationAll waits for all of the tasks. The default.
	IterationAll Iteration = "all"
)

// DependencyCondition says what is waited for.
//
// +kubebuilder:validation:Enum="";Completed;Ready
type DependencyCondition string

// The conditions of a dependency.
const (
	// DependencyCompleted waits until the tasks' pods have succeeded.
	DependencyCompleted DependencyCondition = "Completed"
	// DependencyReady waits until the tasks' minimum is running and ready.
	DependencyReady DependencyCondition = "Ready"
)

// DependsOn holds a task back until other tasks have come far enough.
type DependsOn struct {
	// Name lists the tasks to wait for.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Name []string `json:"name,omitempty"`
	// Iteration says whether to wait for any of the tasks or for all. Default all.
	// +optional
	Iteration Iteration `json:"iteration,omitempty"`
	// Condition says whether the tasks must have completed or only be ready. Default: the controller's flag
	// (Completed). An extra of Muster's.
	// +optional
	Condition DependencyCondition `json:"condition,omitempty"`
}

// PartitionPolicySpec divides the pods of a task into partitions of equal size.
//
// +kubebuilder:validation:XValidation:rule="!has(self.networkTopology) || !(has(self.networkTopology.highestTierAllowed) && has(self.networkTopology.highestTierName))",fieldPath=".networkTopology",message="must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: remove one"
type PartitionPolicySpec struct {
	// TotalPartitions is the number of partitions.
	// +kubebuilder:validation:Minimum=1
	TotalPartitions int32 `json:"totalPartitions"`
	// PartitionSize is the number of pods in each partition.
	// +kubebuilder:validation:Minimum=1
	PartitionSize int32 `json:"partitionSize"`
	// MinPartitions is the number of partitions that start together.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinPartitions int32 `json:"minPartitions,omitempty"`
	// NetworkTopology asks for the pods of each partition to be near each other.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
}

// TaskSpec is one kind of pods of a Job.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)",fieldPath=".minAvailable",messageExpression="\"'minAvailable' is greater than 'replicas' in task: \" + (has(self.name) ? self.name : \"(without a name)\") + \"; lower it, or raise the replicas\"",message="'minAvailable' is greater than 'replicas' in task: lower it, or raise the replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.partitionPolicy) || (has(self.replicas) ? self.replicas : 0) == self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize",fieldPath=".replicas",message="'replicas' are not equal to totalPartitions*partitionSize of the task's partitionPolicy: make them equal"
// +kubebuilder:validation:XValidation:rule="!has(self.partitionPolicy) || !has(self.partitionPolicy.minPartitions) || self.partitionPolicy.minPartitions == 0 || !has(self.minAvailable) || self.minAvailable == self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize",fieldPath=".minAvailable",message="'minAvailable' is not equal to minPartitions*partitionSize of the task's partitionPolicy: make them equal, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.policies) || has(self.partitionPolicy) || !self.policies.exists(p, has(p.action) && p.action == 'RestartPartition')",fieldPath=".policies",message="invalid policy action: RestartPartition needs a task with a partitionPolicy: add one, or restart pod or task"
type TaskSpec struct {
	// Name of the task. Default: "default" and the task's index.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Name string `json:"name,omitempty"`
	// Replicas is the number of pods of the task. All tasks together have at most 150000, the most that Kubernetes supports in a cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=150000
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// MinAvailable is the number of the task's pods that start with the Job. Default: replicas, or
	// minPartitions*partitionSize. It binds only if the Job's minAvailable is at least the sum of its tasks'.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Template of the task's pods.
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// Policies answer events of the task's pods, before the Job's policies are asked.
	// +optional
	Policies LifecyclePolicies `json:"policies,omitempty"`
	// TopologyPolicy is handed on to the pods as an annotation. It chooses no node: the kubelet's topology manager decides.
	// +optional
	TopologyPolicy NumaPolicy `json:"topologyPolicy,omitempty"`
	// MaxRetry is the number of container restarts that raises TaskFailed. 0 means the default, 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxRetry int32 `json:"maxRetry,omitempty"`
	// DependsOn holds the task back until other tasks have come far enough.
	// +optional
	DependsOn *DependsOn `json:"dependsOn,omitempty"`
	// PartitionPolicy divides the task's pods into partitions.
	// +optional
	PartitionPolicy *PartitionPolicySpec `json:"partitionPolicy,omitempty"`
}

// LifecyclePolicies is a list of policies; the first that matches an event answers it.
//
// +listType=atomic
// +kubebuilder:validation:MaxItems=20
// +kubebuilder:validation:XValidation:rule="[self.map(p, has(p.event), p.event) + self.map(p, has(p.events), p.events.distinct()).flatten()].all(names, names.distinct().size() == names.size())",message="duplicate event across different policies: name each event once"
// +kubebuilder:validation:XValidation:rule="[self.map(p, has(p.exitCode), p.exitCode)].all(codes, codes.distinct().size() == codes.size())",message="duplicate exitCode: name each exit code once"
// +kubebuilder:validation:XValidation:rule="!self.exists(p, (has(p.event) && p.event == '*') || (has(p.events) && '*' in p.events)) || self.all(p, (has(p.exitCode) || (has(p.event) ? p.event in ['*','TaskCompleted','PodPending','JobUpdated'] : true) && (has(p.events) ? p.events.all(e, e in ['*','TaskCompleted','PodPending','JobUpdated']) : true)))",message="if there's * here, no other policy should be here that is for a failure: * stands for all of them"
type LifecyclePolicies []LifecyclePolicy

// LifecyclePolicy answers an event, or a container's exit code, with an action.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.exitCode) && (has(self.event) || has(self.events)))",message="must not specify event and exitCode simultaneously: make two policies"
// +kubebuilder:validation:XValidation:rule="has(self.exitCode) || has(self.event) || has(self.events) && self.events.size() > 0",message="either event and exitCode should be specified: name an event, or an exit code"
// +kubebuilder:validation:XValidation:rule="!has(self.exitCode) || self.exitCode != 0",fieldPath=".exitCode",message="0 is not a valid error code: name a code that means failure"
// +kubebuilder:validation:XValidation:rule="has(self.action) && self.action in ['AbortJob','RestartJob','RestartTask','RestartPod','RestartPartition','TerminateJob','CompleteJob','ResumeJob']",fieldPath=".action",message="invalid policy action: use AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob; to do nothing (None), leave the policy out; SyncJob and UpdateJob happen to every job by themselves"
// +kubebuilder:validation:XValidation:rule="!has(self.action) || !(self.action in ['RestartTask','RestartPod','RestartPartition']) || ((has(self.event) ? [self.event] : []) + (has(self.events) ? self.events : [])).all(e, !(e in ['Unknown','JobUpdated']) && (self.action == 'RestartTask' || !(e in ['TaskCompleted','TaskFailed'])))",fieldPath=".action",message="invalid policy action: Unknown and JobUpdated are about no single task, and TaskCompleted and TaskFailed about no single pod or partition: restart more, or the job"
// +kubebuilder:validation:XValidation:rule="!((has(self.event) && self.event == 'PodPending') || (has(self.events) && 'PodPending' in self.events)) || has(self.timeout)",fieldPath=".timeout",message="a policy for PodPending needs a timeout: say how long a pod may be pending"
type LifecyclePolicy struct {
	// Action to take: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob. There is no
	// action None: leave the policy out. SyncJob and UpdateJob are no actions of policies: every change of the Job or of its pods leads to
	// them.
	// +optional
	Action busv1alpha1.Action `json:"action,omitempty"`
	// Event that is answered. PodFailed and TaskCompleted need pods that can end. Under restartPolicy Always, the default, the
	// containers of a pod are started again for ever.
	// +optional
	Event busv1alpha1.Event `json:"event,omitempty"`
	// Events that are answered, any of them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Events []busv1alpha1.Event `json:"events,omitempty"`
	// ExitCode of a failed container that is answered. It needs pods that can fail, as PodFailed does.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Timeout is how long to wait before the action is taken. At once when unset.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+([mnuµμ]?s|m|h))+)$') && duration(self) >= duration('0s')",message="invalid duration: use a Go duration like 90s, 5m or 1h30m, not a negative one"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// JobPhase says where a Job is in its life.
//
// +kubebuilder:validation:Enum=Pending;Aborting;Aborted;Running;Restarting;Completing;Completed;Terminating;Terminated;Failed
type JobPhase string

// The phases of a Job.
const (
	// Pending: the Job waits for its queue, its pods or room for them.
	Pending JobPhase = "Pending"
	// Aborting: the Job is being aborted; its pods are going.
	Aborting JobPhase = "Aborting"
	// Aborted: the Job was aborted; it can be resumed.
	Aborted JobPhase = "Aborted"
	// Running: the Job's minimum runs or has succeeded.
	Running JobPhase = "Running"
	// Restarting: the pods of the last run are going; new ones will be created.
	Restarting JobPhase = "Restarting"
	// Completing: the Job's work is done; the rest of its pods are going.
	Completing JobPhase = "Completing"
	// Completed: the Job has succeeded.
	Completed JobPhase = "Completed"
	// Terminating: the Job is being terminated; its pods are going.
	Terminating JobPhase = "Terminating"
	// Terminated: the Job was terminated; it cannot be resumed.
	Terminated JobPhase = "Terminated"
	// Failed: the Job has ended without success, or ran out of retries.
	Failed JobPhase = "Failed"
)

// JobState is the phase of a Job and why it is in it.
type JobState struct {
	// Phase of the Job.
	// +optional
	Phase JobPhase `json:"phase,omitempty"`
	// Reason is a one-word, CamelCase reason for the phase, or for what the Job waits for.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason to people.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when the phase last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// JobCondition records when a Job entered a phase.
type JobCondition struct {
	// Status is the phase that was entered.
	Status JobPhase `json:"status"`
	// LastTransitionTime is when the phase was entered last.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is a one-word, CamelCase reason for entering the phase. An extra of Muster's.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason to people. An extra of Muster's.
	// +optional
	Message string `json:"message,omitempty"`
}

// TaskState counts the pods of a task.
type TaskState struct {
	// Phase maps a pod phase (Pending, Running, Succeeded, Failed, Unknown) to the number of the task's pods in it.
	// +optional
	Phase map[corev1.PodPhase]int32 `json:"phase,omitempty"`
}

// TaskRecord says which pods of one task have been created and have finished in the current incarnation. With it, a restarted controller
// tells an evicted pod from one that was never created. It runs no finished pod again. Sets of indexes are in the interval notation of
// batch/v1's completedIndexes ("0-4,7"). A long one is a bitmap instead, where that is shorter: "base64:" and bytes in base64 without
// padding. Bit i%8 of byte i/8, counted from the least significant bit, stands for index i. An extra of Muster's.
type TaskRecord struct {
	// Name of the task.
	Name string `json:"name"`
	// Created are the indexes whose pod was created.
	// +optional
	Created string `json:"created,omitempty"`
	// Succeeded are the indexes whose pod has succeeded.
	// +optional
	Succeeded string `json:"succeeded,omitempty"`
	// Failed are the indexes whose pod has failed.
	// +optional
	Failed string `json:"failed,omitempty"`
	// Completed says that all pods had succeeded when the policies were last asked.
	// +optional
	Completed bool `json:"completed,omitempty"`
	// Replaced are the pods that the controller deletes to replace them, until each has a successor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Replaced []ReplacedPods `json:"replaced,omitempty"`
	// Handled maps an index to the UID of its replaced pod. Only earlier versions wrote it. It is read where replaced is absent. So
	// an upgrade in the middle of a restart does not mistake a deleted pod for an evicted one.
	// +optional
	Handled map[string]string `json:"handled,omitempty"`
}

// ReplacedPods are pods of a task that are to go, or have gone, and that new ones replace. An extra of Muster's.
type ReplacedPods struct {
	// Generation of the pods: pods of this generation and of older ones are meant.
	Generation int32 `json:"generation"`
	// Indexes of the pods: a set as in TaskRecord.
	Indexes string `json:"indexes"`
}

// RestartBackoff keeps a Job that fails, or is evicted, again and again from being started anew at once. A restart in a row counts once,
// however many pods it is about. An extra of Muster's.
type RestartBackoff struct {
	// Count is the number of restarts in a row.
	Count int32 `json:"count"`
	// Generation is status.podGeneration after the last of them. Pods that were created later have this generation or a later one.
	Generation int32 `json:"generation"`
	// Succeeded is the number of pods that had succeeded by then and were not started anew. When there are more, the Job has got on.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Last is when the last of them was.
	Last metav1.Time `json:"last"`
	// Until is when pods are created again. Absent: at once.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// DelayedEvent is an event whose policy has a timeout and has not been carried out yet. It is stored, so that the policy acts in time after
// a restart of the controller, too. An extra of Muster's.
type DelayedEvent struct {
	// Event that the policy will answer.
	Event busv1alpha1.Event `json:"event"`
	// Task that it happened to; empty if the Job as a whole is concerned.
	// +optional
	Task string `json:"task,omitempty"`
	// Indexes of the task's pods that it happened to, a set as in TaskRecord. It is empty if no single pod is concerned.
	// +optional
	Indexes string `json:"indexes,omitempty"`
	// ExitCode of the pods, for PodFailed.
	// +optional
	ExitCode int32 `json:"exitCode,omitempty"`
	// Since is the time that the policy's timeout counts from.
	Since metav1.Time `json:"since"`
}

// JobStatus is what has become of a Job.
type JobStatus struct {
	// State is the phase and why the Job is in it.
	// +optional
	State JobState `json:"state,omitempty"`
	// MinAvailable is spec.minAvailable with its default.
	// +optional
	MinAvailable int32 `json:"minAvailable"`
	// TaskStatusCount counts the pods of each task by phase.
	// +optional
	TaskStatusCount map[string]TaskState `json:"taskStatusCount,omitempty"`
	// Pending is the number of pods in phase Pending.
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// Running is the number of pods in phase Running.
	// +optional
	Running int32 `json:"running"`
	// Succeeded is the number of pods in phase Succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is the number of pods in phase Failed.
	// +optional
	Failed int32 `json:"failed"`
	// Terminating is the number of pods that are being deleted.
	// +optional
	Terminating int32 `json:"terminating,omitempty"`
	// Unknown is the number of pods in phase Unknown.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
	// RunningOfMinimum is running and minAvailable as one text, "2/4", for the column READY. It is written when another field of the
	// status changes. A Job that an earlier release wrote last has none. An extra of Muster's.
	// +optional
	RunningOfMinimum string `json:"runningOfMinimum,omitempty"`
	// Version is the incarnation of the Job; pods of an earlier one do not count.
	// +optional
	Version int32 `json:"version,omitempty"`
	// RetryCount is how often the Job was restarted.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`
	// PodGeneration grows when pods are recorded as replaced, and when the Job restarts. Pods carry the value that it has when they
	// are created. An extra of Muster's.
	// +optional
	PodGeneration int32 `json:"podGeneration,omitempty"`
	// RestartBackoff says how often the Job was restarted in a row, and when pods are created again. An extra of Muster's.
	// +optional
	RestartBackoff *RestartBackoff `json:"restartBackoff,omitempty"`
	// RunningDuration is how long the Job has run, without the time for which it was aborted. It is written when the Job is aborted and
	// when it ends.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+([mnuµμ]?s|m|h))+)$') && duration(self) <= duration('2562047h47m16.854775807s')",message="invalid duration: use a Go duration like 90s, 5m or 1h30m"
	// +optional
	RunningDuration *metav1.Duration `json:"runningDuration,omitempty"`
	// ControlledResources lists what was made for the Job: "plugin-<name>" and "volume-pvc-<claim>".
	// +optional
	ControlledResources map[string]string `json:"controlledResources,omitempty"`
	// Conditions record when the Job entered each phase, the latest last.
	// +listType=map
	// +listMapKey=status
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`
	// TaskRecords remember what has been handled in the current incarnation. An extra of Muster's.
	// +listType=atomic
	// +optional
	TaskRecords []TaskRecord `json:"taskRecords,omitempty"`
	// Delayed is what has happened and is answered later, because its policy has a timeout. An extra of Muster's.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Delayed []DelayedEvent `json:"delayed,omitempty"`
	// HandledSpec identifies the spec that policies for JobUpdated were last asked about: its generation and a hash. An
	// extra of Muster's.
	// +optional
	HandledSpec string `json:"handledSpec,omitempty"`
	// HandledCommand is the UID of the Command that was executed last. An extra of Muster's.
	// +optional
	HandledCommand string `json:"handledCommand,omitempty"`
	// ExpectedStart is when a Job that is Pending is expected to start. Its PodGroup says it first, and status.plan there has the range.
	// Absent: no start is known. An extra of Muster's.
	// +optional
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
	// StartTime is when the Job first became Running, or was resumed after that. An extra of Muster's.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the Job ended. An extra of Muster's.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// JobList is a list of Jobs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type JobList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Jobs.
	Items []Job `json:"items"`
}
