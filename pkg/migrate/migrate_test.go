package migrate_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
	"github.com/muster-sched/muster/pkg/migrate"
)

// load reads the rules once for all tests.
var load = sync.OnceValues(func() (*lint.Rules, error) { return lint.Load(manifests.FS) })

// check judges objects of a text without a cluster.
func check(t *testing.T, text string) migrate.Report {
	t.Helper()
	objects, err := lint.Read("objects.yaml", []byte(text))
	require.NoError(t, err)
	rules, err := load()
	require.NoError(t, err)
	var queues []*unstructured.Unstructured
	for _, object := range objects {
		if object.Content.GetKind() == "Queue" {
			queues = append(queues, object.Content)
		}
	}
	report, err := migrate.Check(t.Context(), migrate.Offline{Rules: rules, Queues: queues}, objects)
	require.NoError(t, err)
	return report
}

// job is a Job of one task with more fields of the spec and of the task.
func job(meta, spec, task string) string {
	return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j" + meta + "}\nspec:\n  minAvailable: 1\n" + indent(spec, 2) +
		"  tasks:\n  - name: worker\n    replicas: 2\n" + indent(task, 4) +
		"    template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}\n"
}

func indent(text string, blanks int) string {
	if text == "" {
		return ""
	}
	return strings.Repeat(" ", blanks) + text + "\n"
}

// TestWhatBecomesOfAnObject has a case for each result and each rule. A remark names field and remedy.
func TestWhatBecomesOfAnObject(t *testing.T) {
	const queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q%s}\nspec: {%s}\n"
	const group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1, %s}\n"
	makeQueue := func(meta, spec string) string {
		return strings.Replace(strings.Replace(queue, "%s", meta, 1), "%s", spec, 1)
	}
	makeGroup := func(spec string) string { return strings.Replace(group, "%s", spec, 1) }
	hyperNode := func(selector string) string {
		return "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: h}\nspec: {tier: 1, members: [{type: Node, selector: {" + selector + "}}]}\n"
	}
	for name, c := range map[string]struct {
		object string
		result migrate.Result
		lost   bool
		field  string
		says   string // part of message or remedy
	}{
		"a plain Job":                 {job("", "", ""), migrate.Kept, false, "", ""},
		"a queue":                     {makeQueue("", "weight: 2, capability: {cpu: 4}"), migrate.Kept, false, "", ""},
		"a PodGroup":                  {makeGroup("queue: default"), migrate.Kept, false, "", ""},
		"a topology of a Job":         {job("", "networkTopology: {mode: hard, highestTierAllowed: 1}", ""), migrate.Kept, false, "", ""},
		"a topology of a PodGroup":    {makeGroup("networkTopology: {mode: hard, highestTierName: rack}"), migrate.Kept, false, "", ""},
		"sub groups of a PodGroup":    {makeGroup("subGroupPolicy: [{name: a, minSubGroups: 2}]"), migrate.Waits, true, "spec.subGroupPolicy[0].minSubGroups", "name the label"},
		"a HyperNode":                 {hyperNode("exactMatch: {name: n0}"), migrate.Kept, false, "", ""},
		"a HyperNode without members": {hyperNode(""), migrate.Refused, true, "", "one of exactMatch, regexMatch, or labelMatch"},
		"an unknown field":            {job("", "fooBar: 1", ""), migrate.Ignored, true, "spec.fooBar", "drops it"},
		"the topology of a task":      {strings.Replace(job("", "", "topologyPolicy: restricted"), "image: busybox", "image: busybox, resources: {requests: {cpu: 1}}", 1), migrate.Ignored, true, "spec.tasks", "kubelet"},
		"an estimate":                 {job("", "runningEstimate: 10m", ""), migrate.Kept, false, "", ""},
		"clusters of a queue":         {makeQueue("", "extendClusters: [{name: c}]"), migrate.Ignored, true, "spec.extendClusters", "not forwarded"},
		"a hierarchy in annotations":  {makeQueue(", annotations: {volcano.sh/hierarchy: root/a, volcano.sh/hierarchy-weights: 1/1}", ""), migrate.Ignored, true, "metadata.annotations[volcano.sh/hierarchy]", "spec.parent"},
		"a zone":                      {job(", annotations: {volcano.sh/revocable-zone: rz1}", "", ""), migrate.Ignored, true, "metadata.annotations[volcano.sh/revocable-zone]", "taint"},
		"a policy without a time":     {job("", "policies: [{event: PodPending, action: RestartJob}]", ""), migrate.Refused, true, "", "PodPending"},
		"a restart of nothing":        {job("", "policies: [{event: Unknown, action: RestartPod}]", ""), migrate.Refused, true, "", "invalid policy action"},
		"every failure":               {job("", "policies: [{event: \"*\", action: RestartJob}]", ""), migrate.Differs, false, "spec.policies[0]", "TaskCompleted"},
		"an update":                   {job("", "policies: [{event: JobUpdated, action: RestartJob}]", ""), migrate.Differs, false, "spec.policies[0]", "Volcano never raises it"},
		"keys":                        {job("", "plugins: {ssh: []}", ""), migrate.Differs, false, "spec.plugins.ssh", "--ssh-key-type=rsa"},
		"a generated claim": {job("", "volumes: [{mountPath: /d, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, volumeClaimName: j-pvc-0123456789ab}]", ""),
			migrate.Kept, false, "", ""},
		"a claim with a name": {job("", "volumes: [{mountPath: /d, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, volumeClaimName: data}]", ""),
			migrate.Refused, true, "", "conflict"},
		"another scheduler": {job("", "schedulerName: default-scheduler", ""), migrate.Differs, false, "spec.tasks[0].template.spec.schedulerName", "volcano or muster"},
		"a JobFlow":         {"apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\n", migrate.Ignored, true, "", "dependsOn"},
		"a CronJob": {"apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: f}\n",
			migrate.Ignored, true, "", "batch/v1 CronJob"},
		"a webhook": {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: v}\n" +
			"webhooks: [{name: validatejob.volcano.sh, failurePolicy: Fail, clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system}}}]\n",
			migrate.Differs, false, "webhooks", "kubectl delete validatingwebhookconfiguration v"},
	} {
		t.Run(name, func(t *testing.T) {
			report := check(t, c.object)
			require.Len(t, report.Objects, 1)
			got := report.Objects[0]
			assert.Equal(t, c.result, got.Result, got.Remarks)
			assert.Equal(t, c.lost, got.Lost, got.Remarks)
			assert.Equal(t, c.lost, report.Lost == 1)
			var texts []string
			for _, remark := range got.Remarks {
				if c.field == "" || remark.Field == c.field {
					texts = append(texts, remark.Message+" "+remark.Remedy)
				}
			}
			assert.Contains(t, strings.Join(texts, "\n"), c.says, got.Remarks)
		})
	}
}

