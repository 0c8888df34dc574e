package job_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// TestManifestsOfTheDocs: every complete manifest in the docs is accepted. Jobs get the pods of all tasks that wait for no other. The pages
// of plugins have a test of their own, in the package jobplugins.
func TestManifestsOfTheDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "docs")
	manifests := map[string][]byte{} // page and number -> text
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" || filepath.Base(filepath.Dir(path)) == "plugins" {
			return err
		}
		page, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile("(?ms)^```yaml\n(apiVersion: [a-z]+\\.volcano\\.sh/.*?)^```$").FindAllSubmatch(page, -1) {
			name := strings.TrimPrefix(path, root+"/")
			for manifests[name] != nil {
				name += "+"
			}
			manifests[name] = match[1]
		}
		return nil
	}))
	require.Greater(t, len(manifests), 20)
	for name, text := range manifests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, document := range bytes.Split(text, []byte("\n---\n")) {
				applyManifest(t, document)
			}
		})
	}
}

func applyManifest(t *testing.T, text []byte) {
	t.Helper()
	kind := metav1.TypeMeta{}
	require.NoError(t, yaml.Unmarshal(text, &kind))
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	switch kind.Kind {
	case "Job":
		job := &batchv1alpha1.Job{}
		require.NoError(t, yaml.UnmarshalStrict(text, job))
		startJob(t, job)
	case "Queue":
		queue := &schedulingv1beta1.Queue{}
		require.NoError(t, yaml.UnmarshalStrict(text, queue))
		_, err := muster.SchedulingV1beta1().Queues().Create(t.Context(), queue, dryRun)
		require.NoError(t, err)
	case "Pod":
		pod := &corev1.Pod{}
		require.NoError(t, yaml.UnmarshalStrict(text, pod))
		_, err := kube.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, dryRun)
		require.NoError(t, err)
	case "PodGroup":
		group := &schedulingv1beta1.PodGroup{}
		require.NoError(t, yaml.UnmarshalStrict(text, group))
		_, err := muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(t.Context(), group, dryRun)
		require.NoError(t, err)
	case "Command":
		command := &busv1alpha1.Command{}
		require.NoError(t, yaml.UnmarshalStrict(text, command))
		command.TargetObject.UID = types.UID("uid")
		_, err := muster.BusV1alpha1().Commands(metav1.NamespaceDefault).Create(t.Context(), command, dryRun)
		require.NoError(t, err)
	case "HyperNode", "NetworkTopology": // pkg/controllers/topology tests the examples
	default:
		require.Fail(t, "a kind that this test does not know", kind.Kind)
	}
}

// startJob applies a Job and waits for its pods.
func startJob(t *testing.T, job *batchv1alpha1.Job) {
	t.Helper()
	s := newStage(t)
	job.Spec.Queue = "" // that of the test
	created := s.applyObject(job)
	s.admit(created)
	filled := defaults.Job(created, "")
	for i := range filled.Spec.Tasks {
		task := &filled.Spec.Tasks[i]
		for index := range task.Replicas {
			if task.DependsOn == nil {
				s.awaitPod(policy.PodName(created.Name, task.Name, index))
			}
		}
	}
	// Tasks that wait for other tasks are no problem.
	reason := ""
	if slices.ContainsFunc(filled.Spec.Tasks, func(task batchv1alpha1.TaskSpec) bool { return task.DependsOn != nil }) {
		reason = "WaitingForDependency"
	}
	// The controller may have heard of the Job before it heard that the queue is open.
	s.Soon("nothing is wrong with Job "+created.Name, func() bool { return s.get(created.Name).Status.State.Reason == reason },
		func() any { return s.get(created.Name).Status.State })
}
