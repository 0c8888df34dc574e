package lint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
)

// shipped are the rules that Muster installs.
func shipped(t *testing.T) *lint.Rules {
	t.Helper()
	rules, err := lint.Load(manifests.FS)
	require.NoError(t, err)
	return rules
}

// with are the schemas that Muster installs, with other policies.
func with(t *testing.T, policies string) *lint.Rules {
	t.Helper()
	files := fstest.MapFS{"admission/test.yaml": {Data: []byte(policies)}}
	for _, name := range []string{"crds/batch.volcano.sh_jobs.yaml", "crds/scheduling.volcano.sh_queues.yaml"} {
		text, err := manifests.FS.ReadFile(name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	rules, err := lint.Load(files)
	require.NoError(t, err)
	return rules
}

func read(t *testing.T, text string) []lint.Object {
	t.Helper()
	objects, err := lint.Read("file.yaml", []byte(text))
	require.NoError(t, err)
	return objects
}

func contents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	all := []*unstructured.Unstructured{}
	for _, object := range read(t, text) {
		all = append(all, object.Content)
	}
	return all
}

func check(t *testing.T, rules *lint.Rules, text string, known lint.Known) lint.Report {
	t.Helper()
	report, err := rules.Check(t.Context(), read(t, text), known)
	require.NoError(t, err)
	return report
}

// lines are the findings as text.
func lines(report lint.Report) []string {
	found := []string{}
	for _, f := range report.Findings {
		found = append(found, fmt.Sprintf("%d %s: %s", f.Line, f.Field, f.Message))
	}
	return found
}

const job = `apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: small}
spec:
  tasks:
  - name: main
    replicas: 2
    template:
      spec:
        containers: [{name: main, image: main}]
`

const queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: small}\n"

func TestFindingsOfTheSchema(t *testing.T) {
	rules := shipped(t)
	for name, c := range map[string]struct {
		text string
		want []string // beginnings of the findings
	}{
		"a good Job":   {job, nil},
		"a good Queue": {queue, nil},
		"a rule about a field": {job + "    minAvailable: 3\n",
			[]string{"11 spec.tasks[0].minAvailable: Invalid value: 'minAvailable' is greater than 'replicas'"}},
		"a bound":                     {queue + "spec:\n  weight: -1\n", []string{"5 spec.weight: Invalid value: -1: spec.weight in body should be greater than or equal to 1"}},
		"a wrong type":                {queue + "spec:\n  weight: much\n", []string{"1 : Invalid value: null: some validation rules were not checked", "5 spec.weight: Invalid value: \"string\""}},
		"a field that is missing":     {strings.Replace(job, "spec:\n  tasks:", "spec:\n  tusks:", 1), []string{"4 spec.tasks: Required value", "5 spec.tusks: unknown field \"spec.tusks\": remove it"}},
		"a field that stands twice":   {queue + "spec:\n  weight: 2\n  weight: 3\n", []string{"6 spec.weight: duplicate field \"spec.weight\": remove one"}},
		"an unknown field":            {queue + "spec: {wait: 1}\n", []string{"4 spec.wait: unknown field \"spec.wait\": remove it"}},
		"an unknown field of the pod": {strings.Replace(job, "image: main", "img: main", 1), []string{"10 spec.tasks[0].template.spec.containers[0].img: unknown field"}},
		"an unknown field of metadata": {strings.Replace(queue, "name: small", "name: small, colour: red", 1),
			[]string{"3 metadata.colour: unknown field"}},
		"tasks as the design writes them": {strings.Replace(job, "spec:\n  tasks:", "spec:\n  taskSpecs:", 1), []string{"4 spec.tasks: Required value",
			`5 spec.taskSpecs: unknown field "spec.taskSpecs": remove it, or correct its name. Volcano's design documents write it so; the field is tasks`}},
		"a priority class as the design writes it": {strings.Replace(job, "spec:\n", "spec:\n  priorityClass: high\n", 1),
			[]string{`5 spec.priorityClass: unknown field "spec.priorityClass": remove it, or correct its name. Volcano's design documents write it so; the field is priorityClassName`}},
		"metadata of a wrong type": {strings.Replace(queue, "name: small", "name: small, labels: {a: 1}", 1), []string{"3 metadata: "}},
		"a name that is no name":   {strings.Replace(queue, "small", "../small", 1), []string{"3 metadata.name: Invalid value: \"../small\""}},
		"no name":                  {strings.Replace(queue, "{name: small}", "{}", 1), []string{"1 : Invalid value: null: some validation rules were not checked", "3 metadata.name: Required value: name or generateName is required"}},
		"a name to be generated":   {strings.Replace(queue, "name", "generateName", 1), nil},
		"a kind that Muster has not": {strings.Replace(job, "kind: Job", "kind: Jobs", 1),
			[]string{"2 kind: no kind Jobs in batch.volcano.sh/v1alpha1: Muster has Job of batch.volcano.sh/v1alpha1"}},
		"a version that Muster has not": {strings.Replace(job, "v1alpha1", "v1", 1),
			[]string{"2 kind: no kind Job in batch.volcano.sh/v1: Muster has Job of batch.volcano.sh/v1alpha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := lines(check(t, rules, c.text, lint.Known{}))
			require.Len(t, found, len(c.want), "%q", found)
			for i, want := range c.want {
				assert.Truef(t, strings.HasPrefix(found[i], want), "got %s, want %s", found[i], want)
			}
		})
	}
}

