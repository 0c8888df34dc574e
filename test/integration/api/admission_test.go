package api_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/test/admission"
)

// TestEveryRuleOfAdmission asks the API server about each object of the tables.
func TestEveryRuleOfAdmission(t *testing.T) {
	outer := t
	createKnownQueues(t)
	createServiceAccount(t, "default")
	for _, c := range admission.All() {
		t.Run(c.Base+"/"+c.Name, func(t *testing.T) {
			said := everythingSaid(answerTo(t, outer, &c))
			if c.IsTaken() {
				require.Empty(t, said)
				return
			}
			require.NotEmpty(t, said, "taken, but should be refused: %s", strings.Join(c.Says, ", "))
			for _, part := range c.Says {
				assert.Contains(t, said, part)
			}
		})
	}
}

// TestRefusedExamplesOfTheDocs: a page that shows tasks as refused shows the API server's answer behind them.
func TestRefusedExamplesOfTheDocs(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	require.NoError(t, err)
	shown := regexp.MustCompile("(?ms)^```yaml\n(tasks: # refused\n.*?)^```\n\n```text\n(.*?)\n```$")
	examples := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, example := range shown.FindAllSubmatch(content, -1) {
			examples++
			spec := "spec:\n  " + strings.ReplaceAll(string(example[1]), "\n", "\n  ")
			err := tryCreate(t, jobs, merge(t, parse(t, smallJob), spec))
			require.Error(t, err, page)
			assert.Contains(t, everythingSaid(err), string(example[2]), page)
		}
	}
	assert.Positive(t, examples)
}

// TestNamesOfCasesAreUnique: a name is how a failure is found.
func TestNamesOfCasesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range admission.All() {
		name := c.Base + "/" + c.Name
		require.False(t, seen[name], name)
		seen[name] = true
	}
}

// answerTo is the API server's answer to the object of a case, which is not stored. Objects that the case needs are stored as long as the
// outer test runs.
func answerTo(t, outer *testing.T, c *admission.Case) error {
	t.Helper()
	object, err := c.Written()
	require.NoError(t, err)
	written := &unstructured.Unstructured{Object: object}
	gvr := resourceOf(object)
	if !c.IsUpdate() {
		_, err = resource(gvr).Create(t.Context(), written,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	stored, err := c.Stored()
	require.NoError(t, err)
	written.SetResourceVersion(store(outer, stored).GetResourceVersion())
	_, err = resource(gvr).Update(t.Context(), written,
		metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// store creates an object for as long as the test runs, or finds the one that has its name.
func store(t *testing.T, object map[string]any) *unstructured.Unstructured {
	t.Helper()
	gvr := resourceOf(object)
	found, err := resource(gvr).Get(t.Context(), (&unstructured.Unstructured{Object: object}).GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return create(t, gvr, object)
	}
	require.NoError(t, err)
	return found
}

// everythingSaid joins all that the API server objects to.
func everythingSaid(err error) string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return fmt.Sprint(errOrNothing(err))
	}
	said := []string{err.Error()}
	if status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			said = append(said, cause.Field+": "+cause.Message)
		}
	}
	return strings.Join(said, "\n")
}

func errOrNothing(err error) any {
	if err == nil {
		return ""
	}
	return err
}

// createKnownQueues stores the queues that cases name, and waits until the API server asks them. They stay: other tests do not name them.
func createKnownQueues(t *testing.T) {
	t.Helper()
	for _, text := range append([]string{admission.Bases[admission.Root]}, admission.Queues...) {
		object := normal(t, parse(t, text))
		name := (&unstructured.Unstructured{Object: object}).GetName()
		_, err := resource(queues).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
		if status, has := object["status"].(map[string]any); has {
			setStatus(t, name, status)
		}
	}
	last := create(t, queues, merge(t, queueOf("known-last", ""), "spec: {capability: {cpu: 1}}")).GetName()
	// A policy that has just been installed may not find the API of queues for half a minute.
	require.Eventually(t, func() bool {
		return askCreate(t, queues, withTemplates(merge(t, queueOf("below-the-last", last), "spec: {capability: {cpu: 2}}"))) != nil &&
			askCreate(t, jobs, withTemplates(merge(t, parse(t, smallJob), "spec: {queue: closed}"))) != nil
	}, 2*time.Minute, 100*time.Millisecond, "the API server asks all queues")
}
