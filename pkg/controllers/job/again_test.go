package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// conflicts makes the API server answer that another writer was faster.
func conflicts(client *clienttesting.Fake, verb, resource string) (allow func()) {
	refused := true
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if !refused {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: resource}, "it", errors.New("it has changed"))
	})
	return func() { refused = false }
}

// TestLooksThatComeToNothingBackOff (issue 25, 10): a conflict, or an informer that stays behind, is not reported to users. The pause
// between tries grows, and the log says why from the third time on. A sync that an event causes is not another try.
func TestLooksThatComeToNothingBackOff(t *testing.T) {
	stands := func(d *desk) {
		d.stands(mustertesting.MakeJob("j").MinAvailable(2).Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Pending, 0)
	}
	for name, c := range map[string]struct {
		arrange func(d *desk) (allow func())
		first   time.Duration
		why     string
	}{
		"a PodGroup that others change": {func(d *desk) func() {
			stands(d)
			d.edit(func(spec *batchv1alpha1.JobSpec) { spec.MinAvailable = 1 })
			return conflicts(&d.muster.Fake, "update", "podgroups")
		}, conflictPause, "it has changed"},
		"a status that others change": {func(d *desk) func() {
			stands(d)
			d.edit(func(spec *batchv1alpha1.JobSpec) { yes := true; spec.Suspend = &yes })
			return conflicts(&d.muster.Fake, "update", "jobs")
		}, plan.RetrySoon, "another client has changed the Job"},
		"a Command that only the informer shows": {func(d *desk) func() {
			stands(d)
			command := commandFor(d.job(), "restart", busv1alpha1.RestartJobAction)
			require.NoError(d.t, d.commands.index.Update(command))
			return func() { require.NoError(d.t, d.commands.index.Delete(command)) }
		}, plan.RetrySoon, "the API server does not confirm yet what the informers show"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			allow := c.arrange(d)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			ctx := klog.NewContext(t.Context(), logger)
			look := func() time.Duration {
				after, err := d.Sync(ctx, "default/j")
				require.NoError(t, err)
				return after
			}
			for i := range 4 {
				want := c.first << i
				require.Equal(t, want, look())
				d.time.SetTime(d.time.Now().Add(want / 2))
				require.Equal(t, want-want/2, look(), "an event has brought it")
				d.time.SetTime(d.time.Now().Add(want - want/2))
			}
			text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			assert.Equal(t, 2, strings.Count(text, "will be looked at again"), text)
			assert.Contains(t, text, c.why)
			for _, event := range d.told() {
				assert.NotContains(t, event, "Warning")
			}

			allow()
			_, err := d.looks()
			require.NoError(t, err)
			assert.Zero(t, d.localStates.of("default/j", "u").retries)
		})
	}
}

// TestThousandsOfCommandsDoNotOccupyAWorker: they go in parts, and each is answered once.
func TestThousandsOfCommandsDoNotOccupyAWorker(t *testing.T) {
	const commands = 2*commandsPerSync + 1
	for name, exists := range map[string]bool{"for a Job": true, "for none": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := mustertesting.MakeJob("j").UID("u").Obj()
			if exists {
				job = d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
			}
			for i := range commands {
				d.shows(commandFor(job, fmt.Sprint("c-", i), "NoSuchAction"))
			}
			deleted := func() (count int) {
				for _, action := range d.muster.Actions() {
					if action.Matches("delete", "commands") {
						count++
						_ = d.commands.index.Delete(commandFor(job, action.(clienttesting.DeleteAction).GetName(), ""))
					}
				}
				return count
			}
			for _, want := range []int{commandsPerSync, 2 * commandsPerSync, commands, commands} {
				_, err := d.looks()
				require.NoError(t, err)
				assert.Equal(t, want, deleted())
			}
			if exists {
				assert.Len(t, d.told(), commands)
			}
		})
	}
}
