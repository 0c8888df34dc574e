package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

const smallJob = `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: small}
spec:
  tasks:
  - {name: main, replicas: 2, template: {spec: {containers: [{name: main, image: main}]}}}
`

const smallPodGroup = `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: small}
`

const smallQueue = `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: small}
`

const smallCommand = `
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: small}
action: AbortJob
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: u}
`

const smallHyperNode = `
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: small}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: node-0}}}]}
`

const smallTopology = `
apiVersion: muster.sh/v1alpha1
kind: NetworkTopology
metadata: {name: small}
spec: {levels: [{nodeLabel: spine}, {nodeLabel: example.com/leaf}]}
`

const smallReview = `
apiVersion: muster.sh/v1alpha1
kind: StartReview
metadata: {name: small}
spec: {job: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}, spec: {tasks: [{replicas: 1}]}}}
`

// groupInstead has smallReview ask about a PodGroup.
const groupInstead = `spec: {job: null, podGroup: {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: a}, spec: {queue: red}}}`

// member makes a HyperNode patch of a member.
func member(text string) string { return "spec: {members: [" + text + "]}" }

const smallPhJobSpec = `{displayName: d, userId: u, groupId: g, groupName: phusers, instanceType: t, image: i, command: c}`

const smallPhJob = `
apiVersion: primehub.io/v1alpha1
kind: PhJob
metadata: {name: small}
spec: ` + smallPhJobSpec

const smallPhSchedule = `
apiVersion: primehub.io/v1alpha1
kind: PhSchedule
metadata: {name: small}
spec: {recurrence: {type: daily}, jobTemplate: {spec: ` + smallPhJobSpec + `}}
`

// rule is one thing that CEL rules say about objects: a patch that keeps it, and one that breaks it.
type rule struct {
	base           string
	keeps          []string
	breaks         string
	field, message string
}

// policies makes a Job patch of job policies.
func policies(list string) string { return "spec: {policies: [" + list + "]}" }

