package plugins_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// docs is the folder with a page for each plugin.
var docs = filepath.Join("..", "..", "..", "docs", "plugins")

// blocks returns the blocks of a page that are in that language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docs, page))
	require.NoError(t, err)
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(content), -1) {
		found = append(found, match[1])
	}
	return found
}

func TestEveryPluginHasAPageWithAJobThatRuns(t *testing.T) {
	for _, name := range plugins.Names() {
		t.Run(name, func(t *testing.T) {
			manifests := blocks(t, name+".md", "yaml")
			require.Len(t, manifests, 1)
			job := &batchv1alpha1.Job{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(manifests[0]), job))
			assert.Contains(t, job.Spec.Plugins, name)
			assert.Empty(t, validation.Job(defaults.Job(job, "")))
			set, errs := plugins.For(job)
			require.Empty(t, errs)
			assert.Empty(t, set.Notes())
		})
	}
}

// Every argument has a row in its plugin's page.
func TestPagesListTheArguments(t *testing.T) {
	for _, name := range plugins.Names() {
		t.Run(name, func(t *testing.T) {
			job := &batchv1alpha1.Job{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(blocks(t, name+".md", "yaml")[0]), job))
			job.Spec.Plugins[name] = append(job.Spec.Plugins[name], "--unknown-to-all")
			set, errs := plugins.For(job)
			require.Empty(t, errs)
			_, known, found := strings.Cut(set.Notes()[0].Message, ": known are ")
			require.True(t, found)
			page, err := os.ReadFile(filepath.Join(docs, name+".md"))
			require.NoError(t, err)
			if known == "none" {
				assert.Contains(t, string(page), "It has no arguments.")
				return
			}
			for _, argument := range strings.Split(known, ", ") {
				assert.Contains(t, string(page), "\n| `"+argument+"` |")
			}
		})
	}
}

func TestTheExampleOfAPluginIsGo(t *testing.T) {
	sources := blocks(t, "adding-a-plugin.md", "go")
	require.NotEmpty(t, sources)
	_, err := parser.ParseFile(token.NewFileSet(), "greeter.go", sources[0], parser.AllErrors)
	assert.NoError(t, err)
}
