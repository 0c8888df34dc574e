package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

func TestGangThatDoesNotFitIsHeldWholeAndWakesWhenANodeComes(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 3, "")
	w.createGang("g", 3)
	w.expectHeld("g", "room for 2 of the 3 members that start together", "1 more needs 3 cpu", "lacks 2 cpu")
	w.addNode(2)
	w.expectBound("g", 3)
}

func TestGangWakesWhenPodsGo(t *testing.T) {
	w := newWorld(t, 2)
	w.create(w.pod("alone", ""))
	w.expectBound("alone", 1)
	w.createGroup("g", 2, "")
	w.createGang("g", 2)
	w.expectHeld("g", "room for 1 of the 2 members that start together")
	w.remove("alone")
	w.expectBound("g", 2)
}

func TestGangWakesWhenATaintGoes(t *testing.T) {
	w := newQuietWorld(t, 1)
	tainted := w.addNode(1, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
	})
	w.createGroup("g", 2, "")
	w.createGang("g", 2)
	w.expectHeld("g", "room for 1 of the 2 members that start together", "taint")
	_, err := kube.CoreV1().Nodes().Patch(w.ctx, tainted, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("g", 2)
}

// Room that comes free where a gang may not go is not counted, until it may go there.
func TestGangWakesWhenItMayGoWhereRoomHasComeFreeBefore(t *testing.T) {
	w := newQuietWorld(t, 1)
	tainted := w.addNode(1, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Allocatable[corev1.ResourceCPU], n.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("7"), resource.MustParse("7")
	})
	w.create(w.pod("tolerating", "", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		p.Spec.NodeSelector[corev1.LabelHostname] = tainted
	}))
	_, err := kube.CoreV1().Nodes().Patch(w.ctx, tainted, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelHostname, tainted), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("tolerating", 1)
	w.createGroup("g", 3, "")
	w.createGang("g", 3)
	w.expectHeld("g", "room for 1 of the 3 members that start together", "taint")
	w.remove("tolerating")
	w.expectHeld("g", "room for 1 of the 3 members that start together", "taint")
	_, err = kube.CoreV1().Nodes().Patch(w.ctx, tainted, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("g", 3)
}

func TestGangWakesWhenALabelItSelectsComes(t *testing.T) {
	w := newQuietWorld(t, 2)
	w.createGroup("g", 2, "")
	w.createGang("g", 2, func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = w.namespace })
	w.expectHeld("g", "room for 0 of the 2 members that start together")
	for i := range 2 {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"disk":%q}}}`, w.namespace)
		_, err := kube.CoreV1().Nodes().Patch(w.ctx, fmt.Sprintf("%s-%d", w.namespace, i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	w.expectBound("g", 2)
}

// The label does not help the member that finds no place. The member that it helps has to move, to make room.
func TestGangOfUnlikeMembersWakesWhenANodeGetsALabelThatEitherSelects(t *testing.T) {
	w := newQuietWorld(t, 0)
	w.addNode(0, func(n *corev1.Node) { n.Labels["x"], n.Labels["y"] = w.namespace, w.namespace })
	other := w.addNode(1)
	selecting := func(key, cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeSelector[key] = w.namespace
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
	}
	w.createGroup("g", 2, "")
	w.create(w.pod("g-small", "g", selecting("y", "2")), w.pod("g-large", "g", selecting("x", "3")))
	w.expectHeld("g", "room for 1 of the 2 members that start together", "1 more needs 2 cpu")
	_, err := kube.CoreV1().Nodes().Patch(w.ctx, other, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"x":%q}}}`, w.namespace), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("g", 2)
}

func TestGangWakesWhenItsVolumeCanBeHad(t *testing.T) {
	w := newQuietWorld(t, 2)
	w.createGroup("g", 2, "")
	w.createGang("g", 2, mounts("data"))
	w.expectHeld("g", `persistentvolumeclaim "data" not found`)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	none := ""
	_, err := kube.CoreV1().PersistentVolumes().Create(w.ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: w.namespace, Name: "data"},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &none, VolumeName: w.namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.expectBound("g", 2)
}