var rules = map[string]rule{
	"a Job has tasks": {
		base:    smallJob,
		keeps:   []string{`{}`},
		breaks:  `spec: {tasks: null}`,
		field:   "spec.tasks",
		message: "No task specified in job spec",
	},
	"a Job's name fits into a label": {
		base:    smallJob,
		keeps:   []string{`metadata: {name: ` + strings.Repeat("n", 56) + `}`}, // with -main-1 a pod's name is as long as it may be
		breaks:  `metadata: {name: ` + strings.Repeat("n", 64) + `}`,
		field:   "<nil>", // how the API server names the whole object
		message: "validate failed: metadata.name must be no more than 63 characters",
	},
	"minAvailable is at most the sum of the replicas": {
		base:    smallJob,
		keeps:   []string{`spec: {minAvailable: 2}`, `spec: {minAvailable: 0}`},
		breaks:  `spec: {minAvailable: 3}`,
		field:   "spec.minAvailable",
		message: "should not be greater than total replicas in tasks: lower it, or raise the replicas",
	},
	"minSuccess is at most the sum of the replicas": {
		base:    smallJob,
		keeps:   []string{`spec: {minSuccess: 2}`},
		breaks:  `spec: {minSuccess: 3}`,
		field:   "spec.minSuccess",
		message: "should not be greater than total replicas in tasks: lower it, or raise the replicas",
	},
	"a Job has no more pods than a cluster": {
		base:    smallJob,
		keeps:   []string{`spec: {tasks: [{name: a, replicas: 149999}, {name: b, replicas: 1}]}`, `spec: {tasks: [{replicas: 150000}]}`},
		breaks:  `spec: {tasks: [{name: a, replicas: 150000}, {name: b, replicas: 1}]}`,
		field:   "spec.tasks",
		message: "a job may have 150000 pods in all tasks together",
	},
	"a Job names one tier": {
		base:    smallJob,
		keeps:   []string{`spec: {networkTopology: {highestTierAllowed: 1}}`, `spec: {networkTopology: {highestTierName: rack}}`},
		breaks:  `spec: {networkTopology: {highestTierAllowed: 1, highestTierName: rack}}`,
		field:   "spec.networkTopology",
		message: "simultaneously: remove one",
	},
	"task names differ": {
		base:    smallJob,
		keeps:   []string{`spec: {tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}]}`, `spec: {tasks: [{replicas: 1}, {replicas: 1}]}`},
		breaks:  `spec: {tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}, {name: a, replicas: 1}]}`,
		field:   "spec.tasks",
		message: "duplicated task name: give each task a name of its own",
	},
	"mount paths differ": {
		base:    smallJob,
		keeps:   []string{`spec: {volumes: [{mountPath: /a}, {mountPath: /b}]}`},
		breaks:  `spec: {volumes: [{mountPath: /a}, {mountPath: /a}]}`,
		field:   "spec.volumes",
		message: "duplicated mountPath: mount each volume somewhere else",
	},
	"the name of a claim is one that a claim can have": {
		base:    smallJob,
		keeps:   []string{`spec: {volumes: [{mountPath: /a, volumeClaimName: a.b-c}]}`, `spec: {volumes: [{mountPath: /a, volumeClaimName: ""}]}`},
		breaks:  `spec: {volumes: [{mountPath: /a, volumeClaimName: A}]}`,
		field:   "spec.volumes[0].volumeClaimName",
		message: "invalid VolumeClaimName",
	},
	"a task's minAvailable is at most its replicas": {
		base:    smallJob,
		keeps:   []string{`spec: {tasks: [{replicas: 2, minAvailable: 2}]}`, `spec: {tasks: [{replicas: 2, minAvailable: 0}]}`},
		breaks:  `spec: {tasks: [{replicas: 9}, {replicas: 2, minAvailable: 3}]}`,
		field:   "spec.tasks[1].minAvailable",
		message: "greater than 'replicas' in task",
	},
	"partitions make up the replicas": {
		base:    smallJob,
		keeps:   []string{`spec: {tasks: [{replicas: 6, partitionPolicy: {totalPartitions: 3, partitionSize: 2}}]}`},
		breaks:  `spec: {tasks: [{replicas: 5, partitionPolicy: {totalPartitions: 3, partitionSize: 2}}]}`,
		field:   "spec.tasks[0].replicas",
		message: "totalPartitions*partitionSize",
	},
	"the least partitions make up the task's minAvailable": {
		base: smallJob,
		keeps: []string{
			`spec: {tasks: [{replicas: 6, minAvailable: 4, partitionPolicy: {totalPartitions: 3, partitionSize: 2, minPartitions: 2}}]}`,
			`spec: {tasks: [{replicas: 6, minAvailable: 5, partitionPolicy: {totalPartitions: 3, partitionSize: 2}}]}`,
		},
		breaks:  `spec: {tasks: [{replicas: 6, minAvailable: 5, partitionPolicy: {totalPartitions: 3, partitionSize: 2, minPartitions: 2}}]}`,
		field:   "spec.tasks[0].minAvailable",
		message: "make them equal, or leave it out",
	},
	"a partition names one tier": {
		base:    smallJob,
		keeps:   []string{`spec: {tasks: [{replicas: 2, partitionPolicy: {totalPartitions: 1, partitionSize: 2, networkTopology: {highestTierName: rack}}}]}`},
		breaks:  `spec: {tasks: [{replicas: 2, partitionPolicy: {totalPartitions: 1, partitionSize: 2, networkTopology: {highestTierName: rack, highestTierAllowed: 1}}}]}`,
		field:   "spec.tasks[0].partitionPolicy.networkTopology",
		message: "simultaneously: remove one",
	},
	"an event has one policy": {
		base:    smallJob,
		keeps:   []string{policies(`{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: RestartJob}`)},
		breaks:  policies(`{event: PodFailed, action: RestartJob}, {event: PodFailed, action: AbortJob}`),
		field:   "spec.policies",
		message: "duplicate event across different policies: name each event once",
	},
	"an event has one policy, in lists too": {
		base:    smallJob,
		keeps:   []string{policies(`{events: [PodFailed, PodEvicted], action: RestartJob}, {events: [TaskCompleted], action: CompleteJob}`)},
		breaks:  policies(`{events: [PodFailed, PodEvicted], action: RestartJob}, {events: [PodEvicted, Unknown], action: AbortJob}`),
		field:   "spec.policies",
		message: "duplicate event across different policies: name each event once",
	},
	"an exit code has one policy": {
		base:    smallJob,
		keeps:   []string{policies(`{exitCode: 3, action: RestartJob}, {exitCode: 4, action: AbortJob}`)},
		breaks:  policies(`{exitCode: 3, action: RestartJob}, {exitCode: 3, action: AbortJob}`),
		field:   "spec.policies",
		message: "duplicate exitCode: name each exit code once",
	},
	"* stands for all failures": {
		base: smallJob,
		keeps: []string{
			policies(`{event: "*", action: RestartJob}`),
			policies(`{events: ["*"], action: RestartJob}`),
			policies(`{event: "*", action: RestartJob}, {event: TaskCompleted, action: CompleteJob}`),
			policies(`{event: "*", action: RestartJob}, {event: JobUpdated, action: ResumeJob}`),
			policies(`{event: "*", action: RestartJob}, {exitCode: 3, action: AbortJob}`),
		},
		breaks:  policies(`{event: "*", action: RestartJob}, {event: PodFailed, action: AbortJob}`),
		field:   "spec.policies",
		message: "* stands for all of them",
	},
	"a policy is for an event or an exit code": {
		base:    smallJob,
		keeps:   []string{policies(`{event: PodFailed, action: RestartJob}, {exitCode: 3, action: AbortJob}`)},
		breaks:  policies(`{event: PodFailed, exitCode: 3, action: RestartJob}`),
		field:   "spec.policies[0]",
		message: "must not specify event and exitCode simultaneously: make two policies",
	},
	"a policy is for something": {
		base:    smallJob,
		keeps:   []string{policies(`{exitCode: -1, action: RestartJob}`)},
		breaks:  policies(`{event: PodFailed, action: RestartJob}, {action: RestartJob}`),
		field:   "spec.policies[1]",
		message: "either event and exitCode should be specified: name an event, or an exit code",
	},
	"an exit code means failure": {
		base:    smallJob,
		keeps:   []string{policies(`{exitCode: 1, action: RestartJob}`)},
		breaks:  policies(`{exitCode: 0, action: RestartJob}`),
		field:   "spec.policies[0].exitCode",
		message: "0 is not a valid error code: name a code that means failure",
	},
	"an action is one that a policy can take": {
		base: smallJob,
		keeps: []string{policies(`{exitCode: 1, action: AbortJob}, {exitCode: 2, action: RestartJob}, {exitCode: 3, action: RestartTask},
			{exitCode: 4, action: RestartPod}, {exitCode: 6, action: TerminateJob},
			{exitCode: 7, action: CompleteJob}, {exitCode: 8, action: ResumeJob}`)},
		breaks: policies(`{exitCode: 3, action: SyncJob}`),
		field:  "spec.policies[0].action",
		message: "invalid policy action: use AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob;" +
			" to do nothing (None), leave the policy out; SyncJob and UpdateJob happen to every job by themselves",
	},
	"an action restarts no less than the event is about": {
		base: smallJob,
		keeps: []string{policies(`{events: [TaskCompleted, TaskFailed], action: RestartTask}, {events: [PodFailed, PodEvicted], action: RestartPod}`),
			policies(`{events: [Unknown, JobUpdated, TaskCompleted], action: RestartJob}`)},
		breaks:  policies(`{events: [PodFailed, JobUpdated], action: RestartTask}`),
		field:   "spec.policies[0].action",
		message: "invalid policy action: Unknown and JobUpdated are about no single task",
	},
	"a task whose partitions are restarted has some": {
		base:    smallJob,
		breaks:  `spec: {tasks: [{name: main, replicas: 2, policies: [{event: PodFailed, action: RestartPartition}]}]}`,
		field:   "spec.tasks[0].policies",
		message: "invalid policy action: RestartPartition needs a task with a partitionPolicy",
	},
	"a Job whose partitions are restarted has some": {
		base:    smallJob,
		breaks:  policies(`{event: PodFailed, action: RestartPartition}`),
		field:   "spec.policies",
		message: "invalid policy action: RestartPartition needs a task with a partitionPolicy",
	},
	"waiting for a pod to start has a limit": {
		base:    smallJob,
		keeps:   []string{policies(`{event: PodPending, action: RestartPod, timeout: 5m}`)},
		breaks:  policies(`{event: PodPending, action: RestartPod}`),
		field:   "spec.policies[0].timeout",
		message: "a policy for PodPending needs a timeout",
	},
	"minRuntime is at most a year": {
		base:    smallQueue,
		keeps:   []string{`spec: {muster: {minRuntime: 0s}}`, `spec: {muster: {minRuntime: 8760h}}`},
		breaks:  `spec: {muster: {minRuntime: 8760h1s}}`,
		field:   "spec.muster.minRuntime",
		message: "minRuntime is from 0s to 8760h",
	},
	"minRuntime is not negative": {
		base:    smallQueue,
		breaks:  `spec: {muster: {minRuntime: -1s}}`,
		field:   "spec.muster.minRuntime",
		message: "minRuntime is from 0s to 8760h",
	},
	"preemptionDelay is at most a year": {
		base:    smallQueue,
		keeps:   []string{`spec: {muster: {preemptionDelay: 0s}}`, `spec: {muster: {preemptionDelay: 8760h}}`},
		breaks:  `spec: {muster: {preemptionDelay: 8760h1s}}`,
		field:   "spec.muster.preemptionDelay",
		message: "preemptionDelay is from 0s to 8760h",
	},
	"preemptionDelay is not negative": {
		base:    smallQueue,
		breaks:  `spec: {muster: {preemptionDelay: -1s}}`,
		field:   "spec.muster.preemptionDelay",
		message: "preemptionDelay is from 0s to 8760h",
	},
	"defaultRuntime is at most a year": {
		base:    smallQueue,
		keeps:   []string{`spec: {muster: {defaultRuntime: 1s}}`, `spec: {muster: {defaultRuntime: 8760h}}`},
		breaks:  `spec: {muster: {defaultRuntime: 8760h1s}}`,
		field:   "spec.muster.defaultRuntime",
		message: "defaultRuntime is above 0s and at most 8760h",
	},
	"defaultRuntime is not zero": {
		base:    smallQueue,
		breaks:  `spec: {muster: {defaultRuntime: 0s}}`,
		field:   "spec.muster.defaultRuntime",
		message: "defaultRuntime is above 0s and at most 8760h",
	},
	"an estimate is at most a year": {
		base:    smallJob,
		keeps:   []string{`spec: {runningEstimate: 8760h}`, `spec: {runningEstimate: 0s}`},
		breaks:  `spec: {runningEstimate: 87600h}`,
		field:   "spec.runningEstimate",
		message: "of at most 8760h",
	},
	"a duration is one that Go can read": {
		base: smallJob,
		keeps: []string{
			policies(`{event: PodFailed, action: RestartJob, timeout: 0s}, {event: PodEvicted, action: RestartJob, timeout: 1h1m1.5s}`),
			`spec: {runningEstimate: 36h}`,
		},
		breaks:  policies(`{event: PodFailed, action: RestartJob, timeout: 1d}`),
		field:   "spec.policies[0].timeout",
		message: "invalid duration: use a Go duration like 90s, 5m or 1h30m",
	},
	"a PodGroup names one tier": {
		base:    smallPodGroup,
		keeps:   []string{`spec: {networkTopology: {highestTierName: rack}}`, `{}`},
		breaks:  `spec: {networkTopology: {highestTierName: rack, highestTierAllowed: 0}}`,
		field:   "spec.networkTopology",
		message: "simultaneously: remove one",
	},
	"a sub group names one tier": {
		base:    smallPodGroup,
		keeps:   []string{`spec: {subGroupPolicy: [{name: a, networkTopology: {highestTierName: rack}}]}`},
		breaks:  `spec: {subGroupPolicy: [{name: a, networkTopology: {highestTierName: rack, highestTierAllowed: 0}}]}`,
		field:   "spec.subGroupPolicy[0].networkTopology",
		message: "in subGroupPolicy",
	},
	"a Command names what can exist": {
		base: smallCommand,
		keeps: []string{
			`target: {name: ` + strings.Repeat("n", 253) + `, uid: ` + strings.Repeat("u", 128) + `}`,
		},
		breaks:  `target: {name: ` + strings.Repeat("n", 254) + `}`,
		field:   "target",
		message: "is longer than that of any object",
	},
	"a queue is not its own parent": {
		base:    smallQueue,
		keeps:   []string{`spec: {parent: other}`, `spec: {parent: ""}`, `{}`},
		breaks:  `spec: {parent: small}`,
		field:   "spec.parent",
		message: "name another queue, or leave it empty for root",
	},
	"a PhSchedule's name fits into a label": {
		base:    smallPhSchedule,
		keeps:   []string{`metadata: {name: ` + strings.Repeat("n", 63) + `}`},
		breaks:  `metadata: {name: ` + strings.Repeat("n", 64) + `}`,
		field:   "<nil>",
		message: "metadata.name must be no more than 63 characters: PhJobs carry it as a label",
	},
	"a custom recurrence has a cron expression": {
		base:    smallPhSchedule,
		keeps:   []string{`spec: {recurrence: {type: custom, cron: "0 4 * * *"}}`, `spec: {recurrence: {type: inactive, cron: ""}}`},
		breaks:  `spec: {recurrence: {type: custom, cron: ""}}`,
		field:   "spec.recurrence.cron",
		message: "a custom recurrence needs a cron expression of five fields",
	},
	"a HyperNode has members": {
		base:    smallHyperNode,
		keeps:   []string{`{}`},
		breaks:  `spec: {members: null}`,
		field:   "spec",
		message: "member must have at least one member",
	},
	"a member is selected": {
		base: smallHyperNode,
		keeps: []string{member(`{type: Node, selector: {labelMatch: {}}}`), member(`{type: Node, selector: {regexMatch: {pattern: ^a}}}`),
			member(`{type: HyperNode, selector: {exactMatch: {name: leaf.0}}}`)},
		breaks:  member(`{type: Node}`),
		field:   "spec.members[0].selector",
		message: "Either ExactMatch or RegexMatch or LabelMatch must be specified: member selector must have one of exactMatch, regexMatch, or labelMatch",
	},
	"a member is selected in one way": {
		base:    smallHyperNode,
		keeps:   []string{member(`{type: Node, selector: {labelMatch: {matchLabels: {a: b}}}}`)},
		breaks:  member(`{type: Node, selector: {exactMatch: {name: a}, labelMatch: {matchLabels: {a: b}}}}`),
		field:   "spec.members[0].selector",
		message: "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified: cannot specify more than one selector type",
	},
	"a pattern is a regular expression": {
		base:    smallHyperNode,
		keeps:   []string{member(`{type: Node, selector: {regexMatch: {pattern: "^(a|b)[0-9]{3}$"}}}`)},
		breaks:  member(`{type: Node, selector: {regexMatch: {pattern: "node-(1"}}}`),
		field:   "spec.members[0].selector.regexMatch.pattern",
		message: "member regexMatch pattern is invalid",
	},
	"a StartReview asks about a Job": {
		base:    smallReview,
		keeps:   []string{`{}`, `spec: {job: {spec: null}}`},
		breaks:  `spec: {job: {apiVersion: batch/v1}}`,
		field:   "spec.job",
		message: "a Job of apiVersion batch.volcano.sh/v1alpha1 is asked about",
	},
	"a StartReview asks about a PodGroup": {
		base:    smallReview,
		keeps:   []string{groupInstead},
		breaks:  `spec: {job: null, podGroup: {apiVersion: scheduling.k8s.io/v1alpha1, kind: PodGroup}}`,
		field:   "spec.podGroup",
		message: "a PodGroup of apiVersion scheduling.volcano.sh/v1beta1 is asked about",
	},
	"a StartReview asks about one thing": {
		base:    smallReview,
		keeps:   []string{groupInstead},
		breaks:  `spec: {podGroup: {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup}}`,
		field:   "spec",
		message: "a StartReview asks about one Job or one PodGroup: set spec.job or spec.podGroup",
	},
	"a NetworkTopology has levels": {
		base:    smallTopology,
		keeps:   []string{`{}`},
		breaks:  `spec: null`,
		field:   "spec",
		message: "name the labels in spec.levels",
	},
	"a label is a level once": {
		base:    smallTopology,
		keeps:   []string{`spec: {levels: [{nodeLabel: a}, {nodeLabel: b}]}`},
		breaks:  `spec: {levels: [{nodeLabel: a}, {nodeLabel: b}, {nodeLabel: a}]}`,
		field:   "spec.levels",
		message: "duplicated nodeLabel: name each label once",
	},
	"the node itself is the last level": {
		base:    smallTopology,
		keeps:   []string{`spec: {levels: [{nodeLabel: a, tier: 3}, {nodeLabel: kubernetes.io/hostname}]}`},
		breaks:  `spec: {levels: [{nodeLabel: kubernetes.io/hostname}]}`,
		field:   "spec.levels",
		message: "kubernetes.io/hostname stands for the node itself: leave it out, or make it the last of several levels, without a tier",
	},
	"tiers fall": {
		base:    smallTopology,
		keeps:   []string{`spec: {levels: [{nodeLabel: a, tier: 9}, {nodeLabel: b, tier: 2}]}`},
		breaks:  `spec: {levels: [{nodeLabel: a, tier: 2}, {nodeLabel: b, tier: 2}]}`,
		field:   "spec.levels",
		message: "the tiers must fall from level to level: lower them, or leave tier out in all levels",
	},
}