func TestOtherKindsArePassedOver(t *testing.T) {
	report := check(t, shipped(t), job+"---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Service\n", lint.Known{})
	assert.Equal(t, 1, report.Checked)
	assert.Equal(t, map[string]int{"Deployment": 1, "Service": 2}, report.PassedOver)
	assert.Empty(t, report.Findings)
}

func TestChangesAreComparedWithTheObjectAsItWas(t *testing.T) {
	rules := shipped(t)
	changed := strings.Replace(strings.Replace(job, "image: main", "image: other", 1), "replicas: 2", "replicas: 3", 1)
	queues := contents(t, queue)
	unknown := check(t, rules, changed, lint.Known{Params: queues})
	assert.Empty(t, unknown.Findings)
	assert.Equal(t, []lint.Unchecked{
		{Rule: "muster-namespace-queue", Needs: lint.NeedNamespace, Objects: 1},
		{Rule: "schema of Job", Needs: lint.NeedOld, Objects: 1}, {Rule: "muster-job-updates", Needs: lint.NeedOld, Objects: 1},
	}, unknown.NotChecked)

	for name, c := range map[string]struct {
		old, text string
		want      []string
	}{
		"what may change":                {job, strings.Replace(job, "replicas: 2", "replicas: 3", 1), nil},
		"what may not change":            {job, changed, []string{"5 spec.tasks[*].template: spec.tasks[*].template is immutable: job updates may not change fields other than"}},
		"a task more":                    {job, job + "  - name: more\n", []string{"5 spec.tasks: Invalid value: job updates may not add or remove tasks"}},
		"another Job":                    {strings.Replace(job, "small", "other", 1), changed, nil},
		"a Job of another namespace":     {strings.Replace(job, "name: small", "name: small, namespace: other", 1), changed, nil},
		"a Job of the default that is":   {strings.Replace(job, "name: small", "name: small, namespace: default", 1), changed, []string{"5 spec.tasks[*].template"}},
		"nothing is there":               {"", changed, nil},
		"as the cluster has it (fields)": {strings.Replace(job, "name: small", "name: small, uid: u, resourceVersion: '7', generation: 3, creationTimestamp: '2026-01-01T00:00:00Z'", 1), job, nil},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces := []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
			report := check(t, rules, c.text, lint.Known{Old: contents(t, c.old), Namespaces: namespaces, Params: queues})
			assert.Empty(t, report.NotChecked)
			found := lines(report)
			require.Len(t, found, len(c.want), "%q", found)
			for i, want := range c.want {
				assert.Truef(t, strings.HasPrefix(found[i], want), "got %s, want %s", found[i], want)
			}
		})
	}
}

// policyFor makes a policy on Jobs with its binding.
func policyFor(spec, binding string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: test}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [batch.volcano.sh], apiVersions: ["*"], operations: [CREATE], resources: [jobs]}]
` + spec + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: test}
spec: {policyName: test, ` + binding + `}
`
}

const denies = "validationActions: [Deny]"

