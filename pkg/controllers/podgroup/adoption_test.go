package podgroup

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// stage is a Controller that syncs when a test tells it to. Its informers never start. A test puts objects into their stores, into the
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
		t: t, kube: kubefake.NewSimpleClientset(), muster: musterfake.NewSimpleClientset(),
		events: record.NewFakeRecorder(100), time: testingclock.NewFakeClock(time.Unix(10_000, 0)),
	}
	clients.CheckPreconditions(&s.kube.Fake, s.kube.Tracker())
	clients.CheckPreconditions(&s.muster.Fake, s.muster.Tracker())
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

// adopt gives a pod, or a further one, its PodGroup, and returns the name of the PodGroup.
func (s *stage) adopt(pod *corev1.Pod) string {
	s.t.Helper()
	s.serve(pod)
	s.cache(pod)
	_, err := s.adoption.Sync(s.t.Context(), "default/"+pod.Name)
	require.NoError(s.t, err)
	live, err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
	require.NoError(s.t, err)
	name := live.Annotations[schedulingv1beta1.GroupNameAnnotation]
	if group := s.group(name); group != nil {
		s.cache(group)
	}
	return name
}

// podOf is a pod of an owner, in a queue.
func podOf(kind, owner, name, queue string) *corev1.Pod {
	return ownedBy(mustertesting.MakePod(name).UID(name).SchedulerName("muster").QueueName(queue), kind, owner)
}

// TestPodsOfAnUnknownOwnerHaveAPodGroupEach: they may differ in all, and name several queues.
func TestPodsOfAnUnknownOwnerHaveAPodGroupEach(t *testing.T) {
	s := newStage(t)
	for name, queue := range map[string]string{"a": "one", "b": "two"} {
		pod := podOf("SparkApplication", "owner", name, queue)
		assert.Equal(t, "podgroup-"+name, s.adopt(pod))
		assert.Equal(t, queue, s.group("podgroup-"+name).Spec.Queue)
		assert.True(t, metav1.IsControlledBy(s.group("podgroup-"+name), pod), "it goes with its pod")
	}
}

// TestPodsOfOneOwnerInTwoQueuesHaveAPodGroupForEach: as after the update of the template of a StatefulSet.
func TestPodsOfOneOwnerInTwoQueuesHaveAPodGroupForEach(t *testing.T) {
	for _, informed := range []bool{true, false} {
		s := newStage(t)
		first := s.adopt(podOf("StatefulSet", "owner", "a", "one"))
		assert.Equal(t, "podgroup-owner", first)
		if !informed {
			require.NoError(t, s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore().Delete(s.group(first)))
		}
		second := s.adopt(podOf("StatefulSet", "owner", "b", "two"))
		assert.Regexp(t, "^podgroup-owner-[0-9a-f]{8}$", second)
		assert.Equal(t, "two", s.group(second).Spec.Queue)
		assert.Equal(t, second, s.adopt(podOf("StatefulSet", "owner", "c", "two")))
		assert.Equal(t, first, s.adopt(podOf("StatefulSet", "owner", "d", "one")))
	}
}

// TestTheReplicaSetsOfADeploymentAreOneGangIfItHasAMinimum: so that a rolling update goes through.
func TestTheReplicaSetsOfADeploymentAreOneGangIfItHasAMinimum(t *testing.T) {
	for minimum, want := range map[string][2]string{"3": {"podgroup-deployment", "podgroup-deployment"}, "1": {"podgroup-a", "podgroup-b"}} {
		s := newStage(t)
		for i, uid := range []string{"a", "b"} {
			set := replicaSet(uid, 3)
			set.Name, set.Annotations[schedulingv1beta1.GroupMinMemberAnnotation] = uid, minimum
			set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "deployment", Controller: ptr.To(true)}}
			s.serve(set)
			pod := podOf("ReplicaSet", uid, "pod-of-"+uid, "q")
			pod.OwnerReferences[0].Name = uid
			assert.Equal(t, want[i], s.adopt(pod))
		}
	}
}

