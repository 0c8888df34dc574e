package phjob

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// instanceType reads the spec of an instance type.
func instanceType(t *testing.T, spec string) *primehubv1alpha1.InstanceType {
	t.Helper()
	it := &primehubv1alpha1.InstanceType{ObjectMeta: metav1.ObjectMeta{Name: "tiny"}}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &it.Spec))
	return it
}

func TestLimits(t *testing.T) {
	for spec, want := range map[string]map[corev1.ResourceName]string{
		`{limits.cpu: 0.5, limits.memory: 4G}`:                                                          {"cpu": "500m", "memory": "4Gi"},
		`{limits.cpu: 0.0001, limits.memory: 4G}`:                                                       {"cpu": "1m", "memory": "4Gi"},
		`{limits.cpu: 2, limits.memory: 512M, limits.gpu: 0}`:                                           {"cpu": "2", "memory": "512Mi"},
		`{limits.cpu: 2, limits.memory: 1.5G, limits.nvidia.com/gpu: 2}`:                                {"cpu": "2", "memory": "1536Mi", "nvidia.com/gpu": "2"},
		`{limits.cpu: 2, limits.memory: 1Gi, limits.gpu: 1, limits.nvidia.com/gpu: 2}`:                  {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
		`{limits.cpu: 2, limits.memory: "1073741824", limits.gpu: 4, gpuResourceName: amd.com/gpu}`:     {"cpu": "2", "memory": "1073741824", "amd.com/gpu": "4"},
		`{limits.cpu: 2, limits.memory: 1Ti, requests.cpu: 0.1, requests.memory: 1G, limits.gpu: null}`: {"cpu": "2", "memory": "1Ti"},
	} {
		limits, err := Limits(instanceType(t, spec))
		require.NoError(t, err, spec)
		got := map[corev1.ResourceName]string{}
		for name, amount := range limits {
			got[name] = amount.String()
		}
		assert.Equal(t, want, got, spec)
	}
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	for spec, want := range map[string]string{
		`{limits.cpu: 0, limits.memory: 4G}`:                                            "InstanceType tiny: spec.limits.cpu is 0: it must be greater than 0, such as 0.5",
		`{limits.cpu: -1, limits.memory: 4G}`:                                           "InstanceType tiny: spec.limits.cpu is -1",
		`{limits.cpu: 1e300, limits.memory: 4G}`:                                        "InstanceType tiny: spec.limits.cpu is 1e+300",
		`{limits.cpu: 1, limits.memory: lots}`:                                          `InstanceType tiny: spec.limits.memory is "lots": write an amount such as 4G`,
		`{limits.cpu: 1, limits.memory: 1e999999999}`:                                   "write an amount such as 4G",
		`{limits.cpu: 1, limits.memory: "-4G"}`:                                         "write an amount such as 4G",
		`{limits.cpu: 1, limits.memory: "0"}`:                                           "it must be greater than 0, and less than 8E",
		`{limits.cpu: 1, limits.memory: 9999999999E}`:                                   "it must be greater than 0, and less than 8E",
		`{limits.cpu: 1, limits.memory: 4G, limits.gpu: -1}`:                            "spec.limits.gpu is -1: it must not be negative",
		`{limits.cpu: 1, limits.memory: 4G, limits.gpu: 1, gpuResourceName: "a b/gpu"}`: `spec.gpuResourceName is "a b/gpu": name a resource such as nvidia.com/gpu`,
		`{limits.cpu: 1, limits.memory: 4G, limits.gpu: 1, gpuResourceName: cpu}`:       `spec.gpuResourceName is "cpu"`,
	} {
		_, err := Limits(instanceType(t, spec))
		assert.ErrorContains(t, err, want, spec)
	}
}

func TestImages(t *testing.T) {
	image := &primehubv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	_, err := URLOf(image, false)
	require.ErrorContains(t, err, "spec.url of Image base is empty: set it, or wait until the image is built")

	image.Spec.URL = "cpu"
	for _, withGPU := range []bool{false, true} {
		url, err := URLOf(image, withGPU)
		require.NoError(t, err)
		assert.Equal(t, "cpu", url)
	}
	image.Spec.URLForGPU = "gpu"
	url, err := URLOf(image, true)
	require.NoError(t, err)
	assert.Equal(t, "gpu", url)
	url, err = URLOf(image, false)
	require.NoError(t, err)
	assert.Equal(t, "cpu", url)
}

// TestWhoIsOffered: a preset that is not limited, or is for the group everyone, is for all groups.
func TestWhoIsOffered(t *testing.T) {
	with := func(groups string) *primehubv1alpha1.Image {
		return &primehubv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{primehubv1alpha1.GroupsAnnotation: groups}}}
	}
	of := func(group string) *primehubv1alpha1.Image {
		return &primehubv1alpha1.Image{Spec: primehubv1alpha1.ImageSpec{GroupName: group}}
	}
	for name, c := range map[string]struct {
		image *primehubv1alpha1.Image
		want  bool
	}{
		"not limited":           {of(""), true},
		"of the group":          {of("a"), true},
		"of another group":      {of("b"), false},
		"of everyone":           {of("everyone"), true},
		"for the group":         {with("b, a"), true},
		"for other groups":      {with("b,c"), false},
		"for none":              {with(""), false},
		"for everyone and some": {with("b,everyone"), true},
	} {
		assert.Equal(t, c.want, IsImageOffered(c.image, "a"), name)
	}
}

