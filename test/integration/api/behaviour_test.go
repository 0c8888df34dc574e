package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Defaults of the API server, by its schemas and by policies.
func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		gvr    schema.GroupVersionResource
		object string
		spec   string
	}{
		"Job": {jobs, smallJob, `
queue: default
schedulerName: muster
maxRetry: 3
minAvailable: 2
tasks: [{name: main, replicas: 2, minAvailable: 2, maxRetry: 3, template: {spec: {containers: [{name: main, image: main}]}}}]`},
		"Job with a network topology": {jobs, `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: topology}
spec: {networkTopology: {}, tasks: [{replicas: 1, partitionPolicy: {totalPartitions: 1, partitionSize: 1}, template: {spec: {containers: [{name: main, image: main}]}}}]}`, `
queue: default
schedulerName: muster
maxRetry: 3
minAvailable: 1
networkTopology: {mode: hard}
tasks: [{name: default0, replicas: 1, minAvailable: 1, maxRetry: 3, partitionPolicy: {totalPartitions: 1, partitionSize: 1, minPartitions: 0}, template: {spec: {containers: [{name: main, image: main}]}}}]`},
		"PodGroup": {podGroups, smallPodGroup + "spec: {minMember: 1, subGroupPolicy: [{name: a}]}", `
queue: default
minMember: 1
subGroupPolicy: [{name: a, subGroupSize: 1, minSubGroups: 0}]`},
		"Queue": {queues, smallQueue + "spec: {}", `
weight: 1
reclaimable: true
parent: root
dequeueStrategy: traverse`},
	} {
		t.Run(name, func(t *testing.T) {
			created := create(t, c.gvr, merge(t, parse(t, c.object), "metadata: {name: defaults}"))
			assert.Equal(t, normal(t, parse(t, c.spec)), created.Object["spec"])
		})
	}
}

// Users write the spec, controllers the status, and neither can touch what is the other's.
func TestStatusIsASubresource(t *testing.T) {
	for gvr, text := range fullObjects {
		if gvr == commands || gvr == images || gvr == instanceTypes {
			continue
		}
		t.Run(gvr.Resource, func(t *testing.T) {
			full := merge(t, parse(t, text), "metadata: {name: subresource}")
			created := create(t, gvr, full)
			assert.NotContains(t, created.Object, "status", "a status at creation")

			created.Object["status"] = full["status"]
			setMark(created, "from-status")
			withStatus, err := resource(gvr).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, full["status"], withStatus.Object["status"])
			assert.NotEqual(t, "from-status", specMark(withStatus), "the spec came with a write of the status")

			delete(withStatus.Object, "status")
			setMark(withStatus, "from-spec")
			withSpec, err := resource(gvr).Update(t.Context(), withStatus, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, full["status"], withSpec.Object["status"], "the status went with a write of the spec")
			assert.Equal(t, "from-spec", specMark(withSpec))
			assert.Greater(t, withSpec.GetGeneration(), created.GetGeneration(), "a write of the spec counts")
			assert.Equal(t, created.GetGeneration(), withStatus.GetGeneration(), "a write of the status does not")
		})
	}
}

// marks are fields of the spec that may change, as paths.
var marks = map[string]string{"Job": "priorityClassName", "PodGroup": "queue", "Queue": "parent", "PhJob": "displayName",
	"PhSchedule": "recurrence.cron", "HyperNode": "tierName", "NetworkTopology": "nodeSelector.matchLabels.a", "StartReview": "job.mark"}

func setMark(object *unstructured.Unstructured, value string) {
	at := append([]string{"spec"}, strings.Split(marks[object.GetKind()], ".")...)
	_ = unstructured.SetNestedField(object.Object, value, at...) // a field that it cannot set is missed when it is looked for
}

func specMark(object *unstructured.Unstructured) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, append([]string{"spec"}, strings.Split(marks[object.GetKind()], ".")...)...)
	return value
}

