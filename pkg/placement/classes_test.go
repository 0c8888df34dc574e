package placement

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
	"github.com/muster-sched/muster/pkg/resources"
)

func memberOf(change func(*corev1.Pod)) *gang.Member {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	change(pod)
	return &gang.Member{Pod: pod}
}

func TestClassesDifferInWhatFiltersLookAt(t *testing.T) {
	alike := newClassifier("app")
	base := alike.classOf(memberOf(func(*corev1.Pod) {}))
	same := map[string]func(*corev1.Pod){
		"its name":                        func(p *corev1.Pod) { p.Name = "q" },
		"a label that nothing selects by": func(p *corev1.Pod) { p.Labels["index"] = "7" },
		"its hostname":                    func(p *corev1.Pod) { p.Spec.Hostname = "h" },
		"its environment": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RANK", Value: "1"}}
		},
		"its token": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x7", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7"}}
		},
	}
	for name, change := range same {
		assert.Equal(t, base, alike.classOf(memberOf(change)), name)
	}
	different := map[string]func(*corev1.Pod){
		"a label":         func(p *corev1.Pod) { p.Labels["app"] = "b" },
		"a node selector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} },
		"a claim": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		},
	}
	for name, change := range different {
		assert.NotEqual(t, base, alike.classOf(memberOf(change)), name)
	}
}

func TestClassesLeaveThePodsUnchanged(t *testing.T) {
	m := memberOf(func(p *corev1.Pod) {
		p.Spec.Hostname = "h"
		p.Spec.NodeSelector = map[string]string{"zone": "z", "disk": "ssd", "arch": "a"}
		p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}, {Name: "v"}}
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Command: []string{"true"}}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RANK", Value: "1"}}
	})
	before := m.Pod.DeepCopy()
	all := newClassifier("app", "index")
	first := all.classOf(m)
	for range 20 {
		assert.Equal(t, first, all.classOf(m), "the order of maps makes no difference")
	}
	assert.Equal(t, before, m.Pod)
}

func TestLabelsThatMatterAreThoseThatPodsSelectBy(t *testing.T) {
	selector := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{key: "x"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key + "-expression", Operator: metav1.LabelSelectorOpExists}},
		}
	}
	term := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{LabelSelector: selector(key), MatchLabelKeys: []string{key + "-match"}, MismatchLabelKeys: []string{key + "-mismatch"}}}
	}
	found := newClassifier()
	found.addSelected(&corev1.PodSpec{
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("near")},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("far")},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{LabelSelector: selector("spread"), MatchLabelKeys: []string{"spread-match"}}, {}},
	})
	assert.ElementsMatch(t, []string{
		"near", "near-expression", "near-match", "near-mismatch", "far", "far-expression", "far-match", "far-mismatch",
		"spread", "spread-expression", "spread-match",
	}, found.labels.UnsortedList())
}

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

func TestPodsOfATemplateAreOfOneClassUnlessChanged(t *testing.T) {
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
			near(zone, "worker")(p) // as the API server makes it of matchLabelKeys
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
		"a label that pods select by": {nothing, func(p *corev1.Pod) { p.Labels["role"] = "leader" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]func(*corev1.Pod){{test.one, test.other}, {test.other, test.one}} {
				s := newClassifier("role")
				one, other := s.classOf(member(pair[0])), s.classOf(member(pair[1]))
				if test.alike {
					assert.Equal(t, one, other)
				} else {
					assert.NotEqual(t, one, other)
				}
				assert.Equal(t, one, s.classOf(member(pair[0])), "another like the first")
				assert.Equal(t, other, s.classOf(member(pair[1])), "another like the second")
			}
		})
	}
}

func TestPodsThatAreChangedOneByOneAreOfDifferentClasses(t *testing.T) {
	s, classes := newClassifier(), sets.New[string]()
	const ranks = 3 * maxExamples
	for range 2 {
		for rank := range ranks {
			classes.Insert(s.classOf(memberOf(func(p *corev1.Pod) {
				ofTemplate("worker")(p)
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: fmt.Sprint("n", rank)}
			})))
		}
	}
	assert.Len(t, classes, ranks)
	assert.NotEqual(t, s.classOf(memberOf(ofTemplate("worker"))), s.classOf(memberOf(ofTemplate("ps"))), "reports name the task")
}

// TestAGangIsDecidedByAllOfItsPods: a webhook has sent one of the pods of a task to a node of its own.
func TestAGangIsDecidedByAllOfItsPods(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "n0", 1), nodeIn("b", "n1", 1)}
	workerIn := func(name string, zones ...string) *corev1.Pod {
		return in("worker", name, ofTemplate("worker"), func(p *corev1.Pod) {
			for _, value := range zones {
				p.Spec.NodeSelector = map[string]string{zone: value}
			}
		})
	}
	tests := map[string]struct {
		pods       []*corev1.Pod
		impossible bool
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
			planner, infos := plannerOn(t, nodes)
			decision := planner.Decide(t.Context(), problemOf(test.pods), infos)
			require.Equal(t, test.impossible, decision.Feasibility == Impossible)
			places := decision.Places // none if the feasibility is uncertain
			for _, pod := range test.pods {
				if want := pod.Spec.NodeSelector[zone]; want != "" && places != nil {
					assert.Equal(t, map[string]string{"a": "n0", "b": "n1"}[want], places[pod.UID])
				}
			}
		})
	}
}

// BenchmarkClasses measures how long it takes to find the demand classes of a thousand members, as each decision does.
func BenchmarkClasses(b *testing.B) {
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
				s := newClassifier("role")
				for _, m := range members {
					s.classOf(m)
				}
			}
		})
	}
}
