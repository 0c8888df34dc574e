package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/quota"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAnEmptyQueueIsCountedAtOnce (issue 40, 12): it may be deleted then. Other changes are gathered. The time is virtual:
// synctest.Wait lets none pass.
func TestAnEmptyQueueIsCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer func() { cancel(); synctest.Wait() }()
		kube, muster := kubefake.NewSimpleClientset(), musterfake.NewSimpleClientset(mustertesting.MakeQueue("q").State(open).Obj())
		kubeInformers, musterInformers := informers.NewSharedInformerFactory(kube, 0), musterinformers.NewSharedInformerFactory(muster, 0)
		tracker, err := usage.New(kubeInformers, musterInformers)
		require.NoError(t, err)
		c, err := New(Config{MusterClient: muster, MusterInformers: musterInformers, Usage: tracker, Recorder: record.NewFakeRecorder(100),
			Shares: func() quota.Shares { return nil }})
		require.NoError(t, err)
		kubeInformers.Start(ctx.Done())
		musterInformers.Start(ctx.Done())
		defer kubeInformers.Shutdown()
		defer musterInformers.Shutdown()
		defer cancel()
		go c.Run(ctx)
		synctest.Wait()

		pods, groups := kube.CoreV1().Pods("default"), muster.SchedulingV1beta1().PodGroups("default")
		for _, name := range []string{"a", "b"} {
			group := mustertesting.MakePodGroup(name).Queue("q").Phase(schedulingv1beta1.PodGroupRunning).Obj()
			_, err := groups.Create(ctx, group, metav1.CreateOptions{})
			require.NoError(t, err)
			pod := mustertesting.MakePod(name).UID(name).Group(name).Node("n").Requests("cpu", "1").Obj()
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		count := func() (int64, int32) {
			queue, err := muster.SchedulingV1beta1().Queues().Get(ctx, "q", metav1.GetOptions{})
			require.NoError(t, err)
			return queue.Status.Allocated.Pods().Value(), queue.Status.Running
		}
		expect := func(wantPods int64, wantGroups int32) {
			t.Helper()
			pods, groups := count()
			assert.Equal(t, wantPods, pods)
			assert.Equal(t, wantGroups, groups)
		}
		synctest.Wait()
		expect(0, 0)
		<-time.After(2 * gatherPause)
		synctest.Wait()
		expect(2, 2)

		goes := func(name string) {
			require.NoError(t, pods.Delete(ctx, name, metav1.DeleteOptions{}))
			synctest.Wait()
			require.NoError(t, groups.Delete(ctx, name, metav1.DeleteOptions{}))
			synctest.Wait()
		}
		goes("a")
		expect(2, 2)
		goes("b")
		expect(0, 0)
	})
}
