package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// inputCases are objects of the wrong form: types, unknown fields, bounds, sizes and names that mean something elsewhere.
func inputCases() []Case {
	var cases []Case
	for _, some := range [][]Case{typeCases(), unknownFields(), boundCases(), nameCases(), sizeCases()} {
		cases = append(cases, some...)
	}
	return cases
}

// wrongTypes are, for each type of a field, values of other types.
var wrongTypes = map[string][]string{
	"integer": {`"1"`, `1.5`, `true`, `[1]`, `{a: 1}`},
	"string":  {`1`, `true`, `[a]`, `{a: b}`},
	"boolean": {`"true"`, `1`, `[]`},
	"list":    {`a`, `1`, `{a: b}`},
	"map":     {`a`, `1`, `[a]`},
}

// typedFields are fields with their types, by base. A dot leads into a map.
var typedFields = []struct{ base, field, is string }{
	{Job, "spec.minAvailable", "integer"}, {Job, "spec.maxRetry", "integer"}, {Job, "spec.minSuccess", "integer"},
	{Job, "spec.ttlSecondsAfterFinished", "integer"}, {Job, "spec.queue", "string"}, {Job, "spec.schedulerName", "string"},
	{Job, "spec.priorityClassName", "string"}, {Job, "spec.suspend", "boolean"}, {Job, "spec.tasks", "list"}, {Job, "spec.volumes", "list"},
	{Job, "spec.policies", "list"}, {Job, "spec.plugins", "map"}, {Job, "spec.networkTopology", "map"},
	{PodGroup, "spec.minMember", "integer"}, {PodGroup, "spec.queue", "string"}, {PodGroup, "spec.minTaskMember", "map"},
	{PodGroup, "spec.minResources", "map"}, {PodGroup, "spec.subGroupPolicy", "list"},
	{Queue, "spec.weight", "integer"}, {Queue, "spec.priority", "integer"}, {Queue, "spec.reclaimable", "boolean"}, {Queue, "spec.parent", "string"},
	{Queue, "spec.capability", "map"}, {Queue, "spec.deserved", "map"}, {Queue, "spec.guarantee", "map"}, {Queue, "spec.extendClusters", "list"},
	{Queue, "spec.type", "string"}, {Queue, "spec.dequeueStrategy", "string"},
}

func typeCases() []Case {
	var cases []Case
	for _, f := range typedFields {
		for _, value := range wrongTypes[f.is] {
			cases = append(cases, Case{Name: fmt.Sprintf("%s of %s", f.field, value), Base: f.base, Patch: nested(f.field, value), Says: []string{f.field}})
		}
	}
	return cases
}

// nested is a patch of a field: a.b.c and a value make {a: {b: {c: value}}}.
func nested(field, value string) string {
	steps := strings.Split(field, ".")
	return "{" + strings.Join(steps, ": {") + ": " + value + strings.Repeat("}", len(steps))
}

func unknownFields() []Case {
	var cases []Case
	for _, f := range []struct{ base, field string }{
		{Job, "spec.replicas"}, {Job, "spec.minavailable"}, {Job, "spec.Queue"}, {Job, "spec.networkTopology.tier"}, {Job, "specs"},
		{PodGroup, "spec.minMembers"}, {PodGroup, "spec.minmember"}, {Queue, "spec.capacity"}, {Queue, "spec.guarantee.cpu"}, {Queue, "spec.muster.quota"},
	} {
		cases = append(cases, Case{Name: "an unknown field " + f.field, Base: f.base, Patch: nested(f.field, "1"), Says: []string{f.field, "unknown field"}})
	}
	return cases
}