func TestNamesThatUsersType(t *testing.T) {
	server, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	for gvr, want := range map[schema.GroupVersionResource]struct {
		singular   string
		shortNames []string
		namespaced bool
	}{
		jobs:      {"job", []string{"vcjob", "vj"}, true},
		podGroups: {"podgroup", []string{"pg", "podgroup-v1beta1"}, true},
		queues:    {"queue", []string{"q", "queue-v1beta1"}, false},
		commands:  {"command", nil, true},

		phJobs:        {"phjob", []string{"phj"}, true},
		phSchedules:   {"phschedule", []string{"phs"}, true},
		images:        {"image", []string{"phimg"}, true},
		instanceTypes: {"instancetype", []string{"phit"}, true},

		hyperNodes:        {"hypernode", []string{"hn"}, false},
		networkTopologies: {"networktopology", []string{"nettopo"}, false},
		startReviews:      {"startreview", nil, true},
	} {
		list, err := server.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		require.NoError(t, err)
		found := false
		for _, r := range list.APIResources {
			if r.Name != gvr.Resource {
				continue
			}
			found = true
			assert.Equal(t, want.singular, r.SingularName)
			assert.ElementsMatch(t, want.shortNames, r.ShortNames)
			assert.Equal(t, want.namespaced, r.Namespaced)
		}
		assert.True(t, found, "%s is not served", gvr)
	}
}

// The columns of "kubectl get", as the API server computes them.
func TestColumns(t *testing.T) {
	for gvr, want := range map[schema.GroupVersionResource]struct {
		columns []string
		wide    []string
		cells   []any // of the full object, up to the age
	}{
		jobs: {[]string{"Name", "STATUS", "READY", "SUCCEEDED", "FAILED", "QUEUE", "AGE", "START"}, []string{"REASON", "MESSAGE"},
			[]any{"columns", "Running", "2/4", nil, nil, "default"}},
		podGroups: {[]string{"Name", "STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE", "START"}, nil, []any{"columns", "Running", int64(2), int64(2)}},
		queues: {[]string{"Name", "STATE", "USED/CAPABILITY", "RESERVED", "SHARE", "GUARANTEE", "BORROWED", "RUNNING", "WAITING", "AGE"},
			[]string{"PARENT", "PENDING", "INQUEUE"}, []any{"columns", "Open", "cpu 1/2", "1", "3", "2", "4", int64(5), int64(6)}},
		commands: {[]string{"Name", "Action", "Kind", "Target", "Age"}, nil, []any{"columns", "AbortJob", "Job", "j"}},

		phJobs:        {[]string{"Name", "User", "Group", "Status", "Reason", "Age", "Start"}, nil, []any{"columns", "jackpan", "phusers", "Running", "PodRunning"}},
		phSchedules:   {[]string{"Name", "User", "Group", "Invalid", "NextRun", "Age"}, nil, []any{"columns", "jackpan", "phusers", true, "2026-01-01T00:00:00Z"}},
		images:        {[]string{"Name", "Type", "Group", "Status", "Age"}, nil, []any{"columns", "both", "phusers", nil}},
		instanceTypes: {[]string{"Name", "CPU", "Memory", "GPU", "Age"}, nil, []any{"columns", int64(1), "4G", int64(1)}},

		hyperNodes: {[]string{"Name", "Tier", "TierName", "NodeCount", "Age"}, nil, []any{"columns", "2", "spine", int64(3)}},
		networkTopologies: {[]string{"Name", "NODES", "VALID", "AGE"}, []string{"MESSAGE"},
			[]any{"columns", int64(3), "True"}},
		startReviews: {[]string{"Name", "ANSWER", "START", "AGE"}, []string{"MESSAGE"}, []any{"columns", "Later", "2026-01-01T12:00:00Z"}},
	} {
		t.Run(gvr.Resource, func(t *testing.T) {
			full := merge(t, parse(t, fullObjects[gvr]), "metadata: {name: columns}")
			created := create(t, gvr, full)
			if status, has := full["status"]; has {
				created.Object["status"] = status
				_, err := resource(gvr).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			table := getTable(t, gvr, "columns")
			var columns, wide []string
			for _, column := range table.ColumnDefinitions {
				if column.Priority > 0 {
					wide = append(wide, column.Name)
					continue
				}
				columns = append(columns, column.Name)
			}
			assert.Equal(t, want.columns, columns)
			assert.Equal(t, want.wide, wide)
			require.Len(t, table.Rows, 1)
			assert.Equal(t, want.cells, table.Rows[0].Cells[:len(want.cells)])
		})
	}
}

// TestATimeToComeIsReadable: kubectl shows how long ago a date was, and a date to come as invalid.
func TestATimeToComeIsReadable(t *testing.T) {
	created := create(t, phSchedules, merge(t, parse(t, fullObjects[phSchedules]), "metadata: {name: to-come}"))
	created.Object["status"] = map[string]any{"nextRunTime": "2126-01-01T00:00:00Z"}
	_, err := resource(phSchedules).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	out, err := kubectl(t, "get", "phschedule", "to-come", "--namespace", created.GetNamespace())
	require.NoError(t, err, out)
	assert.Contains(t, out, "NEXTRUN")
	assert.Contains(t, out, "2126-01-01T00:00:00Z")
	assert.NotContains(t, out, "<invalid>")
}

// Our programs write each count. So a Job without failed pods says 0, and so does a queue without Jobs.
func TestAColumnSaysZero(t *testing.T) {
	for gvr, c := range map[schema.GroupVersionResource]struct {
		status any
		cells  []any
	}{
		jobs:      {&batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: batchv1alpha1.Pending}}, []any{"zero", "Pending", nil, int64(0), int64(0), "default"}},
		podGroups: {&schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupPending}, []any{"zero", "Pending", int64(2), int64(0)}},
		queues: {&schedulingv1beta1.QueueStatus{State: schedulingv1beta1.QueueStateOpen, Muster: &schedulingv1beta1.QueueStatusExtension{}},
			[]any{"zero", "Open", nil, nil, nil, nil, nil, int64(0), int64(0)}},
	} {
		created := create(t, gvr, merge(t, parse(t, fullObjects[gvr]), "metadata: {name: zero}"))
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.status)
		require.NoError(t, err)
		created.Object["status"] = status
		_, err = resource(gvr).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, c.cells, getTable(t, gvr, "zero").Rows[0].Cells[:len(c.cells)])
	}
}

