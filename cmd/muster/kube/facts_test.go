package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/explain"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// TestAPageHasNoEventsOfAnEarlierJob of the same name, nor its pods: they are another Job's, even while its last pods are still ending.
func TestAPageHasNoEventsOfAnEarlierJob(t *testing.T) {
	created := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	job := mustertesting.MakeJob("j").Namespace("ns").UID("now").Task(mustertesting.MakeTask("a", 2)).Obj()
	job.CreationTimestamp = metav1.NewTime(created)
	earlier := mustertesting.MakeJob("j").Namespace("ns").UID("before").Task(mustertesting.MakeTask("a", 2)).Obj()
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).Namespace("ns").UID("group").Owner(job).Obj()
	podOf := func(owner *batchv1alpha1.Job, name, uid string) *corev1.Pod {
		pod := mustertesting.MakePod(name).Namespace("ns").Obj()
		pod.UID = types.UID(uid)
		pod.Labels = map[string]string{batchv1alpha1.JobNameKey: "j"}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
		return pod
	}
	objects := []runtime.Object{podOf(job, "j-a-0", "own"), podOf(earlier, "j-a-1", "ending")}
	event := func(reason, kind, name, uid string, at time.Duration) {
		objects = append(objects, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: reason, Namespace: "ns"}, Reason: reason, LastTimestamp: metav1.NewTime(created.Add(at)),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: types.UID(uid)},
		})
	}
	event("OwnJob", "Job", "j", "now", time.Minute)
	event("OwnGroup", "PodGroup", group.Name, "group", time.Minute)
	event("OwnPod", "Pod", "j-a-0", "own", time.Minute)
	event("OwnPodThatIsGone", "Pod", "j-a-1", "gone", time.Minute)
	event("EarlierJob", "Job", "j", "before", -time.Minute)
	event("EarlierPod", "Pod", "j-a-0", "was", -time.Minute)
	event("EndingPodOfTheEarlierJob", "Pod", "j-a-1", "ending", time.Minute)

	r := NewReader(t.Context(), &Clients{Namespace: "ns", Kube: kubefake.NewSimpleClientset(objects...), Muster: musterfake.NewSimpleClientset(job, group)})
	_, err := r.Job("j")
	require.NoError(t, err)
	var reasons []string
	for i := range r.Facts.Events {
		reasons = append(reasons, r.Facts.Events[i].Reason)
	}
	assert.ElementsMatch(t, []string{"OwnJob", "OwnGroup", "OwnPod", "OwnPodThatIsGone"}, reasons)
	assert.Len(t, r.Facts.Members, 1)
}

// TestAGangThatWaitsForADomain has nodes, pods and the network read. Rights that are missing are named.
func TestAGangThatWaitsForADomain(t *testing.T) {
	group := mustertesting.MakePodGroup("g").Namespace("ns").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	node := mustertesting.MakeNode("n").Label("rack", "r").Allocatable("cpu", "1", "pods", "10").Obj()
	list := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "racks"}}
	list.Spec.Levels = []musterv1alpha1.Level{{NodeLabel: "rack"}}
	for name, test := range map[string]struct {
		wants    *schedulingv1beta1.NetworkTopologySpec
		forbid   string
		domains  int
		mayNot   []explain.Part
		hasNodes bool
	}{
		"without a topology": {},
		"with a limit":       {wants: &schedulingv1beta1.NetworkTopologySpec{HighestTierName: "rack"}, domains: 2, hasNodes: true},
		"without the right to nodes": {wants: &schedulingv1beta1.NetworkTopologySpec{HighestTierName: "rack"}, forbid: "nodes",
			mayNot: []explain.Part{explain.PartNodes}},
	} {
		t.Run(name, func(t *testing.T) {
			own := group.DeepCopy()
			own.Spec.NetworkTopology = test.wants
			client := kubefake.NewSimpleClientset(node)
			client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				resource := action.GetResource()
				return resource.Resource == test.forbid, nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
			})
			r := NewReader(t.Context(), &Clients{Namespace: "ns", Kube: client, Muster: musterfake.NewSimpleClientset(own, list),
				Foreign: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), watch.KueueKinds())})
			_, err := r.PodGroup("g")
			require.NoError(t, err)
			assert.Equal(t, test.hasNodes, len(r.Facts.Nodes) > 0)
			assert.Equal(t, test.mayNot, r.Facts.Unread)
			if test.domains == 0 {
				assert.Nil(t, r.Facts.Tree)
			} else {
				assert.Len(t, r.Facts.Tree.Domains, test.domains)
			}
		})
	}
}
