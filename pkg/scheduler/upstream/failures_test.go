package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// explainer says about pods by their names.
type explainer struct{}

// failed are the pods for which no plugin was asked. Tests of this package do not run in parallel.
var failed []string

// Fail writes down a pod.
func (explainer) Fail(pod *corev1.Pod) bool {
	failed = append(failed, pod.Name)
	return true
}

func (explainer) Explains(pod *corev1.Pod) bool      { return pod.Name == "member" }
func (explainer) WaitsForQuota(pod *corev1.Pod) bool { return pod.Name == "short" }

// usedByFailures has the methods of a profile that upstream's failure handler uses, and the ones that our handler uses. All other methods
// belong to a nil interface. When upstream begins to use one, the tests panic, and it must be seen whether quietProfile is to change it.
type usedByFailures struct {
	framework.Framework
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	events    *events.FakeRecorder
	cacher    fwk.APICacher
}

func (p *usedByFailures) ProfileName() string                                    { return "muster" }
func (p *usedByFailures) ClientSet() kubernetes.Interface                        { return p.client }
func (p *usedByFailures) SharedInformerFactory() informers.SharedInformerFactory { return p.informers }
func (p *usedByFailures) EventRecorder() events.EventRecorderLogger              { return p.events }
func (p *usedByFailures) APICacher() fwk.APICacher                               { return p.cacher }

// cacher writes down what is to be written.
type cacher struct {
	fwk.APICacher
	conditions []*corev1.PodCondition
	nominating *fwk.NominatingInfo
}

func (c *cacher) PatchPodStatus(_ *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	c.conditions, c.nominating = conditions, nominating
	return nil, nil
}

// fail runs upstream's failure handler, as HandleFailures changes it, for a pod that is nominated to a node.
func fail(t *testing.T, name string, status *fwk.Status, cacher fwk.APICacher) *usedByFailures {
	t.Helper()
	metrics.Register()
	pod := mustertesting.MakePod(name).Namespace("ns").UID(name).Obj()
	client := fake.NewClientset(pod)
	profile := &usedByFailures{client: client, informers: scheduler.NewInformerFactory(client, 0, nil), events: events.NewFakeRecorder(10), cacher: cacher}
	sched, err := scheduler.New(t.Context(), client, profile.informers, nil, func(string) events.EventRecorderLogger { return profile.events })
	require.NoError(t, err)
	profile.informers.Start(t.Context().Done())
	profile.informers.WaitForCacheSync(t.Context().Done())
	HandleFailures(sched, explainer{}, "WaitingForQuota")
	info, err := framework.NewPodInfo(pod)
	require.NoError(t, err)
	client.ClearActions()
	nominating := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"}
	sched.FailureHandler(klog.NewContext(t.Context(), klog.Background()), profile, &framework.QueuedPodInfo{PodInfo: info}, status, nominating, time.Now())
	nominated := sched.SchedulingQueue.NominatedPodsForNode("n")
	require.Len(t, nominated, 1)
	return profile
}

// patched is the status that was written, nil if none was.
func (p *usedByFailures) patched(t *testing.T) *corev1.PodStatus {
	t.Helper()
	var status *corev1.PodStatus
	for _, action := range p.client.(*fake.Clientset).Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			require.Nil(t, status, "one write is enough")
			var pod corev1.Pod
			require.NoError(t, json.Unmarshal(patch.GetPatch(), &pod))
			status = &pod.Status
		}
	}
	return status
}

// fitError is the status of a pod that fits on no node.
func fitError(pod string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
		Pod: mustertesting.MakePod(pod).Obj(), NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	})
}

// TestFailures: the reporter writes for a member, and a single pod that lacks quota gets its own reason. All else is upstream's. The
// nomination is written in any case.
func TestFailures(t *testing.T) {
	broken := func(string) *fwk.Status { return fwk.AsStatus(errors.New("the API server is away")) }
	for name, test := range map[string]struct {
		pod     string
		status  func(string) *fwk.Status
		reason  string // of the condition, "" for none
		isEvent bool
	}{
		"a member":                             {"member", fitError, "", false},
		"a single pod":                         {"single", fitError, corev1.PodReasonUnschedulable, true},
		"a single pod that lacks quota":        {"short", fitError, "WaitingForQuota", true},
		"a member whose cycle failed":          {"member", broken, corev1.PodReasonSchedulerError, true},
		"a pod without quota that also failed": {"short", broken, corev1.PodReasonSchedulerError, true},
	} {
		t.Run(name, func(t *testing.T) {
			profile := fail(t, test.pod, test.status(test.pod), nil)
			assert.Equal(t, test.isEvent, len(profile.events.Events) == 1)
			status := profile.patched(t)
			require.NotNil(t, status)
			assert.Equal(t, "n", status.NominatedNodeName)
			expectReason(t, test.reason, status.Conditions)

			cached := &cacher{}
			profile = fail(t, test.pod, test.status(test.pod), cached)
			assert.Nil(t, profile.patched(t), "the cacher writes")
			assert.Equal(t, "n", cached.nominating.NominatedNodeName)
			var conditions []corev1.PodCondition
			for _, condition := range cached.conditions {
				conditions = append(conditions, *condition)
			}
			expectReason(t, test.reason, conditions)
		})
	}
}