func TestPoliciesThatNeedMore(t *testing.T) {
	const closed = `
  paramKind: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue}
  validations: [{expression: 'params.metadata.name != object.spec.queue || params.?status.state.orValue("") != "Closed"', message: 'spec.queue: is closed'}]`
	const quota = `
  variables:
  - {name: limits, expression: 'namespaceObject.metadata.?annotations.orValue({})'}
  - {name: limit, expression: 'int(variables.limits[?"limit"].orValue("9"))'}
  validations:
  - {expression: 'object.spec.tasks[0].replicas <= variables.limit', message: 'spec.tasks[0].replicas: too many'}
  - {expression: 'object.spec.tasks[0].replicas > 1', message: 'spec.tasks[0].replicas: too few'}`
	const author = `
  validations: [{expression: 'authorizer.group("x").resource("y").check("use").allowed()', message: 'spec: no right'}]`
	const someAuthor = `
  matchConditions: [{name: large, expression: 'object.spec.tasks[0].replicas > 5'}]` + author
	const user = `
  validations: [{expression: 'request.userInfo.username == "x"', message: 'spec: not the user'}]`
	inQueue := strings.Replace(strings.Replace(job, "spec:\n", "spec:\n  queue: q\n", 1), "name: small", "name: small, namespace: default", 1)
	other := []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	queueIn := func(state string) []*unstructured.Unstructured {
		return contents(t, "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nstatus: {state: "+state+"}\n")
	}
	all := "paramRef: {selector: {}, parameterNotFoundAction: Allow}, " + denies
	limited := []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{"limit": "1"}}}}
	for name, c := range map[string]struct {
		policy string
		known  lint.Known
		want   []string
		needs  []lint.Need
	}{
		"queues, which are not known":           {policyFor(closed, all), lint.Known{}, nil, []lint.Need{lint.NeedParams}},
		"queues, of which one objects":          {policyFor(closed, all), lint.Known{Params: queueIn("Closed")}, []string{"5 spec.queue: is closed"}, nil},
		"queues, of which none objects":         {policyFor(closed, all), lint.Known{Params: queueIn("Open")}, nil, nil},
		"a namespace, which is not known":       {policyFor(quota, denies), lint.Known{}, nil, []lint.Need{lint.NeedNamespace}},
		"another namespace than is known":       {policyFor(quota, denies), lint.Known{Namespaces: other}, nil, []lint.Need{lint.NeedNamespace}},
		"a namespace that objects":              {policyFor(quota, denies), lint.Known{Namespaces: limited}, []string{"8 spec.tasks[0].replicas: too many"}, nil},
		"rights":                                {policyFor(author, denies), lint.Known{}, nil, []lint.Need{lint.NeedAuthorizer}},
		"rights, of Jobs that are not like it":  {policyFor(someAuthor, denies), lint.Known{}, nil, nil},
		"the author":                            {policyFor(user, denies), lint.Known{}, nil, []lint.Need{lint.NeedUser}},
		"a policy that only warns":              {policyFor("  validations: [{expression: 'false'}]", "validationActions: [Warn]"), lint.Known{}, nil, nil},
		"a policy for other namespaces":         {policyFor("  validations: [{expression: 'false'}]", "matchResources: {namespaceSelector: {matchLabels: {a: b}}}, "+denies), lint.Known{}, nil, nil},
		"a policy whose CEL fails on an object": {policyFor("  validations: [{expression: 'object.spec.nothing == 1'}]", denies), lint.Known{}, []string{"1 : expression 'object.spec.nothing == 1' resulted in error: no such key: nothing"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			report := check(t, with(t, c.policy), inQueue, c.known)
			assert.ElementsMatch(t, c.want, lines(report))
			var needs []lint.Need
			for _, u := range report.NotChecked {
				if u.Rule == "test" {
					needs = append(needs, u.Needs)
				}
			}
			assert.Equal(t, c.needs, needs)
		})
	}
}