// resourceOf tells the resource of an object by its kind.
func resourceOf(object map[string]any) schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{"Job": jobs, "PodGroup": podGroups, "Queue": queues, "Command": commands, "Pod": pods,
		"PhJob": phJobs, "PhSchedule": phSchedules, "HyperNode": hyperNodes, "NetworkTopology": networkTopologies, "StartReview": startReviews}[object["kind"].(string)]
}

func TestRulesTakeWhatKeepsThem(t *testing.T) {
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			base := parse(t, r.base)
			for _, patch := range r.keeps {
				assert.NoError(t, tryCreate(t, resourceOf(base), merge(t, base, patch)), patch)
			}
		})
	}
}

func TestRulesRefuseWhatBreaksThem(t *testing.T) {
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			base := parse(t, r.base)
			err := tryCreate(t, resourceOf(base), merge(t, base, r.breaks))
			requireRefused(t, err, r.field, r.message)
		})
	}
}

// Rules for a Job's policies hold for its tasks' policies.
func TestRulesForTaskPolicies(t *testing.T) {
	for name, r := range rules {
		list, isPolicy := strings.CutPrefix(r.breaks, "spec: {policies: ")
		if !isPolicy {
			continue
		}
		t.Run(name, func(t *testing.T) {
			patch := fmt.Sprintf("spec: {tasks: [{name: main, replicas: 2, policies: %s]}", strings.TrimSuffix(list, "}")+"}")
			err := tryCreate(t, jobs, merge(t, parse(t, smallJob), patch))
			requireRefused(t, err, strings.Replace(r.field, "spec.policies", "spec.tasks[0].policies", 1), r.message)
		})
	}
}

