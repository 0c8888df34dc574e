package jobplugins_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// TestThePagesOfThePlugins: the Job in each page is accepted, and gets its objects and all its pods.
func TestThePagesOfThePlugins(t *testing.T) {
	t.Parallel()
	for _, name := range plugins.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "plugins", name+".md"))
			require.NoError(t, err)
			manifest := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindSubmatch(page)
			require.NotNil(t, manifest)
			job := &batchv1alpha1.Job{}
			require.NoError(t, yaml.UnmarshalStrict(manifest[1], job))
			require.Contains(t, job.Spec.Plugins, name)

			s := newStage(t)
			s.admit(s.applyObject(job))
			filled := defaults.Job(job, "")
			for i := range filled.Spec.Tasks {
				task := &filled.Spec.Tasks[i]
				for index := range task.Replicas {
					s.pod(policy.PodName(job.Name, task.Name, index))
				}
			}
			set, errs := plugins.For(job)
			require.Empty(t, errs)
			s.expectControlled(job.Name, set.ControlledResources())
			if set.HasObjects() {
				services, err := kube.CoreV1().Services(s.namespace).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				secrets, err := kube.CoreV1().Secrets(s.namespace).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				assert.NotZero(t, len(services.Items)+len(secrets.Items))
			}
		})
	}
}