// TestFieldsWithoutEffectAreWarnedOf: they are no findings, as the API server takes them.
func TestFieldsWithoutEffectAreWarnedOf(t *testing.T) {
	rules, err := lint.Load(manifests.FS)
	require.NoError(t, err)
	const queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
	for name, c := range map[string]struct{ text, says string }{
		"a Job":               {job, ""},
		"an estimate":         {strings.Replace(job, "spec:\n", "spec:\n  runningEstimate: 1h\n", 1), ""},
		"an empty estimate":   {strings.Replace(job, "spec:\n", "spec:\n  runningEstimate: 0s\n", 1), "spec.runningEstimate: says nothing"},
		"a topology policy":   {strings.Replace(job, "replicas:", "topologyPolicy: restricted\n    replicas:", 1), "spec.tasks: topologyPolicy does not choose nodes"},
		"no topology policy":  {strings.Replace(job, "replicas:", "topologyPolicy: none\n    replicas:", 1), ""},
		"no tier":             {strings.Replace(job, "spec:\n", "spec:\n  networkTopology: {mode: hard}\n", 1), "spec.networkTopology: mode hard asks for nothing without a tier"},
		"a tier":              {strings.Replace(job, "spec:\n", "spec:\n  networkTopology: {highestTierName: rack}\n", 1), ""},
		"a soft topology":     {strings.Replace(job, "spec:\n", "spec:\n  networkTopology: {mode: soft}\n", 1), ""},
		"a queue":             {queue, ""},
		"a queue's weight":    {queue + "spec: {weight: 2}\n", ""},
		"a type":              {queue + "spec: {type: elastic}\n", "spec.type: has no effect"},
		"clusters to forward": {queue + "spec: {extendClusters: [{name: b}]}\n", "spec.extendClusters: has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			report := check(t, rules, c.text, lint.Known{})
			for _, f := range report.Findings {
				assert.NotEqual(t, "muster-warnings", f.Rule)
			}
			found := strings.Join(lines(lint.Report{Findings: report.Warnings}), "; ")
			var text strings.Builder
			require.NoError(t, lint.Formats["text"](report, &text))
			assert.Equal(t, c.says != "", strings.Contains(text.String(), ": warning: "))
			if c.says == "" {
				assert.Empty(t, found)
				return
			}
			assert.Contains(t, found, c.says)
		})
	}
}

// The schema and later policies see what a policy writes.
func TestDefaultsOfPoliciesAreWritten(t *testing.T) {
	const defaults = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: defaults}
spec:
  failurePolicy: %s
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [batch.volcano.sh], apiVersions: ["*"], operations: [CREATE], resources: [jobs]}]
  matchConditions: [{name: none, expression: '!has(object.spec.priorityClassName)'}]
  variables: [{name: queue, expression: 'namespaceObject.metadata.?annotations[?"queue"].orValue("default")'}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '%s'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: defaults}
