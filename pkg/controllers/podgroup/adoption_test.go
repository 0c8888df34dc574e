package podgroup

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// stage is a Controller that syncs when a test tells it to. Its informers never start: a test puts objects into their stores, into the
// API of the fake clients, or into both.
type stage struct {
	*Controller
	t      *testing.T
	kube   *kubefake.Clientset
	muster *musterfake.Clientset
	events *record.FakeRecorder
	time   *testingclock.FakeClock

	kubeInformers   informers.SharedInformerFactory
	musterInformers musterinformers.SharedInformerFactory
}

func newStage(t *testing.T) *stage {
	s := &stage{
		t: t, kube: kubefake.NewClientset(), muster: musterfake.NewSimpleClientset(),
		events: record.NewFakeRecorder(100), time: testingclock.NewFakeClock(time.Unix(10_000, 0)),
	}
	mustertesting.CheckPreconditions(&s.kube.Fake, s.kube.Tracker())
	mustertesting.CheckPreconditions(&s.muster.Fake, s.muster.Tracker())
	s.kubeInformers, s.musterInformers = informers.NewSharedInformerFactory(s.kube, 0), musterinformers.NewSharedInformerFactory(s.muster, 0)
	tracker, err := usage.New(s.kubeInformers, s.musterInformers)
	require.NoError(t, err)
	s.Controller, err = New(Config{
		KubeClient: s.kube, MusterClient: s.muster, KubeInformers: s.kubeInformers, MusterInformers: s.musterInformers,
		Usage: tracker, Recorder: s.events, Clock: s.time, HoldTimeout: time.Minute, AdoptFrom: []string{"muster"},
	})
	require.NoError(t, err)
	return s
}

// cache puts an object where the informers show it.
func (s *stage) cache(object runtime.Object) {
	s.t.Helper()
	var err error
	switch object := object.(type) {
	case *corev1.Pod:
		err = s.kubeInformers.Core().V1().Pods().Informer().GetStore().Add(object)
	case *schedulingv1beta1.PodGroup:
		err = s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Add(object)
	case *schedulingv1beta1.Queue:
		err = s.musterInformers.Scheduling().V1beta1().Queues().Informer().GetStore().Add(object)
		s.usage.Ledger().SetQueue(object)
	case *batchv1alpha1.Job:
		err = s.musterInformers.Batch().V1alpha1().Jobs().Informer().GetStore().Add(object)
	default:
		s.t.Fatalf("no informer for %T", object)
	}
	require.NoError(s.t, err)
}

// serve puts an object into the API.
func (s *stage) serve(object runtime.Object) {
	s.t.Helper()
	switch object.(type) {
	case *schedulingv1beta1.PodGroup:
		require.NoError(s.t, s.muster.Tracker().Add(object))
	default:
		require.NoError(s.t, s.kube.Tracker().Add(object))
	}
}

// group returns a PodGroup of the API; nil if there is none.
func (s *stage) group(name string) *schedulingv1beta1.PodGroup {
	s.t.Helper()
	group, err := s.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return group
}

// replicaSet is the owner "o" of adopted pods.
func replicaSet(uid string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "o", UID: types.UID(uid),
			Annotations: map[string]string{schedulingv1beta1.GroupMinMemberAnnotation: "3"}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
}

func TestAPodIsGivenAGroup(t *testing.T) {
	s := newStage(t)
	pod := ownedBy(lonely(), "ReplicaSet", "owner")
	s.serve(replicaSet("owner", 3))
	s.serve(pod)
	s.cache(pod)
	_, err := s.adoption.Sync(t.Context(), "default/p")
	require.NoError(t, err)

	group := s.group("podgroup-owner")
	require.NotNil(t, group)
	assert.EqualValues(t, 3, group.Spec.MinMember, "as the owner's annotation says")
	live, err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "podgroup-owner", live.Annotations[schedulingv1beta1.GroupNameAnnotation])
}

// TestAPodWhosePodGroupIsInvalidIsTold: the API server refuses a queue that no Queue can be called. Trying again soon does not help.
func TestAPodWhosePodGroupIsInvalidIsTold(t *testing.T) {
	s := newStage(t)
	s.muster.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: schedulingv1beta1.GroupName, Kind: "PodGroup"}, "podgroup-p",
			field.ErrorList{field.Invalid(field.NewPath("spec", "queue"), "A B", "is no name")})
	})
	pod := lonely().QueueName("A B").Obj()
	s.serve(pod)
	s.cache(pod)
	after, err := s.adoption.Sync(t.Context(), "default/p")
	require.NoError(t, err)
	assert.Equal(t, recheckInvalid, after)
	event := <-s.events.Events
	assert.Contains(t, event, "Warning InvalidPodGroup")
	assert.Contains(t, event, `spec.queue: Invalid value: "A B"`)
	live, err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, live.Annotations, schedulingv1beta1.GroupNameAnnotation)
}

// TestANamesakeOfAPodIsLeftAlone: the pod in the cache was deleted, and another of its name, with another owner, is in the API.
func TestANamesakeOfAPodIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.kube.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct{ Metadata struct{ UID types.UID } }
		require.NoError(t, json.Unmarshal(action.(clienttesting.PatchActionImpl).Patch, &patch))
		live, err := s.kube.Tracker().Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.PatchActionImpl).Name)
		if err == nil && patch.Metadata.UID != "" && patch.Metadata.UID != live.(*corev1.Pod).UID {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "p", errors.New("the UID is another"))
		}
		return false, nil, nil
	})
	s.cache(lonely().Obj())
	s.serve(lonely().UID("namesake").Obj())
	_, err := s.adoption.Sync(t.Context(), "default/p")
	require.NoError(t, err, "the informer will show the other pod")
	live, err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, live.Annotations, schedulingv1beta1.GroupNameAnnotation)
}

// TestWhichAdoptedGroupsAreDeleted: only groups without pods whose owner wants none.
func TestWhichAdoptedGroupsAreDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		owner    *appsv1.ReplicaSet // in the API
		hasPod   bool
		replaced bool // another PodGroup of its name is in the API
		deleted  bool
		after    time.Duration
	}{
		"the owner is scaled to nothing":   {kind: "ReplicaSet", owner: replicaSet("owner", 0), deleted: true},
		"the owner is gone":                {kind: "ReplicaSet", deleted: true},
		"another owner of its name":        {kind: "ReplicaSet", owner: replicaSet("another", 3), deleted: true},
		"the owner wants pods":             {kind: "ReplicaSet", owner: replicaSet("owner", 1), after: recheckEmpty},
		"there are pods":                   {kind: "ReplicaSet", owner: replicaSet("owner", 0), hasPod: true},
		"an owner that is never scaled":    {kind: "DaemonSet"},
		"another PodGroup has taken over":  {kind: "ReplicaSet", owner: replicaSet("owner", 0), replaced: true},
		"another one, and the owner is up": {kind: "ReplicaSet", owner: replicaSet("owner", 2), replaced: true, after: recheckEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			pod := ownedBy(lonely(), c.kind, "owner")
			group := adoptedGroup(pod, nil)
			group.UID = "g"
			s.cache(group)
			served := group.DeepCopy()
			if c.replaced {
				served.UID = "another"
			}
			s.serve(served)
			if c.owner != nil {
				s.serve(c.owner)
			}
			if c.hasPod {
				pod.Annotations = map[string]string{schedulingv1beta1.GroupNameAnnotation: group.Name}
				s.cache(pod)
			}
			after, err := retirement{s.adoption}.Sync(t.Context(), "default/"+group.Name)
			require.NoError(t, err)
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.deleted, s.group(group.Name) == nil)
		})
	}
}
