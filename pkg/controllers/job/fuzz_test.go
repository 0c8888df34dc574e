package job

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

// FuzzCommand: the plan for a Job is made without a panic for any content of a Command. That includes content that the API server would not
// store. The Command does what its action does in the Job's phase, or nothing. Its texts are cut to the size that a status allows.
func FuzzCommand(f *testing.F) {
	for i, action := range append(slices.Clone(commanded), "SyncJob", "") {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "c", "namespace": "default", "uid": "c"}, "action": action,
			"reason": "Because", "message": "of this", "target": map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}})
		require.NoError(f, err)
		f.Add(text, byte(i))
	}
	f.Add([]byte(`{"target":{"apiVersion":"a/b/c","kind":"Job"}}`), byte(0))
	f.Fuzz(func(t *testing.T, words []byte, in byte) {
		command := &busv1alpha1.Command{}
		if json.Unmarshal(words, command) != nil {
			return
		}
		keys := jobOfCommand(command)
		assert.LessOrEqual(t, len(keys), 1)
		if !slices.Contains(commanded, busv1alpha1.Action(command.Action)) {
			return // no Job is asked to do it
		}

		before := phase.Phases()[int(in)%len(phase.Phases())]
		job := defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)).Obj(), "")
		job.Status.State.Phase = before
		result := plan.Make(&plan.Snapshot{Job: job, Command: command, Now: time.Unix(1000, 0)})
		status := result.Status
		assert.Equal(t, command.UID, types.UID(status.HandledCommand))
		assert.LessOrEqual(t, len(status.State.Message), text.MaxMessage)
		assert.LessOrEqual(t, len(status.State.Reason), text.MaxReason)
		if !phase.Honours(before, busv1alpha1.Action(command.Action)) {
			assert.True(t, result.CommandIgnored)
			assert.Nil(t, result.Request)
		} else {
			assert.Equal(t, busv1alpha1.Action(command.Action), result.Request.Action)
			assert.NotEqual(t, batchv1alpha1.JobPhase(""), status.State.Phase)
		}
	})
}