spec: {policyName: defaults}
---
`
	patch := `[JSONPatch{op: "add", path: "/spec/priorityClassName", value: variables.queue}]`
	seen := policyFor(`
  validations: [{expression: 'false', messageExpression: '"spec.priorityClassName: it is " + object.?spec.priorityClassName.orValue("none")'}]`, denies)
	for name, c := range map[string]struct {
		failure, patch, text string
		known                lint.Known
		want                 string
		needs                lint.Need
	}{
		"not known":      {"Ignore", patch, job, lint.Known{}, "4 spec.priorityClassName: it is default", lint.NeedNamespace},
		"of a namespace": {"Ignore", patch, job, lint.Known{Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "here", Annotations: map[string]string{"queue": "theirs"}}}}}, "4 spec.priorityClassName: it is theirs", ""},
		"written":        {"Ignore", patch, strings.Replace(job, "spec:\n", "spec:\n  priorityClassName: mine\n", 1), lint.Known{}, "5 spec.priorityClassName: it is mine", ""},
		"fails, ignored": {"Ignore", `[JSONPatch{op: "remove", path: "/spec/none"}]`, job, lint.Known{}, "4 spec.priorityClassName: it is none", ""},
		"fails":          {"Fail", `[JSONPatch{op: "remove", path: "/spec/none"}]`, job, lint.Known{}, "JSON Patch", ""},
	} {
		t.Run(name, func(t *testing.T) {
			report := check(t, with(t, fmt.Sprintf(defaults, c.failure, c.patch)+seen), c.text, c.known)
			assert.Contains(t, strings.Join(lines(report), "\n"), c.want)
			var need lint.Need
			for _, u := range report.NotChecked {
				if u.Rule == "defaults" {
					need = u.Needs
				}
			}
			assert.Equal(t, c.needs, need)
		})
	}
}

func TestRead(t *testing.T) {
	two := "# a comment\n---\n---\n# more\n" + queue + "---\n" + queue
	for name, c := range map[string]struct {
		text string
		want []int // lines of the names
	}{
		"nothing":               {"", nil},
		"only comments":         {"# a\n---\n# b\n", nil},
		"documents":             {two, []int{7, 11}},
		"carriage returns":      {strings.ReplaceAll(two, "\n", "\r\n"), []int{7, 11}},
		"the same one again":    {queue + "---\n" + queue + "---\n" + queue, []int{3, 7, 11}},
		"JSON":                  {"{\n\t\"apiVersion\": \"a/v1\",\n\t\"kind\": \"B\",\n\t\"metadata\": {\n\t\t\"name\": \"c\"\n\t}\n}\n", []int{5}},
		"JSON values":           {"{\"apiVersion\": \"a/v1\", \"kind\": \"B\",\n \"metadata\": {\"name\": \"c\"}}\n{\"apiVersion\": \"a/v1\",\n\"kind\": \"B\",\n\"metadata\": {\"name\": \"c\"}}", []int{2, 5}},
		"YAML with braces":      {"{apiVersion: a/v1,\n kind: B, metadata: {name: c}}", []int{2}},
		"a list":                {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: a/v1\n  kind: B\n  metadata: {name: c}\n- apiVersion: a/v1\n  kind: B\n  metadata:\n    name: c\n", []int{6, 10}},
		"an anchor":             {"apiVersion: a/v1\nkind: B\nmetadata: &m\n  name: c\nother: *m\n", []int{4}},
		"names without quotes":  {"apiVersion: a/v1\nkind: B\nmetadata: {name: on}\n", []int{3}},
		"a kind that is a list": {"apiVersion: a/v1\nkind: TodoList\n", []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, object := range read(t, c.text) {
				got = append(got, object.Line("metadata.name"))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestReadRefusesWhatIsNoObject(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: [":                          "file.yaml: the document from line 1 on is no YAML",
		queue + "---\n- a\n":                     "file.yaml: the document from line 5 on is no object",
		queue + "---\nkind: B\n":                 "file.yaml:5: an object needs apiVersion: name it",
		"apiVersion: a/v1\n":                     "file.yaml:1: an object needs kind: name it",
		"apiVersion: a/v1\nkind: 3\n":            "file.yaml:2: an object needs kind: name it",
		"kind: List\napiVersion: v1\nitems: [3]": "file.yaml:3: an item of the list is no object",
		queue + "--- x\n":                        "file.yaml: finding the YAML documents",
	} {
		_, err := lint.Read("file.yaml", []byte(text))
		require.ErrorContains(t, err, want)
	}
}

// Fields are found by their paths, or else what they would be part of.
func TestLine(t *testing.T) {
	object := read(t, `apiVersion: a/v1
kind: B
metadata:
  annotations:
    scheduling.volcano.sh/queue-name: q
spec:
  capability:
    nvidia.com/gpu: 1
  tasks:
  - name: a
  - {name: b}
  - &c
    name: c
  - *c
