package plugins_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/policy"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden shows what the plugins do for the Jobs in testdata. It shows the notes, the objects, and the first and last pods of each task.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob(filepath.Join("testdata", "*.job.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".job.yaml"), func(t *testing.T) {
			job := readJob(t, input)
			set, errs := plugins.For(job)
			require.Empty(t, errs)
			expectGolden(t, strings.TrimSuffix(input, ".job.yaml")+".golden.yaml", show(t, job, set))
		})
	}
}

func readJob(t *testing.T, file string) *batchv1alpha1.Job {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	job := &batchv1alpha1.Job{}
	require.NoError(t, yaml.UnmarshalStrict(content, job))
	return job
}

func expectGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update to make the file")
	assert.Equal(t, string(want), string(got), "run the test with -update if the change is meant")
}

// show writes down all that the plugins do for a Job.
func show(t *testing.T, job *batchv1alpha1.Job, set *plugins.Set) []byte {
	t.Helper()
	var text bytes.Buffer
	add := func(comment string, object any) {
		content, err := yaml.Marshal(object)
		require.NoError(t, err)
		fmt.Fprintf(&text, "--- # %s\n%s", comment, content)
	}
	add("status.controlledResources", set.ControlledResources())
	for _, note := range set.Notes() {
		add("event", note)
	}
	objects, err := set.Objects(keptKeys)
	require.NoError(t, err)
	for _, object := range objects {
		if secret, ok := object.(*corev1.Secret); ok {
			// As text, for people.
			secret.StringData = map[string]string{}
			for name, content := range secret.Data {
				secret.StringData[name] = string(content)
			}
			secret.Data = nil
		}
		kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
		add(kind, object)
	}
	filled := defaults.Job(job, "")
	for i := range filled.Spec.Tasks {
		task := &filled.Spec.Tasks[i]
		for index := range task.Replicas {
			if index == 0 || index == task.Replicas-1 {
				pod := podOf(filled, task, index)
				set.MutatePod(pod, task, index)
				add("Pod", pod)
			}
		}
	}
	return text.Bytes()
}

// keptKeys is the Secret of a Job that has one.
func keptKeys(string) map[string][]byte {
	return map[string][]byte{"id_rsa": []byte("PRIVATE"), "id_rsa.pub": []byte("PUBLIC\n")}
}

// podOf makes the pod as the job controller does, with all that plugins read.
func podOf(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) *corev1.Pod {
	template := task.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: policy.PodName(job.Name, task.Name, index), Namespace: job.Namespace, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
}
