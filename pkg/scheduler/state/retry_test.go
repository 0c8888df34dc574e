package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// newTestStore makes a Store that is open, with a clock that stands.
func newTestStore() (*Store, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := New(clock)
	s.args = config.CoschedulingArgs{
		Admission:          config.AdmissionRequired,
		PermitTimeout:      metav1.Duration{Duration: time.Minute},
		PartialGangTimeout: metav1.Duration{Duration: time.Hour},
		InitialBackoff:     metav1.Duration{Duration: time.Second},
		MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
	}
	s.Serve("muster")
	s.Open()
	return s, clock
}

func testGroup(name string, minMember int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       schedulingv1beta1.PodGroupSpec{MinMember: minMember},
		Status:     schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupInqueue},
	}
}

// testPods makes n pods of 1 CPU of a gang.
func testPods(group string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", group, i)
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
				Annotations: map[string]string{schedulingv1beta1.GroupNameAnnotation: group}},
			Spec: corev1.PodSpec{SchedulerName: "muster", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}}},
		}
	}
	return pods
}

func on(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// gate has a gang of n pods come to the gate.
func gate(s *Store, name string, minMember int32, n int) []*corev1.Pod {
	s.SetPodGroup(testGroup(name, minMember))
	pods := testPods(name, n)
	for _, pod := range pods {
		s.Gate(pod)
	}
	return pods
}

// release brings a gang to where its members are being bound, each on a node of its name.
func release(t *testing.T, s *Store, pods []*corev1.Pod) {
	t.Helper()
	round := s.Judge(pods[0])
	require.NotNil(t, round)
	_, ok := s.Admit(round, nil)
	require.True(t, ok)
	for i, pod := range pods {
		s.Reserve(pod, pod.Name)
		verdict, _, _ := s.Permit(pod)
		require.Equal(t, i == len(pods)-1, verdict == Allow)
	}
}

func TestAMemberWhoseBindingFailsIsTriedAgainAtOnceAndFirst(t *testing.T) {
	s, clock := newTestStore()
	pods := gate(s, "g", 3, 3)
	release(t, s, pods)
	s.SetPod(on(pods[0], "g-0"))

	failed := on(pods[1], "g-1")
	fail := func() {
		s.Unreserve(failed) // once for each plugin
		s.Unreserve(failed)
		s.FailureHandled(failed)
	}
	fail()
	key := Key{Namespace: "ns", Name: "g"}
	assert.Empty(t, s.Gate(pods[1]), "the gate is open to it")
	assert.Equal(t, []*corev1.Pod{pods[1]}, s.next(key).activate)
	order := s.OrderKey(pods[1], clock.Now())
	assert.Equal(t, rankBroken, order.Rank)
	assert.Equal(t, Entry{Role: Chosen}, s.Enter(pods[1]), "it need not be judged")

	// Another gang that is judged in the meantime sees that the room is taken.
	round := s.Judge(gate(s, "h", 1, 1)[0])
	require.NotNil(t, round)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 1000, corev1.ResourcePods: 1}, round.Elsewhere["g-1"])

	// The other plugin's failure comes on top; nothing is let go.
	s.Unreserve(on(pods[2], "g-2"))
	assert.Empty(t, s.Gate(pods[2]))

	// It fails again: the first time it was at once, now it backs off.
	for i, pod := range pods[1:] {
		require.Equal(t, Chosen, s.Enter(pod).Role)
		s.Reserve(pod, "g-1")
		verdict, _, _ := s.Permit(pod)
		require.Equal(t, []Verdict{Wait, Allow}[i], verdict)
	}
	fail()
	assert.Equal(t, backingOff, s.Gate(pods[1]))
	assert.Empty(t, s.next(key).activate)
	clock.Step(time.Second)
	assert.Empty(t, s.Gate(pods[1]))
	assert.Equal(t, []*corev1.Pod{pods[1]}, s.next(key).activate)

	// It finds no node any more: now the gang is judged like others, and it still goes first.
	require.Equal(t, Chosen, s.Enter(pods[1]).Role)
	assert.True(t, s.Fail(pods[1]))
	clock.Step(10 * time.Second)
	s.SetPod(on(pods[2], "g-2"))
	assert.Empty(t, s.Gate(pods[1]))
	assert.Equal(t, rankBroken, s.OrderKey(pods[1], clock.Now()).Rank)
	assert.Equal(t, Scout, s.Enter(pods[1]).Role)
}

