package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestOnlyTheNotesOfTheSpecAreRemembered: however often it is changed. A note of it is given once.
func TestOnlyTheNotesOfTheSpecAreRemembered(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	c := &objects{recorder: recorder}
	ps := &pluginState{}
	for generation := range int64(20) {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
		for range generation / 2 {
			job.Spec.Policies = append(job.Spec.Policies, batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.AbortJobAction})
		}
		job.Spec.Policies = append(job.Spec.Policies, // where nothing is to be resumed
			batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodFailedEvent, Action: busv1alpha1.ResumeJobAction})
		job.Generation = 1 + generation
		ps.load(job)
		require.NotEmpty(t, ps.notes)
		c.tell(job, ps)
		require.Equal(t, sets.New(ps.notes...), ps.said)
	}
	assert.Len(t, recorder.Events, 10, "each once")
}

// TestObjectsChangeBeforeTheStatusThatAnnouncesThem (issue 40, 11): a client sees a Job's new size in its status. It then finds the hosts
// of that size. If they cannot be written, the status says so as soon as it shows the size.
func TestObjectsChangeBeforeTheStatusThatAnnouncesThem(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Plugin("svc").Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0, 1)
	namesAll(&d.kube.Fake)
	settles := func() (err error) {
		for range 5 {
			_, err = d.looks()
			d.mirrors()
			d.time.SetTime(d.time.Now().Add(messageInterval))
		}
		return err
	}
	require.NoError(t, settles())
	hosts := func() int {
		config, err := d.kube.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "j-svc", metav1.GetOptions{})
		require.NoError(t, err)
		return len(strings.Fields(config.Data["a.host"]))
	}
	var announced []int32
	fails := false
	d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		status := action.(clienttesting.UpdateAction).GetObject().(*batchv1alpha1.Job).Status
		announced = append(announced, status.MinAvailable)
		if fails {
			assert.Equal(t, eventPluginError, status.State.Reason)
		} else {
			assert.EqualValues(t, status.MinAvailable, hosts())
		}
		return false, nil, nil
	})
	scale := func(n int32) {
		d.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas, spec.MinAvailable = n, n })
	}
	for _, n := range []int32{0, 3, 1} {
		scale(n)
		require.NoError(t, settles())
		require.NotEmpty(t, announced)
		assert.Equal(t, n, announced[len(announced)-1])
	}

	allow := refuses(&d.kube.Fake, "update", "configmaps")
	announced, fails = nil, true
	scale(2)
	require.Error(t, settles())
	assert.Contains(t, announced, int32(2), "the Job goes on")
	allow()
	fails = false
	require.NoError(t, settles())
	assert.Equal(t, 2, hosts())
}
