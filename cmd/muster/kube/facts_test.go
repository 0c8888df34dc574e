package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
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