// TestGangWakesWhenTheStorageClassOfItsClaimsComes: members whose claims are provisioned where they are placed wait for the class
// that says so. Nothing else changes but that the class comes.
func TestGangWakesWhenTheStorageClassOfItsClaimsComes(t *testing.T) {
	w := newQuietWorld(t, 2)
	for i := range 2 {
		w.createVolumeClaim(fmt.Sprintf("data-%d", i), w.namespace)
	}
	w.createGroup("g", 2, "")
	for i := range 2 {
		w.create(w.pod(fmt.Sprintf("g-%d", i), "g", mounts(fmt.Sprintf("data-%d", i))))
	}
	w.expectHeld("g", "unbound immediate PersistentVolumeClaims")
	later := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := kube.StorageV1().StorageClasses().Create(w.ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Provisioner: "example.com/disks", VolumeBindingMode: &later,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.eventually("all claims are asked to be provisioned", func() bool { return w.provision() == 2 })
	w.expectBound("g", 2)
}

func mounts(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
}

func (w *world) createVolumeClaim(name, class string) {
	w.t.Helper()
	_, err := kube.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// provision makes volumes for the claims for which the scheduler has chosen a node, as their provisioner does. The volume
// controller binds them. It returns how many claims have had theirs.
func (w *world) provision() int {
	claims, err := kube.CoreV1().PersistentVolumeClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	made := 0
	for i := range claims.Items {
		claim := &claims.Items[i]
		node := claim.Annotations["volume.kubernetes.io/selected-node"]
		if node == "" {
			continue
		}
		_, err := kube.CoreV1().PersistentVolumes().Create(w.ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + claim.Name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: *claim.Spec.StorageClassName, Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
				ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			},
		}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(w.t, err)
		}
		made++
	}
	return made
}

func TestGangWakesWhenThePodItWantsToBeNearComes(t *testing.T) {
	w := newQuietWorld(t, 2)
	w.createGroup("g", 2, "")
	near := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}},
			}},
		}}
	}
	w.createGang("g", 2, near)
	w.expectHeld("g", "room for 0 of the 2 members that start together", "affinity")
	w.create(w.pod("cache", "", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "cache"}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	}))
	w.expectBound("g", 2)
}

func TestPodGroupMayComeAfterItsPods(t *testing.T) {
	w := newWorld(t, 2)
	w.createGang("g", 2)
	w.create(w.pod("alone", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
	}))
	w.expectBound("alone", 1) // pods without a gang are not blocked
	require.Zero(t, w.bound("g"))
	w.createGroup("g", 2, "")
	w.expectBound("g", 2)
}