// TestAPodGroupOfAnOlderNameIsMadeAnew: earlier releases had all pods of any owner share one.
func TestAPodGroupOfAnOlderNameIsMadeAnew(t *testing.T) {
	s := newStage(t)
	set := replicaSet("set", 3)
	set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "deployment", Controller: ptr.To(true)}}
	s.serve(set)
	for name, test := range map[string]struct {
		kind, owner, named string
		made               bool
	}{
		"an unknown owner":           {"SparkApplication", "owner", "podgroup-owner", true},
		"a ReplicaSet":               {"ReplicaSet", "set", "podgroup-set", true},
		"its Deployment":             {"ReplicaSet", "set", "podgroup-deployment", true},
		"its Deployment and a queue": {"ReplicaSet", "set", "podgroup-deployment-0123abcd", true},
		"a pod":                      {"StatefulSet", "owner", "podgroup-" + "a-pod", true},
		"a user's":                   {"ReplicaSet", "set", "podgroup-mine", false},
	} {
		pod := podOf(test.kind, test.owner, "p-"+strings.ReplaceAll(name, " ", "-"), "q")
		pod.UID = "a-pod"
		pod.Annotations[schedulingv1beta1.GroupNameAnnotation] = test.named
		assert.Equal(t, test.named, s.adopt(pod), name)
		assert.Equal(t, test.made, s.group(test.named) != nil, name)
	}
}

// TestThePodGroupOfASuspendedJobGoes: and its quota with it.
func TestThePodGroupOfASuspendedJobGoes(t *testing.T) {
	s := newStage(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "o", UID: "job"}, Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](3)}}
	s.serve(job)
	pod := podOf("Job", "job", "p", "q")
	pod.OwnerReferences[0].APIVersion = "batch/v1"
	name := s.adopt(pod)
	require.Equal(t, "podgroup-job", name)
	retire := func() time.Duration {
		after, err := retirement{s.adoption}.Sync(t.Context(), "default/"+name)
		require.NoError(t, err)
		return after
	}
	assert.Equal(t, recheckEmpty, retire())
	assert.NotNil(t, s.group(name), "the Job wants pods")
	job.Spec.Suspend = ptr.To(true)
	_, err := s.kube.BatchV1().Jobs(metav1.NamespaceDefault).Update(t.Context(), job, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Zero(t, retire())
	assert.Nil(t, s.group(name))
}

// TestThePodGroupOfAnOperatorHoldsNoQuotaWhileItsJobIsSuspended: its operator made it, so it stays. When pods come again, quota is held again.
func TestThePodGroupOfAnOperatorHoldsNoQuotaWhileItsJobIsSuspended(t *testing.T) {
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", "3").State(openState).Obj())
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "o", UID: "job"}, Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](3)}}
	s.serve(job)
	group := mustertesting.MakePodGroup("train").UID("train").Queue("q").MinMember(3).MinResources("cpu", "3").Phase(inqueue).Obj()
	s.serve(group)
	s.cache(group)
	s.restore()
	held := func() bool {
		_, err := s.Sync(t.Context(), "default/train")
		require.NoError(t, err)
		return s.usage.Ledger().Room("q", resources.List{corev1.ResourceCPU: 1}) != nil
	}
	lost := func(t *testing.T) {
		pod := podOf("Job", "job", "p", "")
		pod.OwnerReferences[0].APIVersion = "batch/v1"
		pod.Annotations[schedulingv1beta1.GroupNameAnnotation] = "train"
		s.adoption.lost(pod)
		after, err := retirement{s.adoption}.Sync(t.Context(), "default/train")
		require.NoError(t, err)
		assert.Zero(t, after)
		require.NotNil(t, s.group("train"))
	}
	require.True(t, held())
	lost(t)
	assert.True(t, held(), "the Job makes other pods")
	job.Spec.Suspend = ptr.To(true)
	_, err := s.kube.BatchV1().Jobs(metav1.NamespaceDefault).Update(t.Context(), job, metav1.UpdateOptions{})
	require.NoError(t, err)
	lost(t)
	assert.False(t, held())
	s.cache(mustertesting.MakePod("next").UID("next").Group("train").Requests("cpu", "1").Obj())
	assert.True(t, held())
}