func TestABindingThatFailsAfterItsGangIsWholeIsForgotten(t *testing.T) {
	s, _ := newTestStore()
	pods := gate(s, "g", 2, 2)
	release(t, s, pods)
	s.Unreserve(on(pods[1], "n"))
	require.Equal(t, Chosen, s.Enter(pods[1]).Role)
	s.Reserve(pods[1], "n")
	verdict, _, _ := s.Permit(pods[1])
	require.Equal(t, Allow, verdict)
	s.SetPod(on(pods[0], "n"))
	s.SetPod(on(pods[1], "n"))
	g := s.gangs[Key{Namespace: "ns", Name: "g"}]
	assert.Equal(t, idle, g.phase)
	assert.Zero(t, g.bindFailures, "the next failure is the first again")
}

func TestAMemberThatIsBoundAnewLetsGoWhenBoundOnesGo(t *testing.T) {
	terminating := func(pod *corev1.Pod) *corev1.Pod {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
		return pod
	}
	for name, goAway := range map[string]func(*Store, *corev1.Pod){
		"deleted":       func(s *Store, pod *corev1.Pod) { s.DeletePod(pod) },
		"being deleted": func(s *Store, pod *corev1.Pod) { s.SetPod(terminating(pod)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore()
			pods := gate(s, "g", 3, 3)
			release(t, s, pods)
			s.SetPod(on(pods[0], "g-0"))
			s.SetPod(on(pods[1], "g-1"))
			s.Unreserve(on(pods[2], "g-2"))
			require.Equal(t, Chosen, s.Enter(pods[2]).Role)

			// Before it has its room again, two that it needs go. The gang has no other pods, so the round cannot end well.
			goAway(s, on(pods[0], "g-0"))
			goAway(s, on(pods[1], "g-1"))
			assert.Equal(t, idle, s.gangs[Key{Namespace: "ns", Name: "g"}].phase)
			assert.NotEqual(t, Chosen, s.Enter(pods[2]).Role)
		})
	}
}

// TestAMemberWhoseBindingFailsIsJudgedWhenTheMinimumWasRaised: the random histories found that it took its room again alone, and
// held it until the round expired, though the gang had no chance.
func TestAMemberWhoseBindingFailsIsJudgedWhenTheMinimumWasRaised(t *testing.T) {
	s, _ := newTestStore()
	pods := gate(s, "g", 1, 2)
	release(t, s, pods[:1])
	s.SetPodGroup(testGroup("g", 2))
	s.Unreserve(on(pods[0], "g-0"))
	assert.Equal(t, idle, s.gangs[Key{Namespace: "ns", Name: "g"}].phase)
	assert.Empty(t, s.Gate(pods[0]))
	assert.Equal(t, Scout, s.Enter(pods[0]).Role)
}

// TestAMemberThatIsBoundAfterAllEndsItsRound: the random histories found that the promise to a member whose binding got through,
// though its answer was lost, kept its room from others a second time.
func TestAMemberThatIsBoundAfterAllEndsItsRound(t *testing.T) {
	s, _ := newTestStore()
	pods := gate(s, "g", 3, 3)
	release(t, s, pods)
	s.Unreserve(on(pods[1], "g-1"))
	s.SetPod(on(pods[1], "g-1"))
	g := s.gangs[Key{Namespace: "ns", Name: "g"}]
	assert.Equal(t, idle, g.phase)

	s.DeletePod(pods[0])
	round := s.Judge(gate(s, "h", 1, 1)[0])
	require.NotNil(t, round)
	assert.Empty(t, round.Elsewhere["g-1"])
}