// Rules are read from the CRDs, so that none is without a test.
func TestEveryRuleHasATest(t *testing.T) {
	for _, c := range constraints(t) {
		if c.keyword != "rule" || c.transition {
			continue
		}
		tested := false
		for _, r := range rules {
			tested = tested || containsFold(c.message, r.message)
		}
		assert.True(t, tested, "%s %s: no test breaks the rule %q", c.resource.Resource, c.path, c.message)
	}
}

func TestTasksAreNeitherAddedNorRemoved(t *testing.T) {
	two := `spec: {tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}]}`
	created := create(t, jobs, merge(t, parse(t, smallJob), "metadata: {name: fixed-tasks}\n"+two))

	for name, c := range map[string]struct {
		patch   string
		refused string
	}{
		"replicas may change":    {`spec: {tasks: [{name: a, replicas: 5}, {name: b, replicas: 1}]}`, ""},
		"no task may be added":   {`spec: {tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}, {name: c, replicas: 1}]}`, "job updates may not add or remove tasks: create a new job"},
		"no task may be removed": {`spec: {tasks: [{name: a, replicas: 2}]}`, "job updates may not add or remove tasks: create a new job"},
		"nor all of them":        {`spec: {tasks: null}`, "No task specified in job spec"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := withTemplates(merge(t, created.Object, c.patch))
			_, err := resource(jobs).Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			requireRefused(t, err, "spec.tasks", c.refused)
		})
	}
}