// A list can select the Jobs of a queue, and the Jobs in a phase, as "muster job list" does.
func TestJobsAreSelectedByQueueAndPhase(t *testing.T) {
	for _, name := range []string{"selected", "other"} {
		created := create(t, jobs, merge(t, parse(t, fullObjects[jobs]), "{metadata: {name: "+name+"}, spec: {queue: "+name+"-queue}}"))
		created.Object["status"] = map[string]any{"state": map[string]any{"phase": "Running"}}
		_, err := resource(jobs).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	for selector, want := range map[string]int{
		"spec.queue=selected-queue":                            1,
		"spec.queue=selected-queue,status.state.phase=Running": 1,
		"spec.queue=selected-queue,status.state.phase=Pending": 0,
	} {
		found, err := resource(jobs).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		require.NoError(t, err)
		assert.Len(t, found.Items, want, selector)
	}
}

// getTable asks for an object as kubectl does.
func getTable(t *testing.T, gvr schema.GroupVersionResource, name string) *metav1.Table {
	t.Helper()
	tables := rest.CopyConfig(config)
	groupVersion := gvr.GroupVersion()
	tables.GroupVersion = &groupVersion
	tables.APIPath = "/apis"
	tables.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	raw, err := rest.RESTClientFor(tables)
	require.NoError(t, err)
	request := raw.Get().Resource(gvr.Resource).Name(name).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !slices.Contains(ofCluster, gvr) {
		request = request.Namespace(metav1.NamespaceDefault)
	}
	table := &metav1.Table{}
	require.NoError(t, request.Do(t.Context()).Into(table))
	return table
}
