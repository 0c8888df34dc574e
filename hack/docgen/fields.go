package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
)

const fieldsIntro = `# Fields of Volcano's API

*Reference*

Every field that users write of Volcano's types, and what Muster does with it. [The API](api.md) describes the fields, and
[what the API server refuses](admission.md) says which values they take.

- **works**: it does what the description says.
- **held**: the object is stored. Nothing of it starts, and the reason ` + "`NotSupported`" + ` names the field and what to do.
- **no effect**: the object is stored and runs without it.
`

// The states of a field.
const (
	works    = "works"
	held     = "held"
	noEffect = "no effect"
)

// fieldState is what Muster does with a field, and why or since what.
type fieldState struct{ state, remark string }

// ownAPIs is what the import paths of Muster's types begin with.
const ownAPIs = "github.com/muster-sched/muster/pkg/apis/"

const warned = "The API server warns of it"

// fieldKind is a kind with the states of its fields. A state holds for the fields below it, too.
type fieldKind struct {
	of     any
	works  []string
	states map[string]fieldState
}

var fieldKinds = []fieldKind{
	{batchv1alpha1.Job{}, []string{
		"spec.schedulerName", "spec.minAvailable", "spec.volumes", "spec.policies", "spec.plugins", "spec.queue", "spec.maxRetry",
		"spec.ttlSecondsAfterFinished", "spec.priorityClassName", "spec.minSuccess", "spec.suspend", "spec.activeDeadlineSeconds",
		"spec.tasks[*].name", "spec.tasks[*].replicas", "spec.tasks[*].minAvailable", "spec.tasks[*].template", "spec.tasks[*].policies",
		"spec.tasks[*].maxRetry", "spec.tasks[*].dependsOn", "spec.tasks[*].partitionPolicy.totalPartitions",
		"spec.tasks[*].partitionPolicy.partitionSize", "spec.tasks[*].partitionPolicy.minPartitions", "spec.networkTopology",
		"spec.tasks[*].partitionPolicy.networkTopology", "spec.runningEstimate",
	}, map[string]fieldState{
		"spec.tasks[*].topologyPolicy": {noEffect,
			"it is handed on to the pods as an annotation. The topology manager of the kubelet decides on the node. " + warned},
	}},
	{schedulingv1beta1.PodGroup{}, []string{
		"spec.minMember", "spec.minTaskMember", "spec.queue", "spec.priorityClassName", "spec.minResources", "spec.networkTopology",
		"spec.subGroupPolicy[*].name", "spec.subGroupPolicy[*].labelSelector", "spec.subGroupPolicy[*].matchLabelKeys",
		"spec.subGroupPolicy[*].networkTopology", "spec.subGroupPolicy[*].subGroupSize",
	}, map[string]fieldState{
		"spec.subGroupPolicy[*].minSubGroups": {held, "with more than one sub group and without matchLabelKeys. Name the label that tells the sub groups apart"},
	}},
	{schedulingv1beta1.Queue{}, []string{
		"spec.weight", "spec.capability", "spec.reclaimable", "spec.guarantee", "spec.affinity", "spec.parent", "spec.deserved", "spec.priority",
		"spec.dequeueStrategy",
	}, map[string]fieldState{
		"spec.extendClusters": {noEffect, "Jobs are not forwarded to other clusters. " + warned},
		"spec.type":           {noEffect, "all queues are alike. " + warned},
	}},
	{topologyv1alpha1.HyperNode{}, []string{"spec.tier", "spec.tierName", "spec.members"}, nil},
	{musterv1alpha1.NetworkTopology{}, []string{"spec.nodeSelector", "spec.levels"}, nil},
	{busv1alpha1.Command{}, []string{"action", "target", "reason", "message"}, nil},
}

// fieldsPage lists all fields with their states.
func fieldsPage() (string, error) {
	page := &strings.Builder{}
	page.WriteString(generatedBy + fieldsIntro)
	for _, kind := range fieldKinds {
		of := reflect.TypeOf(kind.of)
		rows, err := kind.rows(fieldsOf(of, ""))
		if err != nil {
			return "", fmt.Errorf("the fields of %s: %w", of.Name(), err)
		}
		fmt.Fprintf(page, "\n## %s\n\n%s|---|---|---|\n%s", of.Name(), row("field", "state", "remark"), strings.Join(rows, ""))
	}
	return page.String(), nil
}

// rows has a row for each field. It is an error if a field has no state, or a state no field.
func (k *fieldKind) rows(fields []string) ([]string, error) {
	states := maps.Clone(k.states)
	if states == nil {
		states = map[string]fieldState{}
	}
	for _, field := range k.works {
		states[field] = fieldState{state: works}
	}
	var rows []string
	used := sets.New[string]()
	for _, field := range fields {
		at := field
		for cut := len(at); cut > 0 && states[at].state == ""; cut = strings.LastIndexAny(at, ".[") {
			at = field[:cut]
		}
		if states[at].state == "" {
			return nil, fmt.Errorf("%s has no state: write one in hack/docgen/fields.go", field)
		}
		used.Insert(at)
		rows = append(rows, row(code(field), states[at].state, states[at].remark))
	}
	for _, field := range slices.Sorted(maps.Keys(states)) {
		if !used.Has(field) {
			return nil, fmt.Errorf("%s has a state, and there is no such field", field)
		}
	}
	return rows, nil
}

// fieldsOf lists the fields below a type, as users write them. Types of other API groups, such as pod templates, count as one field.
func fieldsOf(of reflect.Type, at string) (all []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		if of.Kind() == reflect.Slice {
			at += "[*]"
		}
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || !strings.HasPrefix(of.PkgPath(), ownAPIs) {
		return []string{strings.TrimSuffix(at, "[*]")}
	}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "metadata" || name == "status" || name == "muster" {
			continue // the status is for Muster to write, and only Muster has the field muster
		}
		all = append(all, fieldsOf(field.Type, strings.TrimPrefix(at+"."+name, "."))...)
	}
	return all
}
