package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// judged is an object that a user writes, and the API server's answer.
type judged struct {
	by     dynamic.Interface
	gvr    schema.GroupVersionResource
	base   string
	patch  string
	refuse string // "" if it is taken
}

// check asks the API server about each row.
func check(t *testing.T, rows map[string]judged) {
	t.Helper()
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			err := dryRun(t, c.by, c.gvr, merge(t, parse(t, c.base), c.patch))
			if c.refuse == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, c.refuse)
		})
	}
}

// TestTheKeysOfAPodStay: a user who may edit pods moves none to another gang, queue, user or group. This holds for pods that wait and that run.
func TestTheKeysOfAPodStay(t *testing.T) {
	bind(t, "edits-keys", "edit")
	give(t, "writes-status", userNamed("writes-status"),
		rbacv1.PolicyRule{APIGroups: []string{podGroups.Group}, Resources: []string{"podgroups/status"}, Verbs: []string{"update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch"}})
	createServiceAccount(t, "default")
	user, controller := as(t, "edits-keys"), as(t, "writes-status")
	patch := func(by dynamic.Interface, pod, what string) error {
		_, err := by.Resource(pods).Namespace(metav1.NamespaceDefault).Patch(t.Context(), pod, types.MergePatchType, []byte(`{"metadata":{`+what+`}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const keys = `{metadata: {name: %, annotations: {scheduling.k8s.io/group-name: g, scheduling.volcano.sh/queue-name: q, volcano.sh/preemptable: "true",
		volcano.sh/cooldown-time: 1m, volcano.sh/job-version: "1"}, labels: {muster.sh/user: ann, primehub.io/group: escaped-a}}`
	for name, text := range map[string]string{
		"keys-wait": keys + "}", "keys-run": keys + ", spec: {nodeName: node-1}}", "plain-waits": "{metadata: {name: %}}", "plain-runs": "{metadata: {name: %}, spec: {nodeName: node-1}}",
	} {
		create(t, pods, merge(t, parse(t, tenantPod), strings.Replace(text, "%", name, 1)))
	}
	eventually(t, "the users may patch pods", func() bool {
		return patch(user, "keys-run", `"labels":{"a":"b"}`) == nil && patch(controller, "keys-run", `"labels":{"a":"b"}`) == nil &&
			patch(user, "keys-run", `"labels":{"muster.sh/user":"bob"}`) != nil && patch(controller, "keys-run", `"labels":{"muster.sh/user":"bob"}`) == nil
	})
	for what, says := range map[string]string{
		`"annotations":{"scheduling.k8s.io/group-name":null}`:               "metadata.annotations[scheduling.k8s.io/group-name]: decides about the quota or the gang of the pod",
		`"annotations":{"scheduling.k8s.io/group-name":"other"}`:            "metadata.annotations[scheduling.k8s.io/group-name]: ",
		`"annotations":{"scheduling.volcano.sh/queue-name":"other"}`:        "metadata.annotations[scheduling.volcano.sh/queue-name]: ",
		`"annotations":{"volcano.sh/preemptable":"false"}`:                  "metadata.annotations[volcano.sh/preemptable]: ",
		`"annotations":{"volcano.sh/cooldown-time":"1000h"}`:                "metadata.annotations[volcano.sh/cooldown-time]: ",
		`"annotations":{"volcano.sh/job-version":"7"}`:                      "metadata.annotations[volcano.sh/job-version]: ",
		`"labels":{"muster.sh/user":null}`:                                  "metadata.labels[muster.sh/user]: ",
		`"labels":{"primehub.io/group":"escaped-b"}`:                        "metadata.labels[primehub.io/group]: ",
		`"annotations":null`:                                                "metadata.annotations[scheduling.k8s.io/group-name], metadata.annotations[scheduling.volcano.sh/queue-name], ",
		`"labels":{"a":"b"},"annotations":{"unknown.volcano.sh/key":"new"}`: "",
	} {
		for _, pod := range []string{"keys-wait", "keys-run"} {
			t.Run(pod+" "+what, func(t *testing.T) {
				err := patch(user, pod, what)
				if says == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(t, err, says)
				require.ErrorContains(t, err, "delete the pod, and create it anew")
				require.NoError(t, patch(controller, pod, what), "the controller may")
			})
		}
	}
	t.Run("a pod that waits gets what it lacks", func(t *testing.T) {
		const added = `"annotations":{"scheduling.k8s.io/group-name":"g"},"labels":{"muster.sh/user":"ann"}`
		require.NoError(t, patch(user, "plain-waits", added))
		require.ErrorContains(t, patch(user, "plain-runs", added), "metadata.annotations[scheduling.k8s.io/group-name], metadata.labels[muster.sh/user]: ")
	})
}

// tenantGroup is a queue that is a group of PrimeHub.
func tenantGroup(t *testing.T, name, labels string) {
	t.Helper()
	create(t, queues, parse(t, `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: `+name+`, labels: {`+labels+`}}}`))
}

// TestTenantsKeepToTheirGroups: a group of PrimeHub is its queue. A user without the right to use it gets none of its quota, datasets and
// images. This holds for PhJobs, PhSchedules and labels.
func TestTenantsKeepToTheirGroups(t *testing.T) {
	const schedule = `{apiVersion: primehub.io/v1alpha1, kind: PhSchedule, metadata: {name: theirs}, spec: {recurrence: {type: daily}, jobTemplate: {spec:
		{command: "true", displayName: a, userId: magenta, groupId: x, groupName: x, image: i, instanceType: t}}}}`
	bind(t, "magenta", "edit")
	give(t, "magenta-uses", userNamed("magenta"), mayUse("group-magenta"), mayUse("group-nameless"), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"robot"}, Verbs: []string{"impersonate"}})
	give(t, "hub-uses", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "hub"}, mayUse("group-cyan"))
	give(t, "makes-phjobs", userNamed("makes-phjobs"), rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"queues"}, Verbs: []string{"use"}},
		rbacv1.PolicyRule{APIGroups: []string{"primehub.io"}, Resources: []string{"phjobs", "phjobs/status"}, Verbs: []string{"create", "update"}})
	createServiceAccount(t, "default")
	createServiceAccount(t, "hub")
	tenantGroup(t, "group-magenta", "primehub.io/group-id: m-1, primehub.io/group-name: magenta")
	tenantGroup(t, "group-cyan", "primehub.io/group-id: c-1, primehub.io/group-name: cyan")
	tenantGroup(t, "group-odd", "primehub.io/group-id: escaped-o-2f1, primehub.io/group-name: escaped--4fdd-40-c3-a9")
	tenantGroup(t, "group-nameless", "primehub.io/group-id: n-1")
	separateTenants(t)
	magenta, controller := as(t, "magenta"), as(t, "makes-phjobs")
	of := func(id, name, user string) string {
		return `spec: {groupId: "` + id + `", groupName: "` + name + `", userId: u-1, userName: "` + user + `"}`
	}
	templated := func(of string) string { return `spec: {jobTemplate: {` + of + `}}` }
	eventually(t, "the group of its own is open to magenta, and the others are not", func() bool {
		return dryRun(t, magenta, phJobs, merge(t, parse(t, smallPhJob), of("m-1", "magenta", "magenta"))) == nil &&
			dryRun(t, magenta, phJobs, merge(t, parse(t, smallPhJob), of("c-1", "cyan", "magenta"))) != nil &&
			dryRun(t, magenta, phJobs, merge(t, parse(t, smallPhJob), of("", "cyan", "magenta"))) != nil &&
			dryRun(t, magenta, phJobs, merge(t, parse(t, smallPhJob), of("m-1", "magenta", "bob"))) != nil &&
			dryRun(t, magenta, pods, merge(t, parse(t, tenantPod), `metadata: {labels: {primehub.io/group: escaped-cyan}}`)) != nil
	})
	const noCyan = "magenta may not use queue group-cyan of this group: name another group, or ask for the verb use on queues/group-cyan"
	const noPod = "metadata.labels[primehub.io/group]: neither magenta nor the ServiceAccount "
	check(t, map[string]judged{
		"a PhJob of its group":                    {magenta, phJobs, smallPhJob, of("m-1", "magenta", "magenta"), ""},
		"by the name alone":                       {magenta, phJobs, smallPhJob, of("", "magenta", "magenta"), ""},
		"a PhJob of another group":                {magenta, phJobs, smallPhJob, of("c-1", "cyan", "magenta"), "spec.groupId: " + noCyan},
		"its own identifier, and another name":    {magenta, phJobs, smallPhJob, of("m-1", "cyan", "magenta"), "spec.groupName: " + noCyan},
		"an unknown identifier, and another name": {magenta, phJobs, smallPhJob, of("x", "cyan", "magenta"), "spec.groupName: " + noCyan},
		"another identifier, and its own name":    {magenta, phJobs, smallPhJob, of("c-1", "magenta", "magenta"), "spec.groupId: " + noCyan},
		"another identifier that is escaped":      {magenta, phJobs, smallPhJob, of("o/1", "magenta", "magenta"), "magenta may not use queue group-odd"},
		"another name that is escaped":            {magenta, phJobs, smallPhJob, of("", "Odd@é", "magenta"), "magenta may not use queue group-odd"},
		"a group of no queue":                     {magenta, phJobs, smallPhJob, of("x", "y", "magenta"), ""},
		"a name that its queue does not tell":     {magenta, phJobs, smallPhJob, of("n-1", "any", "magenta"), "spec.groupName: queue group-nameless does not tell the name of its group"},
		"another user":                            {magenta, phJobs, smallPhJob, of("m-1", "magenta", "bob"), "spec.userName: magenta may not act for user bob: give your own name"},
		"a user whom it may impersonate":          {magenta, phJobs, smallPhJob, of("m-1", "magenta", "robot"), ""},
		"another user by the identifier":          {magenta, phJobs, smallPhJob, of("m-1", "magenta", ""), "spec.userName: magenta may not act for user u-1"},
		"a PhSchedule of its group":               {magenta, phSchedules, schedule, templated(of("m-1", "magenta", "magenta")), ""},
		"a PhSchedule of another group":           {magenta, phSchedules, schedule, templated(of("c-1", "cyan", "magenta")), "spec.jobTemplate.spec.groupId: " + noCyan},
		"a PhSchedule of another user":            {magenta, phSchedules, schedule, templated(of("m-1", "magenta", "bob")), "spec.jobTemplate.spec.userName: magenta may not act for user bob"},
		"a PhJob that the controller makes":       {controller, phJobs, smallPhJob, of("c-1", "cyan", "bob"), ""},
		"a pod of its group":                      {magenta, pods, tenantPod, `metadata: {labels: {primehub.io/group: escaped-magenta}}`, ""},
		"a pod of another group":                  {magenta, pods, tenantPod, `metadata: {labels: {primehub.io/group: escaped-cyan}}`, noPod + "default may use queue group-cyan"},
		"a pod of another group, escaped":         {magenta, pods, tenantPod, `metadata: {labels: {primehub.io/group: escaped--4fdd-40-c3-a9}}`, noPod + "default may use queue group-odd"},
		"a pod of a group whose account may":      {magenta, pods, tenantPod, `{metadata: {labels: {primehub.io/group: escaped-cyan}}, spec: {serviceAccountName: hub}}`, ""},
	})
	t.Run("a PhSchedule is changed", func(t *testing.T) {
		stored := create(t, phSchedules, merge(t, parse(t, schedule), templated(of("c-1", "cyan", "bob"))))
		update := func(patch string) error {
			_, err := magenta.Resource(phSchedules).Namespace(metav1.NamespaceDefault).Update(t.Context(),
				&unstructured.Unstructured{Object: merge(t, stored.DeepCopy().Object, patch)}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		require.NoError(t, update(`spec: {recurrence: {type: weekly}}`))
		require.ErrorContains(t, update(`spec: {jobTemplate: {spec: {command: env}}}`), "magenta may not")
	})
}

// TestTheNamespaceOfATenant: in a namespace with the label no pod runs outside the queues, or out of reach of the scheduler.
func TestTheNamespaceOfATenant(t *testing.T) {
	bind(t, "orange", "edit")
	give(t, "orange-uses", userNamed("orange"), mayUse("orange"))
	give(t, "system-uses", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "system"}, mayUse("orange"),
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, ResourceNames: []string{"system-cluster-critical"}, Verbs: []string{"use"}})
	createServiceAccount(t, "default")
	createServiceAccount(t, "system")
	separateTenants(t)
	orange := as(t, "orange")
	const inQueue = `metadata: {annotations: {scheduling.volcano.sh/queue-name: orange}}`
	eventually(t, "orange's queue is open to it, and default is not", func() bool {
		return dryRun(t, orange, pods, merge(t, parse(t, tenantPod), `{`+inQueue+`, spec: {schedulerName: muster}}`)) == nil &&
			dryRun(t, orange, pods, merge(t, parse(t, tenantPod), `spec: {schedulerName: muster}`)) != nil
	})
	const noDefault = "neither orange nor the ServiceAccount default may use queue default"
	check(t, map[string]judged{
		"a pod for Muster without a queue":         {orange, pods, tenantPod, `spec: {schedulerName: muster}`, noDefault},
		"a pod for Volcano without a queue":        {orange, pods, tenantPod, `spec: {schedulerName: volcano}`, noDefault},
		"a pod that names an adopted PodGroup":     {orange, pods, tenantPod, `{metadata: {annotations: {scheduling.k8s.io/group-name: podgroup-x}}, spec: {schedulerName: muster}}`, noDefault},
		"a pod that names a PodGroup":              {orange, pods, tenantPod, `{metadata: {annotations: {scheduling.k8s.io/group-name: g}}, spec: {schedulerName: muster}}`, ""},
		"elsewhere: a pod for another scheduler":   {orange, pods, tenantPod, `spec: {schedulerName: other}`, ""},
		"elsewhere: a pod for the default one":     {orange, pods, tenantPod, `{}`, ""},
		"elsewhere: a pod that is bound by hand":   {orange, pods, tenantPod, `spec: {nodeName: node-1}`, ""},
		"a Job whose template names another queue": {orange, jobs, smallJob, `spec: {queue: orange, tasks: [{name: a, replicas: 1, template: {metadata: {annotations: {scheduling.volcano.sh/queue-name: blue}}, spec: {containers: [{name: a, image: a}]}}}]}`, "spec.tasks: a template names queue blue"},
		"a Job whose template names its own queue": {orange, jobs, smallJob, `spec: {queue: orange, tasks: [{name: a, replicas: 1, template: {metadata: {annotations: {scheduling.volcano.sh/queue-name: orange}}, spec: {containers: [{name: a, image: a}]}}}]}`, ""},
	})

	patchNamespace(t, `{"labels":{"muster.sh/tenant":"orange"}}`, `{"labels":{"muster.sh/tenant":null}}`)
	other := merge(t, parse(t, tenantPod), `spec: {schedulerName: other}`)
	eventually(t, "the label is known", func() bool { return dryRun(t, orange, pods, other) != nil })
	// The API server may not see other names of the schedulers any more after a test has removed its policies. So the pods are for Muster, and the court
	// of test/integration/tenants has those for default-scheduler.
	check(t, map[string]judged{
		"a pod in its queue":                    {orange, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: muster}}`, ""},
		"a pod for another scheduler":           {orange, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: other}}`, "spec.schedulerName: pods of this namespace are for Muster's schedulers, and other is none: use one of muster, volcano"},
		"a pod outside the queues":              {orange, pods, tenantPod, `{}`, ": pods of this namespace are "},
		"a pod that is bound by hand":           {orange, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: muster, nodeName: node-1}}`, "spec.nodeName: pods of this namespace are bound by a scheduler"},
		"the same by an administrator":          {client, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: muster, nodeName: node-1}}`, ""},
		"a system-critical pod":                 {orange, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: muster, priorityClassName: system-cluster-critical}}`, "spec.priorityClassName: neither orange nor the ServiceAccount default may use class system-cluster-critical"},
		"one whose account may use it":          {orange, pods, tenantPod, `{` + inQueue + `, spec: {schedulerName: muster, priorityClassName: system-cluster-critical, serviceAccountName: system}}`, ""},
		"a pod for Muster without a queue, too": {orange, pods, tenantPod, `spec: {schedulerName: muster}`, noDefault},
	})
	patchNamespace(t, `{"annotations":{"scheduling.volcano.sh/queue-name":"orange"}}`, `{"annotations":{"scheduling.volcano.sh/queue-name":null}}`)
	eventually(t, "pods of the namespace are in its queue", func() bool {
		return dryRun(t, orange, pods, merge(t, parse(t, tenantPod), `spec: {schedulerName: muster}`)) == nil
	})
}

// patchNamespace changes the metadata of the namespace default for as long as the test runs.
func patchNamespace(t *testing.T, metadata, back string) {
	t.Helper()
	patch := func(ctx context.Context, metadata string) {
		_, err := admin(t).CoreV1().Namespaces().Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte(`{"metadata":`+metadata+`}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patch(t.Context(), metadata)
	t.Cleanup(func() { patch(context.Background(), back) })
}