// TestAWarningOfThePoliciesIsARemark: the API server names policy and binding before it.
func TestAWarningOfThePoliciesIsARemark(t *testing.T) {
	remark, isOurs := migrate.Warned("Validation failed for ValidatingAdmissionPolicy 'muster-warnings' with binding 'muster-warnings': spec.type: has no effect: all queues are alike")
	assert.True(t, isOurs)
	assert.Equal(t, migrate.Remark{Result: migrate.Ignored, Field: "spec.type", Message: "spec.type: has no effect: all queues are alike", Lost: true}, remark)
	_, isOurs = migrate.Warned("Validation failed for ValidatingAdmissionPolicy 'of-others' with binding 'x': spec: no")
	assert.False(t, isOurs)
	_, isOurs = migrate.Warned("a field is deprecated")
	assert.False(t, isOurs)
}

// TestKeptFieldsAreThoseWithoutARemark: a remark on a part of a field takes the whole field out.
func TestKeptFieldsAreThoseWithoutARemark(t *testing.T) {
	report := check(t, job("", "plugins: {ssh: []}", "dependsOn: {name: [worker2]}\n    maxRetry: 2")+"  - {name: worker2, template: {spec: {containers: [{name: c, image: i}]}}}\n")
	require.Len(t, report.Objects, 1)
	assert.Equal(t, []string{
		"spec.minAvailable", "spec.tasks[0].maxRetry", "spec.tasks[0].name", "spec.tasks[0].replicas", "spec.tasks[0].template",
		"spec.tasks[1].name", "spec.tasks[1].template",
	}, report.Objects[0].Kept)
}

// TestAQueueThatIsMissing: a missing queue is reported only if queues are among the objects. Otherwise none is known.
func TestAQueueThatIsMissing(t *testing.T) {
	const queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n---\n"
	inQueue := job("", "queue: other", "")
	assert.Equal(t, migrate.Kept, check(t, inQueue).Objects[0].Result)
	report := check(t, queue+inQueue)
	assert.Equal(t, migrate.Waits, report.Objects[1].Result)
	assert.Zero(t, report.Lost, "Volcano refuses the Job")
	assert.Equal(t, migrate.Kept, check(t, queue+job("", "queue: q", "")).Objects[1].Result)
}

