package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/plugins"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// bulkJobs is a controller of Jobs that want many pods. Its clients have all that is asked of them, and its informers show nothing of it.
type bulkJobs struct {
	*desk
	mu      sync.Mutex
	created map[string]int // name of a Job -> its pods that were created
	deleted map[string]int // the same, deleted
	order   []string       // names of Jobs, one for each pod that was created
}

func newBulkJobs(t *testing.T) *bulkJobs {
	c := &bulkJobs{desk: newDesk(t), created: map[string]int{}, deleted: map[string]int{}}
	c.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		c.created[pod.Labels[batchv1alpha1.JobNameKey]]++
		c.order = append(c.order, pod.Labels[batchv1alpha1.JobNameKey])
		return true, pod, nil
	})
	c.kube.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deleted[strings.SplitN(action.(clienttesting.DeleteAction).GetName(), "-", 2)[0]]++
		return true, nil, nil
	})
	return c
}

// wants has a Job create pods that are not created yet, as one sync does.
func (c *bulkJobs) wants(namespace, name string, pods int32) bool {
	c.t.Helper()
	job := defaults.Job(mustertesting.MakeJob(name).Namespace(namespace).UID(name).Task(mustertesting.MakeTask("a", pods)).Obj(), "")
	var wanted []plan.Missing
	for index := int32(c.created[name]); index < pods; index++ {
		wanted = append(wanted, plan.Missing{Task: 0, Index: index})
	}
	all, err := c.pods.create(c.t.Context(), creation(job, &localState{}, wanted, []int32{0}))
	require.NoError(c.t, err)
	return all
}

// creation is a sync of a Job that creates pods.
func creation(job *batchv1alpha1.Job, local *localState, wanted []plan.Missing, priorities []int32) *jobSync {
	local.plugins.set = &plugins.Set{}
	return &jobSync{acting: job, local: local, decision: decision{p: &plan.Plan{}}, group: &schedulingv1beta1.PodGroup{}, missing: wanted, priorities: priorities}
}

// rids has a Job delete pods, as one sync does.
func (c *bulkJobs) rids(namespace, name string, pods int, local *localState) bool {
	c.t.Helper()
	job := mustertesting.MakeJob(name).Namespace(namespace).UID(name).Obj()
	var all []*corev1.Pod
	for i := range pods {
		all = append(all, mustertesting.MakePod(fmt.Sprint(name, "-a-", i)).UID(fmt.Sprint(name, i)).Obj())
	}
	done, err := c.pods.delete(c.t.Context(), job, all, local)
	require.NoError(c.t, err)
	return done
}

// TestJobsGetTheirPodsInTurn: each begins at once, and few go on at the same time, so that these are whole soon. None has its worker wait,
// none gets more while it waits, and a turn ends sooner if another namespace waits.
func TestJobsGetTheirPodsInTurn(t *testing.T) {
	c := newBulkJobs(t)
	for range 2 {
		assert.False(t, c.wants("a", "first", 5000))
	}
	assert.Equal(t, 2*(withoutTurn+podsPerSync), c.created["first"], "it goes on while no other Job waits")
	assert.True(t, c.wants("a", "second", 100))
	for range 3 {
		assert.False(t, c.wants("a", "third", 100))
		assert.False(t, c.wants("b", "other", 1000))
		assert.True(t, c.wants("b", "small", withoutTurn))
	}
	assert.Equal(t, map[string]int{"first": 2030, "second": 100, "third": 15, "other": 15, "small": 15}, c.created)

	assert.False(t, c.wants("a", "first", 5000), "others wait")
	assert.Equal(t, 2030+withoutTurn, c.created["first"])
	assert.True(t, c.wants("a", "third", 100))
	c.turns.Leave("a/second")
	assert.False(t, c.wants("b", "other", 1000))
	assert.Equal(t, 15+(1+2+4+8+16+32+64)+100+100, c.created["other"], "a turn for which another namespace waits ends after some 250 pods")
}

// TestPodsAreDeletedInTurn: as they are created, in the same turns. A Job asks for the rest when it has its turn.
func TestPodsAreDeletedInTurn(t *testing.T) {
	c := newBulkJobs(t)
	locals := []localState{{}, {}, {}}
	assert.False(t, c.rids("a", "first", 1500, &locals[0]))
	assert.Equal(t, withoutTurn+podsPerSync, c.deleted["first"])
	assert.False(t, c.wants("a", "second", 2000))
	for range 3 {
		assert.False(t, c.rids("b", "third", 100, &locals[1]))
		assert.True(t, c.rids("b", "small", withoutTurn, &locals[2]))
	}
	assert.Equal(t, map[string]int{"first": 1015, "third": 15, "small": 15}, c.deleted)
	assert.False(t, c.rids("a", "first", 1500, &locals[0]), "another namespace waits")
	assert.True(t, c.rids("b", "third", 100, &locals[1]))
	c.turns.Leave("b/third")
	assert.True(t, c.rids("a", "first", 1500, &locals[0]))
	assert.Equal(t, map[string]int{"first": 1500, "third": 100, "small": 15}, c.deleted, "each once")
}

