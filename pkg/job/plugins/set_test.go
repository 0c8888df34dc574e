package plugins

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mt "github.com/muster-sched/muster/pkg/testing"
)

// greeter is what docs/plugins/adding-a-plugin.md makes.
type greeter struct{ greeting string }

func newGreeter(r *plugin.Request) plugin.Plugin {
	greeting := r.Flags().String("greeting", "hello", "what containers are told")
	r.Parse()
	return &greeter{*greeting}
}

func (g *greeter) MutatePod(pod *corev1.Pod, _ *batchv1alpha1.TaskSpec, _ int32) {
	plugin.AddEnv(&pod.Spec, corev1.EnvVar{Name: "GREETING", Value: g.greeting})
}

func TestAPluginTakesOneLine(t *testing.T) {
	known := slices.Concat(registry, []entry{{"greeter", newGreeter}})
	job := defaults.Job(mt.MakeJob("j").Task(mt.MakeTask("main", 1)).Plugin("env").Plugin("greeter", "--greeting=ahoy").Obj(), "")
	set, errs := makeSet(job, known)
	require.Empty(t, errs)
	task := &job.Spec.Tasks[0]
	pod := &corev1.Pod{Spec: *task.Template.Spec.DeepCopy()}
	set.MutatePod(pod, task, 0)
	assert.Equal(t, []corev1.EnvVar{
		{Name: "VK_TASK_INDEX", Value: "0"}, {Name: "VC_TASK_INDEX", Value: "0"}, {Name: "GREETING", Value: "ahoy"},
	}, pod.Spec.Containers[0].Env)
}

// The order is what users see: a change of it changes pods.
func TestOrder(t *testing.T) {
	assert.Equal(t, []string{"env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"}, Names())
}

type broken struct{ greeter }

func (*broken) Objects(plugin.Secrets) ([]plugin.Object, error) {
	return nil, errors.New("out of luck")
}

func TestErrorsOfObjects(t *testing.T) {
	known := []entry{{"broken", func(*plugin.Request) plugin.Plugin { return &broken{} }}}
	set, errs := makeSet(mt.MakeJob("j").Task(mt.MakeTask("main", 1)).Plugin("broken").Obj(), known)
	require.Empty(t, errs)
	_, err := set.Objects(func(string) map[string][]byte { return nil })
	assert.EqualError(t, err, "making objects for Job j: out of luck")
}