// TestAPodWhosePodGroupIsForbiddenIsTold: by a ResourceQuota, say. It waits, so it must say why.
func TestAPodWhosePodGroupIsForbiddenIsTold(t *testing.T) {
	s := newStage(t)
	s.muster.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schedulingv1beta1.Resource("podgroups"), "podgroup-p", errors.New("exceeded quota"))
	})
	s.cache(lonely().Obj())
	after, err := s.adoption.Sync(t.Context(), "default/p")
	require.NoError(t, err)
	assert.Equal(t, recheckForbidden, after)
	assert.Contains(t, <-s.events.Events, "exceeded quota")
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

// TestAPodWithAWrongTopologyIsTold: Volcano takes values that it cannot read for others, without a word.
func TestAPodWithAWrongTopologyIsTold(t *testing.T) {
	s := newStage(t)
	pod := lonely().Annotation("volcano.sh/network-topology-mode", "firm").Annotation("volcano.sh/network-topology-highest-tier", "rack").Obj()
	s.serve(pod)
	s.cache(pod)
	for range 2 { // the second pass writes no second event
		_, err := s.adoption.Sync(t.Context(), "default/p")
		require.NoError(t, err)
	}
	require.Len(t, s.events.Events, 2)
	assert.Contains(t, <-s.events.Events, `Warning InvalidTopology metadata.annotations[volcano.sh/network-topology-highest-tier]: "rack" is no tier`)
	assert.Contains(t, <-s.events.Events, `Warning InvalidTopology metadata.annotations[volcano.sh/network-topology-mode]: "firm" is no mode`)
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
		pod      corev1.PodPhase // of its pod
		replaced bool            // another PodGroup of its name is in the API
		deleted  bool
		after    time.Duration
	}{
		"the owner is scaled to nothing":   {kind: "ReplicaSet", owner: replicaSet("owner", 0), deleted: true},
		"the owner is gone":                {kind: "ReplicaSet", deleted: true},
		"another owner of its name":        {kind: "ReplicaSet", owner: replicaSet("another", 3), deleted: true},
		"the owner wants pods":             {kind: "ReplicaSet", owner: replicaSet("owner", 1), after: recheckEmpty},
		"there are pods":                   {kind: "ReplicaSet", owner: replicaSet("owner", 0), hasPod: true},
		"there are finished pods only":     {kind: "ReplicaSet", owner: replicaSet("owner", 0), hasPod: true, pod: corev1.PodFailed, deleted: true},
		"an owner that is never scaled":    {kind: "DaemonSet"},
		"another PodGroup has taken over":  {kind: "ReplicaSet", owner: replicaSet("owner", 0), replaced: true},
		"another one, and the owner is up": {kind: "ReplicaSet", owner: replicaSet("owner", 2), replaced: true, after: recheckEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			pod := ownedBy(lonely(), c.kind, "owner")
			group := adoptedGroup(pod, homeFor(pod, nil))
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
				pod.Status.Phase = c.pod
				s.cache(pod)
			}
			after, err := retirement{s.adoption}.Sync(t.Context(), "default/"+group.Name)
			require.NoError(t, err)
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.deleted, s.group(group.Name) == nil)
		})
	}
}

// TestThePodOfAJobStaysWithIt: a user has removed the annotation, and has the pod name another queue. It is not adopted there, and gets back the
// PodGroup of its Job. The pods of a PhJob are made anew by their controller.
func TestThePodOfAJobStaysWithIt(t *testing.T) {
	for owner, want := range map[string]string{"batch.volcano.sh/v1alpha1 Job": "o-owner", "primehub.io/v1alpha1 PhJob": ""} {
		s := newStage(t)
		pod := podOf("", "owner", "p", "blue")
		pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind, _ = strings.Cut(owner, " ")
		assert.Equal(t, want, s.adopt(pod), owner)
		groups, err := s.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, groups.Items, owner)
	}
}