// TestTheDiscoveryOfHyperNodes: nothing makes them after the move.
func TestTheDiscoveryOfHyperNodes(t *testing.T) {
	report := check(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-controller-configmap, namespace: volcano-system}
data:
  volcano-controller.conf: |
    networkTopologyDiscovery:
    - {source: ufm, enabled: false}
    - {source: label, enabled: true, config: {networkTopologyTypes: {a: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}}
`)
	require.Len(t, report.Objects, 1)
	require.Len(t, report.Objects[0].Remarks, 1)
	remark := report.Objects[0].Remarks[0]
	assert.Equal(t, migrate.Differs, remark.Result)
	assert.Equal(t, "networkTopologyDiscovery[label]", remark.Field)
	assert.Contains(t, remark.Remedy, "NetworkTopology")
}

// TestTheSchedulersConfiguration: each action, plugin and argument has a remark.
func TestTheSchedulersConfiguration(t *testing.T) {
	report := check(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, shuffle"
    tiers:
    - plugins:
      - name: gang
      - name: binpack
        arguments: {binpack.weight: 10, other: 1}
      - name: predicates
        arguments: {predicate.NodeAffinityEnable: false, predicate.NodePortsEnable: true}
    - plugins:
      - name: usage
        arguments: {thresholds: {cpu: 80}}
      - name: my-own
    configurations:
    - name: enqueue
      arguments: {overcommit-factor: 1.5}
`)
	require.Len(t, report.Objects, 1)
	got := map[string]migrate.Result{}
	for _, remark := range report.Objects[0].Remarks {
		got[remark.Field] = remark.Result
		assert.NotEmpty(t, remark.Message, remark.Field)
		if remark.Result != migrate.Kept {
			assert.NotEmpty(t, remark.Remedy, remark.Field)
		}
	}
	assert.Equal(t, map[string]migrate.Result{
		"actions[enqueue]": migrate.Kept, "actions[allocate]": migrate.Kept, "actions[shuffle]": migrate.Ignored,
		"plugins[gang]": migrate.Kept, "plugins[predicates]": migrate.Kept, "plugins[binpack]": migrate.Differs,
		"plugins[binpack].arguments.binpack.weight": migrate.Differs, "plugins[binpack].arguments.other": migrate.Ignored,
		"plugins[predicates].arguments.predicate.NodeAffinityEnable": migrate.Differs, "plugins[predicates].arguments.predicate.NodePortsEnable": migrate.Kept,
		"plugins[usage]": migrate.Ignored, "plugins[my-own]": migrate.Ignored, "configurations[enqueue].arguments.overcommit-factor": migrate.Differs,
	}, got)
	assert.Equal(t, 1, report.Lost)
}

// TestTheTextGroupsEqualRemarks: two hundred Jobs with one fault make one paragraph, and the gravest comes first.
func TestTheTextGroupsEqualRemarks(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"j1", "j2", "j3", "j4", "j5"} {
		text.WriteString(strings.Replace(job("", "plugins: {ssh: []}", ""), "name: j", "name: "+name, 1) + "---\n")
	}
	text.WriteString("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: divided}\nspec: {subGroupPolicy: [{name: a, minSubGroups: 2}]}\n")
	var out strings.Builder
	require.NoError(t, check(t, text.String()).WriteText(&out))
	assert.Equal(t, `waits: PodGroup spec.subGroupPolicy[*].minSubGroups: the gang waits with reason NotSupported
  do: spec.subGroupPolicy[0].minSubGroups asks for 2 sub groups, and without matchLabelKeys all members of the policy are one: name the label that tells them apart
  in: divided
differs: Job spec.plugins.ssh: the key is of type ed25519, not RSA
  do: for an image that needs RSA, add the argument --ssh-key-type=rsa
  in: j1, j2, j3 and 2 more

Job: 5 differs
PodGroup: 1 waits
objects: 6, of which 1 would lose something
`, out.String())
}

// TestThePageNamesEachPlugin: docs/coming-from-volcano.md has the same counterparts.
func TestThePageNamesEachPlugin(t *testing.T) {
	page, err := os.ReadFile("../../docs/coming-from-volcano.md")
	require.NoError(t, err)
	var missing []string
	for _, name := range migrate.Names() {
		if !strings.Contains(string(page), "`"+name+"`") {
			missing = append(missing, name)
		}
	}
	assert.Empty(t, missing)
}