func queue(name string, labels ...string) *schedulingv1beta1.Queue {
	q := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		q.Labels[labels[i]] = labels[i+1]
	}
	return q
}

func TestFindQueue(t *testing.T) {
	const id, name = primehubv1alpha1.GroupIDLabel, primehubv1alpha1.GroupNameLabel
	queues := []*schedulingv1beta1.Queue{
		queue("both", id, "1", name, "phusers"), queue("by-name", name, "other"), queue("spaced", name, "escaped-a-20b"),
		queue("twice-b", id, "2"), queue("twice-a", id, "2"), queue("none"),
	}
	for spec, want := range map[primehubv1alpha1.PhJobSpec]string{
		{GroupID: "1", GroupName: "phusers"}: "both",
		{GroupID: "7", GroupName: "phusers"}: "both",
		{GroupName: "other"}:                 "by-name",
		{GroupName: "a b"}:                   "spaced",
		{GroupID: "1", GroupName: "other"}:   `groupName is "other", but the group of queue "both", which groupId asks for, is "phusers"`,
		{GroupID: "2", GroupName: "x"}:       `queues "twice-a" and "twice-b" have the labels of group x, and only one may`,
		{GroupID: "7", GroupName: "x"}: "cannot get group info: Group not found: x. An administrator gives its Queue the label " +
			"primehub.io/group-id or primehub.io/group-name",
		{}: "Group not found",
	} {
		found, err := FindQueue(queues, &spec)
		if err != nil {
			require.ErrorContains(t, err, want)
			continue
		}
		assert.Equal(t, want, found.Name)
	}
}

func TestGroupOf(t *testing.T) {
	q := queue("q")
	q.Annotations = map[string]string{
		primehubv1alpha1.GroupVolumesAnnotation: "group1, group2",
		primehubv1alpha1.DatasetsAnnotation: `[{"name":"ds1","type":"pv","volumeName":"claim"},{"name":"code","type":"git","volumeName":"repo"},
			{"name":"share","type":"nfs","server":"s","path":"/p","readOnly":true},{"name":"keys","type":"env","variables":{"a":"b"}}]`,
	}
	group, err := GroupOf(q)
	require.NoError(t, err)
	assert.Equal(t, []string{"group1", "group2"}, group.Volumes)
	assert.Len(t, group.Datasets, 4)

	for text, want := range map[string]string{
		`{`:                                `annotation primehub.io/datasets of queue "q"`,
		`[{"name":"a","typ":"pv"}]`:        `unknown field "typ"`,
		`[{"name":"a","type":"hostPath"}]`: `dataset "a": type is "hostPath": use pv, git, nfs or env`,
		`[{"name":"a","type":"pv"}]`:       "volumeName must name a claim",
		`[{"name":"a","type":"nfs"}]`:      "server and path must not be empty",
		`[{"name":"../a","type":"env"}]`:   "its name must have only lower-case letters",
		`[{"name":"","type":"env"}]`:       "its name must have only lower-case letters",
	} {
		q.Annotations[primehubv1alpha1.DatasetsAnnotation] = text
		_, err := GroupOf(q)
		assert.ErrorContains(t, err, want, text)
	}
}

