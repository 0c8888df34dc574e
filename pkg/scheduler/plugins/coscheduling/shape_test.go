package coscheduling

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
)

// ofTemplate has a pod made from the template of a task.
func ofTemplate(task string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1alpha1.PodTemplateKey, "job-"+task)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1alpha1.JobVersionKey, "0")
	}
}

// volume gives a pod one of some kind.
func volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: source})
	}
}

func TestPodsOfATemplateAreAlikeUnlessSomebodyHasChangedOne(t *testing.T) {
	dataOf := func(claim string) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	}
	devices := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
		}
	}
	partition := func(id int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels[batchv1alpha1.PartitionIDKey] = strconv.Itoa(id)
			near(zone, "worker")(p) // below, as the API server makes it of matchLabelKeys
			term := &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
			term.LabelSelector.MatchLabels = map[string]string{batchv1alpha1.PartitionIDKey: strconv.Itoa(id)}
		}
	}
	member := func(change ...func(*corev1.Pod)) *gang.Member {
		pod := in("worker", "p", append(change, ofTemplate("worker"))...)
		return &gang.Member{UID: pod.UID, Pod: pod, Requests: resources.PodRequests(pod)}
	}
	nothing := func(*corev1.Pod) {}
	tests := map[string]struct {
		one, other func(*corev1.Pod)
		alike      bool
	}{
		"nothing":                  {nothing, nothing, true},
		"an index":                 {func(p *corev1.Pod) { p.Labels["index"] = "0" }, func(p *corev1.Pod) { p.Labels["index"] = "1" }, true},
		"a hostname":               {func(p *corev1.Pod) { p.Spec.Hostname = "p-0" }, func(p *corev1.Pod) { p.Spec.Hostname = "p-1" }, true},
		"an image":                 {nothing, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, true},
		"the rank in its env":      {nothing, func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RANK", Value: "1"}} }, true},
		"a token":                  {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), true},
		"one claim for all":        {dataOf("data"), dataOf("data"), true},
		"one template of claims":   {devices("gpu"), devices("gpu"), true},
		"an ephemeral volume each": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), true},
		"the same partition":       {partition(0), partition(0), true},
		"a node selector":          {nothing, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, false},
		"another affinity":         {near(zone, "worker"), near(zone, "ps"), false},
		"an affinity":              {nothing, near(zone, "worker"), false},
		"another partition":        {partition(0), partition(1), false},
		"a toleration": {nothing, func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
		}, false},
		"a constraint on spreading": {nothing, spread(zone, "worker"), false},
		"what it asks for": {nothing, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		}, false},
		"a host port":        {nothing, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, false},
		"a claim of its own": {dataOf("data-0"), dataOf("data-1"), false},
		"other devices":      {devices("gpu"), devices("large-gpu"), false},
		"another disk": {
			volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "a"}}), volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "b"}}), false,
		},
		"a label that somebody selects by": {nothing, func(p *corev1.Pod) { p.Labels["role"] = "leader" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]func(*corev1.Pod){{test.one, test.other}, {test.other, test.one}} {
				s := newShapes("role")
				one, other := s.of(member(pair[0])), s.of(member(pair[1]))
				if test.alike {
					assert.Equal(t, one, other)
				} else {
					assert.NotEqual(t, one, other)
				}
				assert.Equal(t, one, s.of(member(pair[0])), "another like the first")
				assert.Equal(t, other, s.of(member(pair[1])), "another like the second")
			}
		})
	}
}

func TestPodsThatAreChangedOneByOneAreAllToldApart(t *testing.T) {
	s, shapes := newShapes(), sets.New[string]()
	const ranks = 3 * mostKinds
	for range 2 {
		for rank := range ranks {
			shapes.Insert(s.of(memberOf(func(p *corev1.Pod) {
				ofTemplate("worker")(p)
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: fmt.Sprint("n", rank)}
			})))
		}
	}
	assert.Len(t, shapes, ranks)
	assert.NotEqual(t, s.of(memberOf(ofTemplate("worker"))), s.of(memberOf(ofTemplate("ps"))), "reports name the task")
}

// TestAGangIsJudgedByAllOfItsPods: a webhook has sent one of the pods of a task to a node of its own.
func TestAGangIsJudgedByAllOfItsPods(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "n0", 1), nodeIn("b", "n1", 1)}
	workerIn := func(name string, zones ...string) *corev1.Pod {
		return in("worker", name, ofTemplate("worker"), func(p *corev1.Pod) {
			for _, value := range zones {
				p.Spec.NodeSelector = map[string]string{zone: value}
			}
		})
	}
	tests := map[string]struct {
		pods  []*corev1.Pod
		parks bool
	}{
		"the first, and there is room":             {[]*corev1.Pod{workerIn("w0", "b"), workerIn("w1")}, false},
		"the last, and there is room":              {[]*corev1.Pod{workerIn("w0"), workerIn("w1", "a")}, false},
		"each to its own":                          {[]*corev1.Pod{workerIn("w0", "b"), workerIn("w1", "a")}, false},
		"the first to where no node is":            {[]*corev1.Pod{workerIn("w0", "c"), workerIn("w1")}, true},
		"the last to where no node is":             {[]*corev1.Pod{workerIn("w0"), workerIn("w1", "c")}, true},
		"both to where there is room for only one": {[]*corev1.Pod{workerIn("w0", "a"), workerIn("w1", "a")}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, infos := pluginOn(t, nodes)
			k, result := plugin.plan(t.Context(), roundOf(test.pods), infos)
			require.Equal(t, test.parks, result.Verdict == plan.Impossible)
			places := k.places(result) // none if the members go without a plan
			for _, pod := range test.pods {
				if want := pod.Spec.NodeSelector[zone]; want != "" && places != nil {
					assert.Equal(t, map[string]string{"a": "n0", "b": "n1"}[want], places[pod.UID])
				}
			}
		})
	}
}

// BenchmarkShapes measures how long it takes to tell which of a thousand members are alike. Each judgement does it.
func BenchmarkShapes(b *testing.B) {
	affinity := near(zone, "worker")
	loads := map[string]func(*corev1.Pod, int){
		"bare":          func(*corev1.Pod, int) {},
		"with affinity": func(p *corev1.Pod, _ int) { affinity(p); spread(zone, "worker")(p) },
		"with volumes": func(p *corev1.Pod, _ int) {
			volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})(p)
			volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}})(p)
		},
		"each to its node": func(p *corev1.Pod, i int) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: fmt.Sprint("n", i)}
		},
	}
	for name, change := range loads {
		b.Run(name, func(b *testing.B) {
			members := make([]*gang.Member, largeSize)
			for i := range members {
				pod := in("worker", fmt.Sprint("w", i), ofTemplate("worker"), func(p *corev1.Pod) { change(p, i) }).DeepCopy()
				members[i] = &gang.Member{UID: pod.UID, Pod: pod, Requests: resources.PodRequests(pod)}
			}
			for b.Loop() {
				s := newShapes("role")
				for _, m := range members {
					s.of(m)
				}
			}
		})
	}
}