func TestLoweredMinimumLetsTheGangStart(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 3, "")
	w.createGang("g", 3)
	w.expectHeld("g", "room for 2 of the 3 members that start together")
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Patch(w.ctx, "g", types.MergePatchType, []byte(`{"spec":{"minMember":2}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("g", 2)
}

func TestSurplusComesAfterTheMinimum(t *testing.T) {
	w := newWorld(t, 3)
	w.createGroup("g", 2, "")
	w.createGang("g", 4)
	w.expectBound("g", 3)
	w.addNode(3)
	w.expectBound("g", 4)
}

// TestMembersWaitForThePodGroupThatTheyWereCreatedFor: a pod that names a PodGroup that the scheduler has not seen is no surplus, even
// with room. It starts when the scheduler sees that one.
func TestMembersWaitForThePodGroupThatTheyWereCreatedFor(t *testing.T) {
	w := newWorld(t, 3)
	w.createGroup("g", 1, "")
	w.createGang("g", 1)
	w.expectBound("g-", 1)
	groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
	group, err := groups.Get(w.ctx, "g", metav1.GetOptions{})
	require.NoError(t, err)
	seen, err := strconv.ParseUint(group.ResourceVersion, 10, 64)
	require.NoError(t, err)
	for _, name := range []string{"new-0", "new-1"} {
		w.create(w.pod(name, "g", func(pod *corev1.Pod) {
			pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = strconv.FormatUint(seen+1, 10)
		}))
	}
	_ = wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, quiet, true, func(context.Context) (bool, error) {
		require.Zero(t, w.bound("new-"), "the scheduler cannot know yet what these belong to")
		return false, nil
	})
	require.NoError(t, clients.Change(w.ctx, "g", groups.Get, groups.Update, func(group *schedulingv1beta1.PodGroup) { group.Spec.MinMember = 3 }))
	w.expectBound("new-", 2)
}

func TestUnlikeMembersThatFitOnlyOneWayAreSeated(t *testing.T) {
	w := newWorld(t, 2)
	// With the scheduler's scores, two pods of 1 CPU would take room from the one that needs a whole node.
	w.createGroup("g", 5, "")
	for i := range 4 {
		w.create(w.pod(fmt.Sprintf("g-small-%d", i), "g", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
			p.Spec.Priority = nil
		}))
	}
	w.create(w.pod("g-zlarge", "g", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("4")
	}))
	w.expectBound("g", 5)
}

func TestOldIncarnationSatisfiesNothing(t *testing.T) {
	w := newWorld(t, 2)
	version := func(v int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations["volcano.sh/job-version"] = fmt.Sprint(v) }
	}
	w.createGroup("g", 2, "")
	w.createGang("g", 2, version(0))
	w.expectBound("g", 2)
	w.create(w.pod("new-0", "g", version(1)), w.pod("new-1", "g", version(1)))
	w.expectHeld("new", "room for 0 of the 2 members that start together")
	w.remove("g-0")
	w.expectHeld("new", "room for 1 of the 2 members that start together")
	w.remove("g-1")
	w.expectBound("new", 2)
}

func TestQueueHoldsAGangAtItsCapability(t *testing.T) {
	w := newWorld(t, 4)
	queue := mustertesting.MakeQueue(w.namespace).Capability("cpu", "7").Obj()
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, queue, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createGroup("a", 1, w.namespace)
	w.createGang("a", 1)
	w.expectBound("a", 1)
	w.createGroup("b", 2, w.namespace)
	w.createGang("b", 2)
	w.expectHeld("b", fmt.Sprintf("queue %q has 4 cpu free of its capability, 6 needed", w.namespace))
	w.create(w.pod("single", "", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": w.namespace}
	}))
	w.expectBound("single", 1)
	// Two ways to room: the queue grows, and pods go.
	_, err = muster.SchedulingV1beta1().Queues().Patch(w.ctx, w.namespace, types.MergePatchType, []byte(`{"spec":{"capability":{"cpu":"9"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectHeld("b", "has 3 cpu free")
	w.remove("single")
	w.expectBound("b", 2)
}

// TestAGuaranteeIsNotLent: pods of another queue wait for room that is kept for a guarantee. Pods of the queue with the guarantee do not.
func TestAGuaranteeIsNotLent(t *testing.T) {
	w := newWorld(t, 4)
	parent, kept, other := w.namespace, w.namespace+"-kept", w.namespace+"-other"
	queues := muster.SchedulingV1beta1().Queues()
	for _, queue := range []*mustertesting.QueueWrapper{
		mustertesting.MakeQueue(parent).Capability("cpu", "7"),
		mustertesting.MakeQueue(kept).Parent(parent).Guarantee("cpu", "3"),
		mustertesting.MakeQueue(other).Parent(parent),
	} {
		created, err := queues.Create(w.ctx, queue.Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = queues.Delete(context.Background(), created.Name, metav1.DeleteOptions{}) })
	}
	single := func(name, queue string) *corev1.Pod {
		return w.pod(name, "", func(p *corev1.Pod) { p.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": queue} })
	}
	w.create(single("first", other))
	w.expectBound("first", 1)
	w.create(single("second", other))
	w.expectHeld("second", fmt.Sprintf("queue %q has 1 cpu free of its capability, 3 needed; 3 cpu are kept for the guarantees of other queues", parent))
	w.createGroup("gang", 1, kept)
	w.createGang("gang", 1)
	w.expectBound("gang", 1)
	w.expectHeld("second", fmt.Sprintf("queue %q has 1 cpu free of its capability, 3 needed", parent))
	_, err := queues.Patch(w.ctx, kept, types.MergePatchType, []byte(`{"spec":{"guarantee":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.remove("gang-0")
	w.expectBound("second", 1)
}

func TestPartialGangIsCompletedFirst(t *testing.T) {
	w := newWorld(t, 2)
	w.createGroup("g", 2, "")
	w.bind(w.pod("g-0", "g"), fmt.Sprintf("%s-0", w.namespace))
	w.create(w.pod("g-1", "g"))
	w.expectBound("g", 2)
}

// TestRoomIsSetAsideForAPartialGang: a pod that has waited longer, and is woken sooner, does not get it.
func TestRoomIsSetAsideForAPartialGang(t *testing.T) {
	w := newQuietWorld(t, 2)
	w.bindWith(w.pod("running", ""), fmt.Sprintf("%s-1", w.namespace), nil)
	w.create(w.pod("rival", "", w.pinTo(1)))
	w.expectUnplaced("rival")
	w.createGroup("g", 2, "")
	w.bind(w.pod("g-0", "g"), fmt.Sprintf("%s-0", w.namespace))
	w.create(w.pod("g-1", "g"))
	w.eventually("room is reserved", func() bool { return w.reported("g-1", []string{"room is being reserved for it"}) })
	w.remove("running")
	w.expectBound("g", 2)
	w.expectStays("rival", 0)
	w.remove("g-0")
	w.remove("g-1")
	w.expectBound("rival", 1)
}

// TestPartialGangThatCannotBeCompletedIsEvictedWhole: muster-controller calls the gang Unknown if its bound members run. It starts over when
// room comes.
func TestPartialGangThatCannotBeCompletedIsEvictedWhole(t *testing.T) {
	w := newWorld(t, 2)
	for _, phase := range []schedulingv1beta1.PodGroupPhase{schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupUnknown} {
		name := strings.ToLower(string(phase))
		w.createGroup(name, 3, "")
		groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
		require.NoError(t, clients.Change(w.ctx, name, groups.Get, groups.UpdateStatus, func(group *schedulingv1beta1.PodGroup) { group.Status.Phase = phase }))
		w.bind(w.pod(name+"-0", name), fmt.Sprintf("%s-0", w.namespace))
		w.create(w.pod(name+"-1", name), w.pod(name+"-2", name))
		w.eventually("the bound member is evicted", func() bool {
			pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, name+"-0", metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil
		})
	}
	w.addNode(2)
	w.create(w.pod("unknown-3", "unknown"))
	w.expectBound("unknown", 3)
}

// bind creates a pod of a gang and binds it for its PodGroup, as a scheduler does that then crashes.
func (w *world) bind(pod *corev1.Pod, node string) {
	w.t.Helper()
	group, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Get(w.ctx, pod.Annotations[schedulingv1beta1.GroupNameAnnotation], metav1.GetOptions{})
	require.NoError(w.t, err)
	w.bindWith(pod, node, map[string]string{
		schedulingv1beta1.ChargedToAnnotation: group.Spec.Queue, schedulingv1beta1.BoundForAnnotation: string(group.UID)})
}

// bindWith creates a pod and binds it with annotations: without any, as another client does.
func (w *world) bindWith(pod *corev1.Pod, node string, annotations map[string]string) {
	w.t.Helper()
	pod.Spec.SchedulerName = "nobody"
	w.create(pod)
	require.NoError(w.t, kube.CoreV1().Pods(w.namespace).Bind(w.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Annotations: annotations}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// TestAPodGroupThatComesLaterOrAgainEvictsNothing: its running pods are older than it. Another gang, of which a crash has left a part, has
// less time left before its eviction. It shows when that time is over.
func TestAPodGroupThatComesLaterOrAgainEvictsNothing(t *testing.T) {
	w := newWorld(t, 4)
	groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
	w.createGroup("again", 1, "")
	w.create(w.pod("again-0", "again"))
	w.expectBound("again", 1)
	pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, "again-0", metav1.GetOptions{})
	require.NoError(t, err)
	group, err := groups.Get(w.ctx, "again", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, string(group.UID), pod.Annotations[schedulingv1beta1.BoundForAnnotation])
	require.Equal(t, "default", pod.Annotations[schedulingv1beta1.ChargedToAnnotation])
	require.NoError(t, groups.Delete(w.ctx, "again", metav1.DeleteOptions{}))
	w.createGroup("again", 3, "")
	w.create(w.pod("again-1", "again"), w.pod("again-2", "again", func(p *corev1.Pod) { p.Spec.NodeSelector["no"] = "such" }))

	free := w.freeNodes()
	w.bindWith(w.pod("later-0", "later"), free[0], nil)
	w.createGroup("later", 2, "")
	w.create(w.pod("later-1", "later", func(p *corev1.Pod) { p.Spec.NodeSelector["no"] = "such" }))

	w.createGroup("crashed", 3, "")
	w.bind(w.pod("crashed-0", "crashed"), free[1])
	w.create(w.pod("crashed-1", "crashed"), w.pod("crashed-2", "crashed"))
	w.eventually("what the crash has left is evicted", func() bool { return w.bound("crashed") == 0 })
	require.Equal(t, 1, w.bound("again"))
	require.Equal(t, 1, w.bound("later"))
	require.True(t, w.reported("again-1", []string{"of the 2 members that start together"}), "it says what the rest lacks")
}

// freeNodes are the test's nodes without pods.
func (w *world) freeNodes() (free []string) {
	w.t.Helper()
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	nodes, err := kube.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{LabelSelector: pool + "=" + w.namespace})
	require.NoError(w.t, err)
	for i := range nodes.Items {
		if !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName == nodes.Items[i].Name }) {
			free = append(free, nodes.Items[i].Name)
		}
	}
	return free
}

// TestTheQuotaOfRunningPodsOutlivesTheirPodGroup: operators delete PodGroups while pods run. A queue of 6 cpu runs 6, also when the scheduler
// starts again.
func TestTheQuotaOfRunningPodsOutlivesTheirPodGroup(t *testing.T) {
	w := newQuietWorld(t, 4)
	w.createQueue("6")
	w.createGroup("first", 2, w.namespace)
	w.createGang("first", 2)
	w.expectBound("first", 2)
	require.NoError(t, muster.SchedulingV1beta1().PodGroups(w.namespace).Delete(w.ctx, "first", metav1.DeleteOptions{}))
	w.createGroup("second", 1, w.namespace)
	w.createGang("second", 1)
	w.expectHeld("second", "0 cpu free")
	require.NoError(t, (&restarts{}).restart(w.ctx))
	w.createGroup("third", 1, w.namespace)
	w.createGang("third", 1)
	w.expectHeld("third", "0 cpu free")
	require.Zero(t, w.bound("second"))
	w.remove("first-0")
	w.expectBound("second", 1)
}

func TestGangsOfSchedulerPluginsAreServed(t *testing.T) {
	w := newWorld(t, 1)
	installForeignPodGroups(w)
	pg := &schedulingx.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: schedulingx.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: w.namespace},
		Spec:       schedulingx.PodGroupSpec{MinMember: 2},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
	require.NoError(t, err)
	w.eventually("the PodGroup is created", func() bool {
		_, err := objects.Resource(schedulingx.SchemeGroupVersion.WithResource("podgroups")).Namespace(w.namespace).
			Create(w.ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	label := func(p *corev1.Pod) { p.Labels = map[string]string{schedulingx.PodGroupLabel: "g"} }
	w.create(w.pod("g-0", "", label), w.pod("g-1", "", label))
	// The scheduler looks every 30 seconds whether the API is there.
	ctx, cancel := context.WithTimeout(w.ctx, 2*soon)
	defer cancel()
	w.ctx = ctx
	judged := func() bool { return w.reported("g", []string{"room for 1 of the 2 members that start together"}) }
	w.eventuallyIn(2*soon, "the gang is judged", judged)
	require.Zero(t, w.bound("g"))
	w.addNode(1)
	w.expectBound("g", 2)
}

// installForeignPodGroups installs the part of scheduler-plugins' CRD that matters here.
func installForeignPodGroups(w *world) {
	w.t.Helper()
	anything := true
	_, err := apiextensions.NewForConfigOrDie(restConfig).ApiextensionsV1().CustomResourceDefinitions().Create(w.ctx,
		&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "podgroups." + schedulingx.SchemeGroupVersion.Group,
				Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a test"},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: schedulingx.SchemeGroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "podgroups", Singular: "podgroup", Kind: "PodGroup", ListKind: "PodGroupList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: schedulingx.SchemeGroupVersion.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &anything,
					}},
				}},
			},
		}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) eventuallyIn(limit time.Duration, what string, met func() bool) {
	w.t.Helper()
	require.Eventually(w.t, met, limit, 100*time.Millisecond, what)
}
