package program_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"

	"github.com/muster-sched/muster/manifests"
)

// phJob is a PhJob of a group that does not exist.
var phJob = &primehubv1alpha1.PhJob{
	ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"},
	Spec:       primehubv1alpha1.PhJobSpec{DisplayName: "d", UserID: "u", GroupID: "g", GroupName: "unknown-group", Image: "i", InstanceType: "t"},
}

// leadsPhJobs tells whether the program that runs leads a PhJob to its end.
func leadsPhJobs(t *testing.T) func() bool {
	t.Helper()
	jobs := muster.PrimehubV1alpha1().PhJobs(metav1.NamespaceDefault)
	job, err := jobs.Create(t.Context(), phJob, metav1.CreateOptions{})
	require.NoError(t, err)
	return func() bool {
		job, err := jobs.Get(t.Context(), job.Name, metav1.GetOptions{})
		return err == nil && job.Status.Phase == primehubv1alpha1.PhJobFailed
	}
}

// removeAPI removes the CRDs in the files that match the patterns, until they are restored or the test ends.
func removeAPI(t *testing.T, patterns ...string) (restore func(context.Context)) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	var files []string
	for _, pattern := range patterns {
		found, err := fs.Glob(manifests.FS, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	var definitions []*unstructured.Unstructured
	for _, file := range files {
		text, err := manifests.FS.ReadFile(file)
		require.NoError(t, err)
		definition := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(text, definition))
		definitions = append(definitions, definition)
		require.NoError(t, crds.Delete(t.Context(), definition.GetName(), metav1.DeleteOptions{}))
	}
	restore = func(ctx context.Context) {
		for _, definition := range definitions {
			if _, err := crds.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("restoring %s: %v", definition.GetName(), err)
			}
		}
	}
	t.Cleanup(func() { restore(context.Background()) })
	return restore
}

// TestPhJobsAreOffWithoutTheirAPI: a cluster that has only the other CRDs is still served.
func TestPhJobsAreOffWithoutTheirAPI(t *testing.T) {
	restore := removeAPI(t, "crds/primehub.io_*.yaml")
	isServed := func() bool {
		_, err := kube.Discovery().ServerResourcesForGroupVersion("primehub.io/v1alpha1")
		return err == nil
	}
	eventually(t, "the API of PhJobs is gone", func() bool { return !isServed() })

	p := start(t, "--leader-elect=false")
	p.awaitReady()
	awaitWork(t)
	assert.Equal(t, 0, p.stop())
	assert.Contains(t, p.log(), "PhJobs are off: their API is not installed")
	assert.Empty(t, p.errors())

	restore(t.Context())
	eventually(t, "the API of PhJobs is back", func() bool {
		_, err := muster.PrimehubV1alpha1().PhJobs(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		return err == nil && isServed()
	})
	p = start(t, "--leader-elect=false")
	p.awaitReady()
	eventually(t, "a PhJob is led", leadsPhJobs(t))
	assert.Equal(t, 0, p.stop())
}

// TestPhJobsCanBeSwitchedOff, by PrimeHub's variable.
func TestPhJobsCanBeSwitchedOff(t *testing.T) {
	t.Setenv("PRIMEHUB_FEATURE_JOB_SUBMISSION", "false")
	p := start(t, "--leader-elect=false")
	p.awaitReady()
	led := leadsPhJobs(t)
	awaitWork(t)
	assert.False(t, led())
	assert.Equal(t, 0, p.stop())
	assert.Contains(t, p.log(), "PhJobs are switched off")
}

// TestWhatIsWrongWithPhJobsIsSaidAtTheStart, with what is wrong by its name.
func TestWhatIsWrongWithPhJobsIsSaidAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte("jobSubmission: {workingDirSzie: 5Gi}\n"), 0o600))
	for name, c := range map[string]struct{ file, variable, want string }{
		"unknown key":       {file, "true", "workingDirSzie"},
		"no such file":      {"/no/such/file", "", "--primehub-config: open /no/such/file"},
		"neither on or off": {"", "maybe", "it must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PRIMEHUB_FEATURE_JOB_SUBMISSION", c.variable)
			output, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "muster-controller"), "--kubeconfig="+kubeconfig, "--primehub-config="+c.file).CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(output), c.want)
		})
	}
}