// TestNamesInLabels: PrimeHub's form of names, and back.
func TestNamesInLabels(t *testing.T) {
	for name, label := range map[string]string{"bob": "escaped-bob", "a.B_c@d": "escaped-a-2e-42-5fc-40d", "": "escaped-", "é": "escaped--c3-a9"} {
		assert.Equal(t, label, primehubv1alpha1.Escape(name))
		back, ok := primehubv1alpha1.Unescape(label)
		assert.True(t, ok, label)
		assert.Equal(t, name, back)
	}
	for _, label := range []string{"bob", "escaped-a-", "escaped-a-4", "escaped-a-zz", "escaped-A", "escaped-a-61", "escaped-a-2E"} {
		_, ok := primehubv1alpha1.Unescape(label)
		assert.False(t, ok, label)
	}
	assert.Equal(t, "bob", primehubv1alpha1.LabelOf("bob"))
	assert.Equal(t, "escaped-bob-40x", primehubv1alpha1.LabelOf("bob@x"))
}

func TestConfig(t *testing.T) {
	cfg, err := ParseConfig(nil)
	require.NoError(t, err)
	assert.Equal(t, DefaultConfig(), cfg)

	cfg, err = ParseConfig([]byte(`{jobSubmission: {workingDirSize: 10Gi, defaultActiveDeadlineSeconds: 0, nodeSelector: {a: b},
		tolerations: [{key: k, operator: Exists}], affinity: {nodeAffinity: {}}}, phfsEnabled: true, phfsPVC: primehub-store, timezone: Asia/Taipei}`))
	require.NoError(t, err)
	assert.Equal(t, "10Gi", cfg.JobSubmission.WorkingDirSize.String())
	assert.Zero(t, cfg.JobSubmission.DefaultActiveDeadlineSeconds)
	assert.EqualValues(t, 604800, cfg.JobSubmission.DefaultTTLSecondsAfterFinished, "what is not named keeps its default")
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"defaultTTLSecondsAfterFinished":604800`)

	for text, want := range map[string]string{
		`{jobSubmission: {workingDirSise: 5Gi}}`:                `unknown field "workingDirSise"`,
		`{graphqlEndpoint: x}`:                                  `unknown field "graphqlEndpoint"`,
		`{jobSubmission: {workingDirSize: lots}}`:               "quantities must match",
		`{jobSubmission: {workingDirSize: "0"}}`:                "jobSubmission.workingDirSize must be greater than 0, such as 5Gi",
		`{jobSubmission: {workingDir: tmp}}`:                    "jobSubmission.workingDir must be an absolute path",
		`{jobSubmission: {startTimeoutSeconds: 0}}`:             "jobSubmission.startTimeoutSeconds must be at least 1",
		`{jobSubmission: {defaultActiveDeadlineSeconds: -1}}`:   "jobSubmission.defaultActiveDeadlineSeconds must not be negative; 0 switches it off",
		`{jobSubmission: {defaultTTLSecondsAfterFinished: -1}}`: "jobSubmission.defaultTTLSecondsAfterFinished must not be negative",
		`{jobSubmission: {jobTTLSeconds: -1}}`:                  "jobSubmission.jobTTLSeconds must not be negative",
		`{jobSubmission: {jobLimit: -1}}`:                       "jobSubmission.jobLimit must not be negative",
		`{phfsEnabled: true}`:                                   "phfsPVC must name the claim",
		`{timezone: Nowhere}`:                                   "timezone must be a time zone such as UTC",
	} {
		_, err := ParseConfig([]byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}
