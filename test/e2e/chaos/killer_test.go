package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// victims are the parts that are killed, the more often the more often they are listed.
var victims = []string{
	localcluster.MusterController, localcluster.MusterController, localcluster.MusterController,
	localcluster.MusterScheduler, localcluster.KubeAPIServer, localcluster.Etcd,
}

// killer kills parts of a cluster and starts them again, as a kubelet does.
type killer struct {
	t       *testing.T
	cluster *harness.Cluster
	random  *rand.Rand
	killed  map[string]int // part -> how often
}

// run kills one part after the other for that long, each at a random moment, with SIGKILL. It leaves a cluster that takes Jobs.
func (k *killer) run(duration time.Duration) {
	k.t.Helper()
	for began := time.Now(); time.Since(began) < duration; {
		pause := time.NewTimer(time.Duration(200+k.random.IntN(2500)) * time.Millisecond)
		<-pause.C
		victim := victims[k.random.IntN(len(victims))]
		k.replace(victim)
		k.killed[victim]++
		if victim == localcluster.KubeAPIServer || victim == localcluster.Etcd {
			k.replaceKubelets()
		}
	}
	k.t.Logf("killed %s", k)
	ctx, cancel := context.WithTimeout(k.t.Context(), mustertesting.Timeout)
	defer cancel()
	require.NoError(k.t, k.cluster.AwaitUsable(ctx))
}

// replace kills a part and starts it again on what it left on the disk.
func (k *killer) replace(part string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), mustertesting.Timeout)
	defer cancel()
	require.NoError(k.t, k.cluster.Kill(part, syscall.SIGKILL))
	require.NoError(k.t, k.cluster.AwaitEnd(ctx, part))
	require.NoError(k.t, k.cluster.Start(ctx, part))
}

// replaceKubelets starts what plays the kubelets anew: it does not try again what fails while the API server is away. A
// new one would wait until the nodes' leases of the old one have expired, so they are taken away.
func (k *killer) replaceKubelets() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), mustertesting.Timeout)
	defer cancel()
	require.NoError(k.t, k.cluster.Kill(localcluster.KWOK, syscall.SIGKILL))
	require.NoError(k.t, k.cluster.AwaitEnd(ctx, localcluster.KWOK))
	leases := k.cluster.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	// After etcd was away the API server takes a second or more until it asks it again.
	var why error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		why = leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		return why == nil, nil
	})
	require.NoError(k.t, err, "taking the nodes' leases away: %v", why)
	require.NoError(k.t, k.cluster.Start(ctx, localcluster.KWOK))
}

// wakeKubelets makes the program that plays the kubelets look at active pods again, until the context ends. While it is replaced it can
// lose some pods. A kubelet does not, as it looks at its pods all the time.
func (k *killer) wakeKubelets(ctx context.Context, namespace string) {
	pods := k.cluster.Kube.CoreV1().Pods(namespace)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
		if err != nil {
			return // the next time will do
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil {
				patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{"chaos/woken":%q}}}`, pod.UID, time.Now())
				_, _ = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			}
		}
	}, 10*time.Second)
}

func (k *killer) String() string {
	var text []string
	for _, part := range slices.Sorted(maps.Keys(k.killed)) {
		text = append(text, fmt.Sprintf("%s %d times", part, k.killed[part]))
	}
	return strings.Join(text, ", ")
}