// bounds are numbers at and beyond the ends of what a field takes.
var bounds = []struct {
	base, field string
	taken, not  []string
}{
	{Job, "spec.maxRetry", []string{"0", "1", "1000000"}, []string{"-1", "1000001"}},
	{Job, "spec.ttlSecondsAfterFinished", []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
	{Job, "spec.activeDeadlineSeconds", []string{"1", "2147483647"}, []string{"0", "-1", "2147483648"}},
	{Job, "spec.minAvailable", []string{"0", "2"}, []string{"-1", "2147483648", "-2147483649"}},
	{Job, "spec.networkTopology.highestTierAllowed", []string{"0", "1"}, []string{"-1"}},
	{PodGroup, "spec.minMember", []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
	{PodGroup, "spec.networkTopology.highestTierAllowed", []string{"0"}, []string{"-1"}},
	{Queue, "spec.weight", []string{"1", "65535"}, []string{"-1", "65536"}},
	{Queue, "spec.priority", []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
	{Queue, "spec.muster.maxRunningJobs", []string{"0", "1"}, []string{"-1"}},
	{Queue, "spec.muster.minRuntime", []string{"0s", "8760h"}, []string{"-1s", "8761h"}},
	{Queue, "spec.muster.defaultRuntime", []string{"1s", "8760h"}, []string{"0s", "-1s", "8761h"}},
	{Queue, "spec.muster.preemptionDelay", []string{"0s", "8760h"}, []string{"-1s", "8761h"}},
	{Queue, "spec.dequeueStrategy", []string{"fifo", "traverse"}, []string{"lifo", "FIFO", `""`}},
	{Job, "spec.networkTopology.mode", []string{"hard", "soft"}, []string{"firm", "Hard"}},
	{PodGroup, "spec.networkTopology.mode", []string{"hard", "soft"}, []string{"firm", "Soft"}},
	{Job, "spec.runningEstimate", []string{"0s", "1h30m", "8760h"}, []string{"-1s", "8761h", "87600h", "1d", "soon", "1h 30m"}},
	{PodGroup, "spec.minResources.cpu", []string{"1", "500m"}, []string{"one", "1 m"}},
}

func boundCases() []Case {
	var cases []Case
	for _, b := range bounds {
		for _, value := range b.taken {
			cases = append(cases, Case{Name: b.field + " = " + value, Base: b.base, Patch: nested(b.field, value)})
		}
		for _, value := range b.not {
			cases = append(cases, Case{Name: b.field + " = " + value + " is out of bounds", Base: b.base, Patch: nested(b.field, value), Says: []string{b.field}})
		}
	}
	return cases
}

// strange are names that no object may have. They mean something to a shell, a file system, a URL or a reader.
var strange = map[string]string{
	"a path":                        "../../etc/passwd",
	"an absolute path":              "/etc/passwd",
	"a path of Windows":             `a\\b`,
	"an escaped path":               "%2e%2e%2fa",
	"upper case":                    "Upper",
	"a blank":                       "a b",
	"a line break":                  `a\nb`,
	"a NUL":                         `a\0b`,
	"an emoji":                      "🚀",
	"letters that look like others": "аdmin",
	"letters from right to left":    `a\u202eb`,
	"a zero width blank":            `a\u200bb`,
	"a command":                     "$(reboot)",
	"markup":                        "<b>a</b>",
	"a hyphen in front":             "-a",
	"a hyphen at the end":           "a-",
	"an underscore":                 "a_b",
	"254 characters":                strings.Repeat("n", 254),
}

func nameCases() []Case {
	var cases []Case
	for _, what := range slices.Sorted(maps.Keys(strange)) {
		text := `"` + strange[what] + `"`
		cases = append(cases,
			Case{Name: "a name with " + what, Base: Job, Patch: nested("metadata.name", text), Says: []string{"metadata.name"}},
			Case{Name: "a name with " + what, Base: PodGroup, Patch: nested("metadata.name", text), Says: []string{"metadata.name"}},
			Case{Name: "a name with " + what, Base: Queue, Patch: nested("metadata.name", text), Says: []string{"metadata.name"}},
			Case{Name: "a queue with " + what, Base: Job, Patch: nested("spec.queue", text), Says: []string{"spec.queue"}},
			Case{Name: "a queue with " + what, Base: PodGroup, Patch: nested("spec.queue", text), Says: []string{"spec.queue"}},
			Case{Name: "a parent with " + what, Base: Queue, Patch: nested("spec.parent", text), Says: []string{"spec.parent"}},
			Case{Name: "a priority class with " + what, Base: Job, Patch: nested("spec.priorityClassName", text), Says: []string{"spec.priorityClassName"}},
			Case{Name: "a task with " + what, Base: Job, Patch: tasks("name: " + text + ", replicas: 1"), Says: []string{"spec.tasks[0].name"}},
			Case{Name: "a claim with " + what, Base: Job, Patch: `spec: {volumes: [{mountPath: /a, volumeClaimName: ` + text + `}]}`, Says: []string{"spec.volumes[0].volumeClaimName"}})
		cases = append(cases, onlyCreate(
			Case{Name: "a container with " + what, Base: Job, Patch: pod("{containers: [{name: " + text + ", image: main}]}"), Says: []string{"spec.tasks[0].template.spec.containers[0].name"}})...)
	}
	return cases
}

// more is a list of so many items.
func more(count int, item string) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", count), ", ")
}

func numbered(count int, format string) []string {
	var items []string
	for i := range count {
		items = append(items, fmt.Sprintf(format, i))
	}
	return items
}

func sizeCases() []Case {
	lists := func(count int, format string) string { return strings.Join(numbered(count, format), ", ") }
	return []Case{
		{Name: "10000 tasks", Base: Job, Patch: tasks(numbered(10_000, "name: t%d, replicas: 1")...), Says: []string{"spec.tasks", "must have at most 100 items"}},
		{Name: "101 tasks", Base: Job, Patch: tasks(numbered(101, "name: t%d, replicas: 1")...), Says: []string{"spec.tasks", "must have at most 100 items"}},
		{Name: "100 tasks with 20 policies each", Base: Job,
			Patch: tasks(numbered(100, "name: t%d, replicas: 1, policies: ["+lists(20, "{exitCode: 1%d, action: RestartJob}")+"]")...)},
		{Name: "21 policies", Base: Job, Patch: policies(lists(21, "{exitCode: 1%d, action: RestartJob}")), Says: []string{"spec.policies", "must have at most 20 items"}},
		{Name: "20 policies", Base: Job, Patch: policies(lists(20, "{exitCode: 1%d, action: RestartJob}"))},
		{Name: "65 volumes", Base: Job, Patch: "spec: {volumes: [" + lists(65, "{mountPath: /v%d}") + "]}", Says: []string{"spec.volumes", "must have at most 64 items"}},
		{Name: "64 volumes", Base: Job, Patch: "spec: {volumes: [" + lists(64, "{mountPath: /v%d}") + "]}"},
		{Name: "33 plugins", Base: Job, Patch: "spec: {plugins: {" + lists(33, "p%d: []") + "}}", Says: []string{"spec.plugins", "must have at most 32 items"}},
		{Name: "11 events", Base: Job, Patch: policies("{events: [" + more(11, "PodFailed") + "], action: RestartJob}"), Says: []string{"events", "must have at most 10 items"}},
		{Name: "a mountPath of 4097 characters", Base: Job, Patch: "spec: {volumes: [{mountPath: /" + strings.Repeat("a", 4096) + "}]}", Says: []string{"spec.volumes[0].mountPath"}},
		{Name: "a scheduler's name of 64 characters", Base: Job, Patch: nested("spec.schedulerName", strings.Repeat("s", 64)), Says: []string{"spec.schedulerName"}},
		{Name: "1 MiB of annotations", Base: Job, Patch: nested("metadata.annotations.a", strings.Repeat("a", 1<<20)), Says: []string{"metadata.annotations", "Too long"}},
		{Name: "1 MiB of annotations", Base: PodGroup, Patch: nested("metadata.annotations.a", strings.Repeat("a", 1<<20)), Says: []string{"metadata.annotations", "Too long"}},
		{Name: "1 MiB of annotations", Base: Queue, Patch: nested("metadata.annotations.a", strings.Repeat("a", 1<<20)), Says: []string{"metadata.annotations", "Too long"}},
		{Name: "a label of 64 characters", Base: Job, Patch: nested("metadata.labels.a", strings.Repeat("a", 64)), Says: []string{"metadata.labels"}},
		{Name: "101 sub groups", Base: PodGroup, Patch: "spec: {subGroupPolicy: [" + lists(101, "{name: g%d}") + "]}", Says: []string{"spec.subGroupPolicy", "must have at most 100 items"}},
		{Name: "1001 tasks", Base: PodGroup, Patch: "spec: {minTaskMember: {" + lists(1001, "t%d: 1") + "}}", Says: []string{"spec.minTaskMember", "must have at most 1000 items"}},
		{Name: "257 resources", Base: Queue, Patch: "spec: {capability: {" + lists(257, "r%d: 1") + "}}", Says: []string{"spec.capability", "must have at most 256 items"}},
		{Name: "256 resources", Base: Queue, Patch: "spec: {capability: {" + lists(256, "r%d: 2") + "}, deserved: {" + lists(256, "r%d: 1") + "}}"},
		{Name: "256 resources, the last one too large", Base: Queue, Row: rowCapability,
			Patch: "spec: {capability: {" + lists(256, "r%d: 2") + "}, deserved: {" + lists(255, "r%d: 1") + ", r255: 3}}",
			Says:  []string{"deserved[r255]=3 must be <= capability[r255]=2"}},
	}
}