// TestAJobGivesItsTurnBack: when it has all its pods, when it fails, when it may not act, and when it is gone. A Job that goes on keeps it.
func TestAJobGivesItsTurnBack(t *testing.T) {
	waiting := "other/waits"
	suspend := func(spec *batchv1alpha1.JobSpec) { yes := true; spec.Suspend = &yes }
	for name, c := range map[string]struct {
		then  func(d *desk)
		keeps bool
	}{
		"it goes on":      {then: func(*desk) {}, keeps: true},
		"it has all":      {then: func(d *desk) { d.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas = 4 }) }},
		"it fails":        {then: func(d *desk) { refuses(&d.kube.Fake, "create", "pods") }},
		"it cannot write": {then: func(d *desk) { refuses(&d.muster.Fake, "update", "jobs"); d.edit(suspend) }},
		"it is stopped":   {then: func(d *desk) { d.edit(suspend) }},
		"it is gone": {then: func(d *desk) {
			require.NoError(d.t, d.handlers.jobIndex.Delete(d.job()))
			require.NoError(d.t, d.muster.BatchV1alpha1().Jobs(metav1.NamespaceDefault).Delete(d.t.Context(), "j", metav1.DeleteOptions{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, action.(clienttesting.CreateAction).GetObject(), nil
			})
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2500)), batchv1alpha1.Running, 0, 1, 2, 3)
			_, err := d.looks()
			require.NoError(t, err)
			require.True(t, d.turns.Take("other/has", 1))
			require.False(t, d.turns.Take(waiting, 1))
			c.then(d)
			_, _ = d.looks()
			assert.Equal(t, c.keeps, d.turns.Waits(waiting) || d.turns.Waits("default/j"))
		})
	}
}

// TestPodsComeInBatches: each is twice as large as the one before, up to a bound. The first batch with a refused pod is the last. So
// thousands of pods that are refused cost one request.
func TestPodsComeInBatches(t *testing.T) {
	for refused, want := range map[int]int{0: 1, 1: 1 + 2, 2: 1 + 2, 3: 7, 7: 15, 15: 31, 127: 227, 226: 227, 227: 327} {
		d := newDesk(t)
		requests := 0
		d.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			requests++ // the fake client calls one reaction at a time
			pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
			if pod.Labels[batchv1alpha1.TaskIndexKey] == strconv.Itoa(refused) {
				return true, nil, apierrors.NewForbidden(podResource, pod.Name, errors.New("exceeded quota"))
			}
			return true, pod, nil
		})
		job := defaults.Job(mustertesting.MakeJob("j").UID("u").Task(mustertesting.MakeTask("a", 900)).Obj(), "")
		var wanted []plan.Missing
		for index := range job.Spec.Tasks[0].Replicas {
			wanted = append(wanted, plan.Missing{Task: 0, Index: index})
		}
		_, err := d.pods.create(t.Context(), creation(job, &localState{}, wanted, []int32{0}))
		require.Error(t, err)
		assert.Equal(t, want, requests, "pod %d is refused", refused)
	}
}

// TestPodsGoInBatches: a pod that cannot go does not block other pods; if none can, few are asked to.
func TestPodsGoInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		isRefused func(name string) bool
		want      int
	}{
		"one is refused": {func(name string) bool { return name == "p-0" }, 2*maxBatch + 1},
		"all are":        {func(string) bool { return true }, withoutTurn},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			requests := 0
			d.kube.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				requests++
				if name := action.(clienttesting.DeleteAction).GetName(); c.isRefused(name) {
					return true, nil, apierrors.NewForbidden(podResource, name, errors.New("not today"))
				}
				return true, nil, nil
			})
			var pods []*corev1.Pod
			for i := range 2*maxBatch + 1 {
				pods = append(pods, mustertesting.MakePod(fmt.Sprint("p-", i)).UID(strconv.Itoa(i)).Obj())
			}
			_, err := d.pods.delete(t.Context(), mustertesting.MakeJob("j").Obj(), pods, &localState{})
			require.ErrorContains(t, err, "not today")
			assert.Equal(t, c.want, requests)
		})
	}
}

// TestFewRequestsAreUnderWay: however many Jobs there are, and however many pods they have.
func TestFewRequestsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pods{requests: make(chan struct{}, maxRequests)}
		var underWay, done atomic.Int32
		answer := make(chan struct{})
		for range 3 {
			go func() {
				_ = c.inParallel(maxBatch, func(int) error {
					underWay.Add(1)
					<-answer
					underWay.Add(-1)
					done.Add(1)
					return nil
				})
			}()
		}
		synctest.Wait()
		assert.EqualValues(t, maxRequests, underWay.Load())
		close(answer)
		synctest.Wait()
		assert.EqualValues(t, 3*maxBatch, done.Load())
	})
}