`)[0]
	for field, line := range map[string]int{
		"": 1, "spec": 6, "spec.tasks": 9, "spec.tasks[1].name": 11, "spec.tasks[2].name": 13, "spec.tasks[3].name": 13, "spec.tasks[7].name": 9,
		"spec.tasks[*].template": 9, "spec.nothing.more": 6, "metadata.annotations[scheduling.volcano.sh/queue-name]": 5, "status": 1,
		"spec.capability.nvidia.com/gpu": 8, "spec.capability[nvidia.com/gpu]": 8, "metadata.annotations[other/name]": 4,
	} {
		assert.Equal(t, line, object.Line(field), field)
	}
}

func TestReports(t *testing.T) {
	report := check(t, shipped(t), strings.Replace(job, "replicas: 2", "replicas: -1", 1)+"---\napiVersion: v1\nkind: Service\n", lint.Known{})
	written := func(format string) string {
		var out bytes.Buffer
		require.NoError(t, lint.Formats[format](report, &out))
		return out.String()
	}
	const message = "spec.tasks[0].replicas: Invalid value: -1: spec.tasks[0].replicas in body should be greater than or equal to 0"
	text := written("text")
	assert.Contains(t, text, "file.yaml:7: Job small: "+message+"\n1 object checked, 1 finding; passed over: Service 1\n")

	var again lint.Report
	require.NoError(t, json.Unmarshal([]byte(written("json")), &again))
	assert.Equal(t, report, again)

	var sarif struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(written("sarif")), &sarif))
	assert.Equal(t, "2.1.0", sarif.Version)
	require.Len(t, sarif.Runs, 1)
	require.Len(t, sarif.Runs[0].Results, 1)
	result := sarif.Runs[0].Results[0]
	assert.Equal(t, "schema", result.RuleID)
	assert.Equal(t, "schema", sarif.Runs[0].Tool.Driver.Rules[0].ID)
	assert.Equal(t, "Job small: "+message, result.Message.Text)
	assert.Equal(t, 7, result.Locations[0].PhysicalLocation.Region.StartLine)
	assert.Equal(t, "file.yaml", result.Locations[0].PhysicalLocation.ArtifactLocation.URI)
}

// Muster's examples for users have no findings.
func TestExamplesHaveNoFindings(t *testing.T) {
	rules := shipped(t)
	files, err := manifests.FS.ReadDir("examples")
	require.NoError(t, err)
	checked := 0
	for _, file := range files {
		text, err := manifests.FS.ReadFile("examples/" + file.Name())
		require.NoError(t, err)
		report := check(t, rules, string(text), lint.Known{})
		assert.Empty(t, report.Findings, file.Name())
		checked += report.Checked
	}
	assert.Greater(t, checked, 8)
}

// FuzzLint: any file is refused with its name, or checked without a panic; each finding stands in the file.
func FuzzLint(f *testing.F) {
	rules, err := lint.Load(manifests.FS)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		job, queue, job + "---\n" + queue, "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}", "a: &a\n- *a\n", "apiVersion: v1\nkind: List\nitems: 3\n",
		strings.Replace(job, "spec:\n", "spec: &s\n  <<: {queue: q}\n", 1), strings.Replace(queue, "metadata: {name: small}", "metadata: []", 1),
		queue + "spec: []\n", queue + "spec:\n  capability: {cpu: .inf}\n", queue + "status: {state: Closed}\n", "\ufeff" + queue, "? a\n: b\n", queue + "\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := lint.Read("file.yaml", []byte(text))
		if err != nil {
			require.Contains(t, err.Error(), "file.yaml")
			return
		}
		old := []*unstructured.Unstructured{}
		for _, object := range objects {
			old = append(old, object.Content)
		}
		for _, known := range []lint.Known{{}, {Old: old, Params: old}} {
			report, err := rules.Check(t.Context(), objects, known)
			require.NoError(t, err)
			for _, finding := range report.Findings {
				require.NotEmpty(t, finding.Message)
				require.Positive(t, finding.Line)
				require.LessOrEqual(t, finding.Line, strings.Count(text, "\n")+1)
			}
		}
	})
}

// TestAStarWithoutQuotesIsExplained: the design documents write it so, and YAML takes it for a reference.
func TestAStarWithoutQuotesIsExplained(t *testing.T) {
	for text, explained := range map[string]bool{
		"policies:\n- event: *\n  action: RestartJob\n": true,
		"policies:\n  - event: * # any\n":               true,
		"policies:\n- events: [*, PodFailed]\n":         true,
		"policies: [\n":                                 false,
		"policies:\n- event: \"*\"\n  action: [\n":      false,
	} {
		_, err := lint.Read("job.yaml", []byte(text))
		require.Error(t, err)
		assert.Equal(t, explained, strings.Contains(err.Error(), `write "*" in quotes`), "%s: %v", text, err)
	}
}

// TestContainersAsAMapAreExplained as a list is meant.
func TestContainersAsAMapAreExplained(t *testing.T) {
	text := strings.Replace(job, "[{name: main, image: main}]", "{name: main, image: main}", 1)
	require.NotEqual(t, job, text)
	found := strings.Join(lines(check(t, shipped(t), text, lint.Known{})), "\n")
	assert.Contains(t, found, "Write a list: a dash before the first field of each container")
}
