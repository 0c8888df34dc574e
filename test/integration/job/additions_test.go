package job_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAGangAsksForWhatTheServerAdds (issue 25, 8): before its first pod, the PodGroup asks for what the API server's pods will ask for. The
// defaults of LimitRanges and the overhead of a RuntimeClass are included.
func TestAGangAsksForWhatTheServerAdds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, err := kube.CoreV1().LimitRanges(s.namespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "standard"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			Default:        mustertesting.Resources("cpu", "2", "memory", "3Gi"),
			DefaultRequest: mustertesting.Resources("cpu", "300m")}}}, // the default limit of memory is its default request
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Handler: "sandbox",
		Overhead: &nodev1.Overhead{PodFixed: mustertesting.Resources("cpu", "120m", "memory", "64Mi")}}
	_, err = kube.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	always := corev1.ContainerRestartPolicyAlways
	for name, change := range map[string]func(*corev1.PodSpec){
		"plain":     func(*corev1.PodSpec) {},
		"sandboxed": func(spec *corev1.PodSpec) { spec.RuntimeClassName = &class.Name },
		"own-limit": func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = mustertesting.Resources("cpu", "1") },
		"with-init": func(spec *corev1.PodSpec) {
			spec.RuntimeClassName = &class.Name
			spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox",
				Resources: corev1.ResourceRequirements{Requests: mustertesting.Resources("cpu", "1500m")}}}
		},
		"with-sidecar": func(spec *corev1.PodSpec) {
			spec.InitContainers = []corev1.Container{{Name: "sidecar", Image: "busybox", RestartPolicy: &always}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := mustertesting.MakeJob(name).Task(mustertesting.MakeTask("a", 3)).Obj()
			job.Spec.Tasks[0].Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
			change(&job.Spec.Tasks[0].Template.Spec)
			created := s.applyObject(job)
			wanted := func() corev1.ResourceList { return *s.group(created).Spec.MinResources }
			s.Soon("the informers have shown what is added", func() bool { amount := wanted()["limits.memory"]; return !amount.IsZero() }, func() any { return wanted() })
			asked := wanted()
			s.admit(created)
			pod := s.awaitPod(name + "-a-0")
			for resourceName, each := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
				assertThreeTimes(t, each, asked["requests."+resourceName], "requests."+resourceName)
			}
			for resourceName, each := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
				assertThreeTimes(t, each, asked["limits."+resourceName], "limits."+resourceName)
			}
		})
	}
}

func assertThreeTimes(t *testing.T, each, sum resource.Quantity, what corev1.ResourceName) {
	t.Helper()
	each.Mul(3)
	assert.Zero(t, each.Cmp(sum), "%s: %s, not %s", what, sum.String(), each.String())
}