func expectReason(t *testing.T, reason string, conditions []corev1.PodCondition) {
	t.Helper()
	if reason == "" {
		assert.Empty(t, conditions)
		return
	}
	if assert.Len(t, conditions, 1) {
		assert.Equal(t, corev1.PodScheduled, conditions[0].Type)
		assert.Equal(t, reason, conditions[0].Reason)
		assert.NotEmpty(t, conditions[0].Message)
	}
}

// TestANominationIsWrittenOnlyIfItIsToChange has a pod that is nominated to node n fail.
func TestANominationIsWrittenOnlyIfItIsToChange(t *testing.T) {
	for name, test := range map[string]struct {
		nominating *fwk.NominatingInfo
		want       string
	}{
		"to another node": {&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "m"}, "m"},
		"to none":         {&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}, ""},
		"no change":       {&fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}, "n"},
		"nothing is said": {nil, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := mustertesting.MakePod("short").UID("short").Obj()
			pod.Status.NominatedNodeName = "n"
			client := fake.NewClientset(pod)
			writer := &quietWriter{client: client, profile: &quietProfile{ctx: t.Context(), reason: "WaitingForQuota"}}
			_, err := writer.PatchPodStatus(pod, []*corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}, test.nominating)
			require.NoError(t, err)
			written, err := client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, test.want, written.Status.NominatedNodeName)
			require.Len(t, written.Status.Conditions, 1)
			assert.Equal(t, "WaitingForQuota", written.Status.Conditions[0].Reason)
		})
	}
}

// TestOnlyTheConditionPodScheduledIsOurs: upstream may write other conditions one day.
func TestOnlyTheConditionPodScheduledIsOurs(t *testing.T) {
	scheduled, other := &corev1.PodCondition{Type: corev1.PodScheduled, Reason: "a"}, &corev1.PodCondition{Type: corev1.DisruptionTarget, Reason: "b"}
	all := []*corev1.PodCondition{scheduled, other}
	quiet := &quietWriter{profile: &quietProfile{silent: true}}
	assert.Equal(t, []*corev1.PodCondition{other}, quiet.filter(all))
	renaming := &quietWriter{profile: &quietProfile{reason: "c"}}
	renamed := renaming.filter(all)
	require.Len(t, renamed, 2)
	assert.Equal(t, "c", renamed[0].Reason)
	assert.Equal(t, "b", renamed[1].Reason)
	assert.Equal(t, "a", scheduled.Reason, "the caller's is not changed")
	assert.Len(t, all, 2)
}

// TestTheRecorderOfAQuietProfileDropsEvents if the profile is silent, and only then.
func TestTheRecorderOfAQuietProfileDropsEvents(t *testing.T) {
	own := &usedByFailures{events: events.NewFakeRecorder(1)}
	silent := &quietProfile{Framework: own, ctx: context.Background(), silent: true}
	silent.EventRecorder().WithLogger(klog.Background()).Eventf(nil, nil, "", "", "", "")
	assert.Empty(t, own.events.Events)
	renaming := &quietProfile{Framework: own, ctx: context.Background(), reason: "r"}
	renaming.EventRecorder().WithLogger(klog.Background()).Eventf(podNamed("p", "p"), nil, "Warning", "r", "a", "note")
	assert.Len(t, own.events.Events, 1)
}

// TestInAClusterWithoutNodesTheTrackerIsTold: upstream asks no plugin about the pod then, so its gang's attempt would go on.
func TestInAClusterWithoutNodesTheTrackerIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		status *fwk.Status
		want   []string
	}{
		"no nodes": {fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(scheduler.ErrNoNodesAvailable), []string{"member"}},
		"no room":  {fitError("member"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			failed = nil
			fail(t, "member", test.status, nil)
			assert.Equal(t, test.want, failed)
		})
	}
}
