package generated_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/validation"
	"github.com/muster-sched/muster/test/integration/harness"
)

var (
	dryCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	dryUpdate = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
)

// Lint and the API server agree on every created object, and the controller's messages about a Job help its user.
func TestLintAgreesOnWhatIsCreated(t *testing.T) {
	taken, refused := 0, 0
	each(t, func(random *rand.Rand, kind string) {
		object := draw(random, kind)
		stored, said := resource(kind).Create(t.Context(), &unstructured.Unstructured{Object: object}, dryCreate)
		if apierrors.IsAlreadyExists(said) {
			return // it has the name of a queue that every cluster has
		}
		compare(t, object, nil, said)
		if said != nil {
			refused++
			judge(t, object, false)
			return
		}
		taken++
		judge(t, stored.Object, true)
	})
	requireSome(t, taken, refused)
}

// The same for changes of what exists.
func TestLintAgreesOnWhatIsChanged(t *testing.T) {
	for _, kind := range kinds {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(bases[kind][1]), &object.Object))
		object.SetName("changed")
		_, err := resource(kind).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	taken, refused := 0, 0
	each(t, func(random *rand.Rand, kind string) {
		object, err := resource(kind).Get(t.Context(), "changed", metav1.GetOptions{})
		require.NoError(t, err)
		object.Object = jsonOf(object.Object)
		for range 1 + random.IntN(2) {
			change(random, object.Object, pick(random, spots[kind][1:])) // but not its name
		}
		old, said := update(t, kind, object)
		if compare(t, object.Object, old.Object, said); said == nil {
			taken++
		} else {
			refused++
		}
	})
	requireSome(t, taken, refused)
}

// requireSome checks that the generator makes good and bad objects.
func requireSome(t *testing.T, taken, refused int) {
	t.Helper()
	t.Logf("%d taken, %d refused", taken, refused)
	if !t.Failed() {
		require.Greater(t, taken, *count/20)
		require.Greater(t, refused, *count/20)
	}
}

// update asks the API server for a change of an object that the controllers may write meanwhile. It returns what the object was.
func update(t *testing.T, kind string, changed *unstructured.Unstructured) (old *unstructured.Unstructured, said error) {
	t.Helper()
	for {
		old, err := resource(kind).Get(t.Context(), changed.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		changed.SetResourceVersion(old.GetResourceVersion())
		if _, said = resource(kind).Update(t.Context(), changed, dryUpdate); !apierrors.IsConflict(said) {
			return old, said
		}
	}
}

// compare fails the test if lint says anything else than the API server.
func compare(t *testing.T, object, old map[string]any, said error) {
	t.Helper()
	report, err := linter.Ask(t.Context(), object, old)
	require.NoError(t, err)
	assert.Empty(t, harness.Disagreement(report, said), "of %s", text(object))
}

// judge asks what the job controller asks of a Job. It must do so also of Jobs that no schema has seen. Each thing that it says names a field
// and what to do.
func judge(t *testing.T, object map[string]any, taken bool) {
	t.Helper()
	if object["kind"] != "Job" {
		return
	}
	job := &batchv1alpha1.Job{}
	if err := json.Unmarshal([]byte(text(object)), job); err != nil {
		assert.False(t, taken, "the API server takes what the controller cannot read: %v\n%s", err, text(object))
		return
	}
	job = defaults.Job(job, "")
	for _, problem := range validation.Job(job) {
		assert.NotEmpty(t, problem.Field, "%v of %s", problem, text(object))
		assert.NotEmpty(t, problem.Detail, "%v of %s", problem, text(object))
	}
	validation.NeverFires(job)
}

// The controllers handle every object that the API server accepts, or say why not.
func TestNothingIsStuckWithoutAReason(t *testing.T) {
	type created struct{ kind, name string }
	var waiting []created
	each(t, func(random *rand.Rand, kind string) {
		object := &unstructured.Unstructured{Object: draw(random, kind)}
		if _, isMap := object.Object["metadata"].(map[string]any); !isMap || pods(object.Object) > 12 {
			return // a few pods tell as much as many
		}
		name := fmt.Sprintf("made-%d", len(waiting))
		object.SetName(name)
		if _, err := resource(kind).Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err == nil {
			waiting = append(waiting, created{kind, name})
		}
	})
	t.Logf("%d created", len(waiting))
	require.Greater(t, len(waiting), *count/10)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for len(waiting) > 0 {
			next := waiting[0]
			object, err := resource(next.kind).Get(t.Context(), next.name, metav1.GetOptions{})
			require.NoError(c, err)
			require.Empty(c, stuck(t.Context(), object), text(object.Object))
			waiting = waiting[1:]
		}
	}, 3*time.Minute, 100*time.Millisecond)
}

// pods is the number of pods that an object asks for.
func pods(object map[string]any) int64 {
	tasks, _, _ := unstructured.NestedSlice(object, "spec", "tasks")
	total := int64(0)
	for _, task := range tasks {
		if task, ok := task.(map[string]any); ok {
			replicas, _, _ := unstructured.NestedFieldNoCopy(task, "replicas")
			number, _ := replicas.(float64)
			total += int64(number)
		}
	}
	return total
}

// stuck says what an object lacks whose controller has neither done its work nor said why not.
func stuck(ctx context.Context, object *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	switch object.GetKind() {
	case "Queue":
		if status["state"] == nil {
			return "no state"
		}
	case "PodGroup":
		conditions, _, _ := unstructured.NestedSlice(status, "conditions")
		if status["phase"] == nil || status["phase"] == "Pending" && len(conditions) == 0 {
			return "no phase, or Pending without a condition"
		}
	case "Job":
		phase, _, _ := unstructured.NestedString(status, "state", "phase")
		reason, _, _ := unstructured.NestedString(status, "state", "reason")
		message, _, _ := unstructured.NestedString(status, "state", "message")
		members, err := env.Kube.CoreV1().Pods(object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: batchv1alpha1.JobNameKey + "=" + object.GetName()})
		switch {
		case err != nil:
			return err.Error()
		case phase == "":
			return "no phase"
		case reason == "" && len(members.Items) == 0 && phase == "Pending":
			return "Pending without pods and without a reason"
		case reason != "" && strings.TrimSpace(message) == "":
			return "a reason without a message"
		}
	}
	return ""
}

// text is an object as JSON.
func text(object map[string]any) string {
	written, err := json.Marshal(object)
	must(err)
	return string(written)
}
