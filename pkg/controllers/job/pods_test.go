package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestJobsGetTheirPodsInTurn: each begins at once, few go on at the same time, so that those are whole soon, and a turn ends.
func TestJobsGetTheirPodsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, muster := fake.NewClientset(), musterfake.NewSimpleClientset()
		c := New(Config{
			Kube: kube, Muster: muster,
			KubeInformers: informers.NewSharedInformerFactory(kube, 0), MusterInformers: externalversions.NewSharedInformerFactory(muster, 0),
		})
		defer func() {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			c.worker.Run(ended, 0)
		}()
		created := map[string]int{}
		kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
			created[pod.Labels[batchv1alpha1.JobNameKey]]++ // the fake client calls one reaction at a time
			pod.ResourceVersion = "1"
			return true, pod, nil
		})
		fill := func(name string, pods int32) {
			job := defaults.Job(mustertesting.MakeJob(name).UID(name).Task(mustertesting.MakeTask("a", pods)).Obj(), "")
			var wanted []missing
			for index := range pods {
				wanted = append(wanted, missing{task: 0, index: index})
			}
			assert.NoError(t, c.createPods(t.Context(), job, &schedulingv1beta1.PodGroup{}, &plugins.Set{}, wanted))
		}
		for range turnsAtOnce {
			c.turns <- struct{}{} // others have theirs
		}
		go fill("large", podsPerTurn+withoutTurn+1) // one more than it gets
		synctest.Wait()
		go fill("medium", 100)
		go fill("small", withoutTurn)
		synctest.Wait()
		require.Equal(t, map[string]int{"large": withoutTurn, "medium": withoutTurn, "small": withoutTurn}, created)

		var atEnd int
		kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.CreateAction).GetObject().(metav1.Object)
			if pod.GetLabels()[batchv1alpha1.JobNameKey] == "medium" {
				atEnd = created["large"]
			}
			return false, nil, nil
		})
		<-c.turns
		synctest.Wait()
		assert.Equal(t, map[string]int{"large": podsPerTurn + withoutTurn, "medium": 100, "small": withoutTurn}, created)
		assert.Equal(t, podsPerTurn+withoutTurn, atEnd, "the medium one had its turn after the large one")
	})
}

// TestPodsComeInBatches: each is twice as large as the one before, up to a bound, and the first that is refused one is the last. So
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
		var wanted []missing
		for index := range job.Spec.Tasks[0].Replicas {
			wanted = append(wanted, missing{task: 0, index: index})
		}
		require.Error(t, d.createPods(t.Context(), job, &schedulingv1beta1.PodGroup{}, &plugins.Set{}, wanted))
		assert.Equal(t, want, requests, "pod %d is refused", refused)
	}
}

// TestPodsGoInBatches: one that cannot go keeps no other from going; if none can, few are asked to.
func TestPodsGoInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		isRefused func(name string) bool
		want      int
	}{
		"one is refused": {func(name string) bool { return name == "p-0" }, 2*maxBatch + 1},
		"all are":        {func(string) bool { return true }, maxBatch},
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
			require.ErrorContains(t, d.deletePods(t.Context(), pods), "not today")
			assert.Equal(t, c.want, requests)
		})
	}
}

// TestFewRequestsAreUnderWay: however many Jobs there are, and however many pods they have.
func TestFewRequestsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Controller{requests: make(chan struct{}, maxRequests)}
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
