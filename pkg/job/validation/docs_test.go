package validation_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/validation"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// policyDocs is the folder with a page for each event and each action.
var policyDocs = filepath.Join("..", "..", "..", "docs", "policies")

// jobsOf returns the Jobs in the YAML blocks of a page.
func jobsOf(t *testing.T, path string) []*batchv1alpha1.Job {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	var jobs []*batchv1alpha1.Job
	for _, match := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		job := &batchv1alpha1.Job{}
		require.NoError(t, yaml.UnmarshalStrict(match[1], job))
		jobs = append(jobs, job)
	}
	return jobs
}

// all policies of a Job.
func policiesOf(job *batchv1alpha1.Job) []batchv1alpha1.LifecyclePolicy {
	all := job.Spec.Policies
	for i := range job.Spec.Tasks {
		all = append(all, job.Spec.Tasks[i].Policies...)
	}
	return all
}

// pageOf is the name of the page of an event or an action: pod-failed.md for PodFailed.
func pageOf(name string) string {
	if name == string(busv1alpha1.AnyEvent) {
		return "any.md"
	}
	return strings.ToLower(strings.TrimPrefix(regexp.MustCompile(`[A-Z]`).ReplaceAllString(name, "-$0"), "-")) + ".md"
}

// Each event and each action of policies has a page with a Job that uses it. The overview links to it.
func TestEveryPolicyHasAPageWithAJobThatRuns(t *testing.T) {
	overview, err := os.ReadFile(filepath.Join(policyDocs, "README.md"))
	require.NoError(t, err)
	var names []string
	for _, event := range mustertesting.PolicyEvents(t) {
		names = append(names, string(event))
	}
	for _, action := range phase.Actions() {
		names = append(names, string(action))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			jobs := jobsOf(t, filepath.Join(policyDocs, pageOf(name)))
			require.NotEmpty(t, jobs)
			var named []string
			for _, p := range policiesOf(jobs[0]) {
				named = append(named, string(p.Event), string(p.Action))
			}
			assert.Contains(t, named, name)
			assert.Contains(t, string(overview), "]("+pageOf(name)+") |")
		})
	}
}

func TestJobsOfThePolicyPagesAreValid(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(policyDocs, "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		jobs := jobsOf(t, page)
		assert.NotEmpty(t, jobs, page)
		for _, job := range jobs {
			filled := defaults.Job(job, "")
			assert.Empty(t, validation.Job(filled), page)
		}
	}
}
