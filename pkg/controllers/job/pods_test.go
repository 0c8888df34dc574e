package job

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
