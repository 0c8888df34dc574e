package build

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestMinResourcesCountWhatTheServerAdds: the integration test TestAGangAsksForWhatTheServerAdds compares with a real server.
func TestMinResourcesCountWhatTheServerAdds(t *testing.T) {
	limitRange := func(kind corev1.LimitType, request, limit corev1.ResourceList) *corev1.LimitRange {
		return &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: kind, DefaultRequest: request, Default: limit}}}}
	}
	half, one, two := mustertesting.Resources("cpu", "500m"), mustertesting.Resources("cpu", "1"), mustertesting.Resources("cpu", "2")
	standard := limitRange(corev1.LimitTypeContainer, half, two)
	overhead := func(class string) corev1.ResourceList {
		return map[string]corev1.ResourceList{"sandboxed": mustertesting.Resources("cpu", "250m", "memory", "1Gi")}[class]
	}
	inClass := func(name string) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.RuntimeClassName = &name }
	}
	for name, c := range map[string]struct {
		change           func(*corev1.PodSpec)
		added            Additions
		requests, limits string // of cpu, of two pods
	}{
		"nothing":                  {nil, Additions{}, "0", "0"},
		"defaults":                 {nil, Additions{LimitRanges: []*corev1.LimitRange{standard}}, "1", "4"},
		"defaults of other things": {nil, Additions{LimitRanges: []*corev1.LimitRange{limitRange(corev1.LimitTypePod, half, two)}}, "0", "0"},
		"the first of two": {nil, Additions{LimitRanges: []*corev1.LimitRange{standard, limitRange(corev1.LimitTypeContainer, one, one)}},
			"1", "4"},
		"a request of its own": {func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Requests = one },
			Additions{LimitRanges: []*corev1.LimitRange{standard}}, "2", "4"},
		"a limit of its own is its request": {func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = one },
			Additions{LimitRanges: []*corev1.LimitRange{standard}}, "2", "2"},
		"two containers": {func(spec *corev1.PodSpec) { spec.Containers = append(spec.Containers, corev1.Container{Name: "b"}) },
			Additions{LimitRanges: []*corev1.LimitRange{standard}}, "2", "8"},
		"a large init container": {func(spec *corev1.PodSpec) {
			spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: two}}}
		}, Additions{LimitRanges: []*corev1.LimitRange{standard}}, "4", "4"},
		"a sidecar": {func(spec *corev1.PodSpec) {
			always := corev1.ContainerRestartPolicyAlways
			spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always}}
		}, Additions{LimitRanges: []*corev1.LimitRange{standard}}, "2", "8"},
		"overhead":              {inClass("sandboxed"), Additions{OverheadOf: overhead}, "500m", "0"},
		"defaults and overhead": {inClass("sandboxed"), Additions{LimitRanges: []*corev1.LimitRange{standard}, OverheadOf: overhead}, "1500m", "4500m"},
		"an unknown class":      {inClass("other"), Additions{OverheadOf: overhead}, "0", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj()
			spec := &job.Spec.Tasks[0].Template.Spec
			spec.Containers[0].Resources = corev1.ResourceRequirements{}
			if c.change != nil {
				c.change(spec)
			}
			before := job.DeepCopy()
			filled := defaults.Job(job, "")
			got := minResources(&filled.Spec, func(string) int32 { return 0 }, c.added)
			requests, limits := got["requests.cpu"], got["limits.cpu"]
			assert.Equal(t, c.requests, requests.String())
			assert.Equal(t, c.limits, limits.String())
			assert.Equal(t, got.Cpu().String(), requests.String())
			assert.Equal(t, before, job)
			assert.Equal(t, mustertesting.Resources("cpu", "500m"), half, "what is in the informers' stores stays as it is")
		})
	}
}