// Each part of a Command's target is bounded: messages of the Job controller about a Command repeat them.
func TestTargetsOfCommandsAreBounded(t *testing.T) {
	for name, limit := range map[string]int{"apiVersion": 317, "kind": 63, "name": 253, "uid": 128} {
		target := func(length int) map[string]any {
			return merge(t, parse(t, smallCommand), fmt.Sprintf("target: {%s: %s}", name, strings.Repeat("x", length)))
		}
		require.NoError(t, tryCreate(t, commands, target(limit)), name)
		requireRefused(t, tryCreate(t, commands, target(limit+1)), "target", "is longer than that of any object")
	}
}

// The next rule must not refuse a value that the API server calls supported. A user who picks one of the values needs no second try.
func TestSupportedEventsAreTaken(t *testing.T) {
	err := tryCreate(t, jobs, merge(t, parse(t, smallJob), policies(`{event: PodRunning, action: RestartJob}`)))
	found := causes(t, err)
	require.NotEmpty(t, found)
	_, list, listed := strings.Cut(found[0].Message, "supported values: ")
	require.True(t, listed, found[0].Message)
	values := strings.Split(list, ", ")
	require.Len(t, values, 8)
	for _, event := range values {
		patch := policies(fmt.Sprintf(`{event: %s, action: RestartJob, timeout: 1m}`, event))
		assert.NoError(t, tryCreate(t, jobs, merge(t, parse(t, smallJob), patch)), event)
	}
}

// The spellings of the seeds for "nothing special": each is refused with what to write in its place.
func TestActionsThatArePartOfEveryJob(t *testing.T) {
	for _, policy := range []string{
		`{event: PodFailed}`, `{event: PodFailed, action: None}`, `{event: PodEvicted, action: SyncJob}`, `{event: JobUpdated, action: UpdateJob}`,
	} {
		err := tryCreate(t, jobs, merge(t, parse(t, smallJob), policies(policy)))
		requireRefused(t, err, "spec.policies[0].action", "to do nothing (None), leave the policy out; SyncJob and UpdateJob happen to every job by themselves")
	}
}
