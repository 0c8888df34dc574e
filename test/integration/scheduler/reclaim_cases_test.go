package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// reclaimCase is a newcomer that lacks room or quota. Nodes have 4 CPUs.
//
// A queue is its name, the CPUs that it deserves, and options. These are "<" and its parent, "c" and its capability, and "keep" if it is
// not reclaimable. "runs" and "delay" give its minRuntime and its preemptionDelay.
//
// A load is a name, a queue or "-", the number of pods, and the CPUs of each. "3/2" is a gang of three with a minimum of two, "3" are three
// pods without a gang. Then follow "@" and the priority, "on" and a node for each pod, or one of pod's words: see setWord.
type reclaimCase struct {
	nodes       int
	queues      string
	runs, comes string
	// goes are the evictions: the reason, the name and how many pods. "" means that nothing goes, and the newcomer waits.
	goes string
}

var reclaimCases = map[string]reclaimCase{
	"exactly what is owed":                    {4, "own 6; b 6", "b b 4 3", "mine own 2/2 3", "Reclaimed b 2"},
	"free room first":                         {3, "own 6; b 3", "b b 2 3 on 0 1", "mine own 2/2 3", "Reclaimed b 1"},
	"nothing of a queue within its share":     {2, "own 3; b 6", "b b 2 3", "mine own 1/1 3", ""},
	"nothing for more than the own share":     {2, "own 3; b 3", "b b 2 3", "mine own 2/2 3", ""},
	"nothing for a part of the minimum":       {3, "own 9; b 3", "b b 2 3 on 0 1; stays - 1 3 on 2 @1000", "mine own 3/3 3", ""},
	"a queue that keeps all":                  {1, "own 3; b 0 keep", "b b 1 3", "mine own 1/1 3", ""},
	"two queues pay":                          {2, "own 6; a 0; b 0", "a a 1 3; b b 1 3", "mine own 2/2 3", "Reclaimed a 1; Reclaimed b 1"},
	"no priority protects what is borrowed":   {1, "own 3; b 0", "b b 1 3 @500", "mine own 1/1 3", "Reclaimed b 1"},
	"one large pod for many small ones":       {2, "own 4; b 0", "small b 4 1 on 0 0 0 0; large b 1 4 on 1", "mine own 1/1 4", "Reclaimed large 1"},
	"only where the gang may go":              {2, "own 3; b 0", "x b 1 3 on 0; y b 1 3 on 1", "mine own 1/1 3 on 1", "Reclaimed y 1"},
	"surplus, and the minimum stays":          {3, "own 3; b 6", "g b 3/1 3", "mine own 1/1 3", "Reclaimed g 1"},
	"all surplus, and a pod of its own":       {3, "own 6; b 3", "g b 2/1 3; s b 1 3", "mine own 2/2 3", "Reclaimed g 1; Reclaimed s 1"},
	"a gang of another queue whole":           {2, "own 3; b 0", "g b 2/2 3", "mine own 1/1 3", "Reclaimed g 2"},
	"a pod of its own before a gang":          {3, "own 3; b 0", "g b 2/2 3; s b 1 3", "mine own 1/1 3", "Reclaimed s 1"},
	"a gang whose whole is not due":           {2, "own 3; b 6", "g b 2/2 3", "mine own 1/1 3", ""},
	"a department within its share":           {2, "own 3; org 6; b 3 <org", "b b 2 3", "mine own 1/1 3", ""},
	"a department above its share":            {2, "own 3; org 3; b 3 <org", "b b 2 3", "mine own 1/1 3", "Reclaimed b 1"},
	"a sibling where the department is full":  {3, "org 3 c3; own 3 <org; a 0 <org; b 0", "a a 1 3 on 0; b b 1 3 on 1", "mine own 1/1 3", "Reclaimed a 1"},
	"a gang of lower priority whole":          {4, "", "low - 2/2 3 @1; other - 2/2 3 @2", "mine - 1/1 3 @500", "Preempted low 2"},
	"not one of the same priority":            {1, "", "low - 1/1 3 @500", "mine - 1/1 3 @500", ""},
	"for the quota of the queue":              {4, "own 6 c6", "low own 2/2 3", "mine own 2/2 3 @500", "Preempted low 2"},
	"another queue before the own one":        {2, "own 6; b 0", "o own 1 3 on 0; b b 1 3 on 1", "mine own 1/1 3 @500", "Reclaimed b 1"},
	"a pod without a gang takes back, too":    {1, "own 3; b 0", "b b 1 3", "mine own 1 3", "Reclaimed b 1"},
	"a gang without a minimum takes back":     {1, "own 3; b 0", "b b 1 3", "mine own 1/0 3", "Reclaimed b 1"},
	"quota for a pod without a gang":          {3, "org 6 c6; own 3 <org; b 3 <org", "b b 2 3", "mine own 1 3", "Reclaimed b 1"},
	"quota and room at once":                  {1, "org 3 c3; own 3 <org; b 0 <org", "b b 1 3", "mine own 1 3", "Reclaimed b 1"},
	"as much quota as a pod needs":            {2, "org 4 c4; own 2 <org; b 0 <org", "b b 4 1", "mine own 1 2", "Reclaimed b 2"},
	"quota for a gang without a minimum":      {3, "org 6 c6; own 3 <org; b 3 <org", "b b 2 3", "mine own 1/0 3", "Reclaimed b 1"},
	"quota for surplus":                       {4, "org 6 c6; own 6 <org; b 0 <org", "b b 2 3", "mine own 2/1 3", "Reclaimed b 2"},
	"quota for a pod by priority":             {2, "own 3 c3", "low own 1 3", "mine own 1 3 @500", "Preempted low 1"},
	"no quota for a pod of the same priority": {2, "own 3 c3", "low own 1 3 @500", "mine own 1 3 @500", ""},
	"no quota of a queue that keeps all":      {2, "org 3 c3; own 3 <org; b 0 <org keep", "b b 1 3", "mine own 1 3", ""},
	"no quota of pods that run for a while":   {2, "org 3 c3; own 3 <org; b 0 <org runs1h", "b b 1 3", "mine own 1 3", ""},
	"no quota for more than the own share":    {3, "org 6 c6; own 3 <org; b 3 <org", "b b 2 3", "mine own 1 4", ""},
	"no quota before the delay":               {2, "org 3 c3; own 3 <org delay1h; b 0 <org", "b b 1 3", "mine own 1 3", ""},
	"a pod that says it must stay goes, too":  {1, "own 3; b 0", "b b 1 3 spared", "mine own 1/1 3", "Reclaimed b 1"},
	"a pod that a budget protects comes last": {2, "own 3; b 0", "x b 1 3 guarded; y b 1 3", "mine own 1/1 3", "Reclaimed y 1"},
	"a pod that the system needs stays":       {2, "own 3; b 0", "x b 1 3 critical; y b 1 3", "mine own 1/1 3", "Reclaimed y 1"},
	"a queue whose pods run for a while":      {2, "own 3; a 0 runs1h; b 0", "a a 1 3; b b 1 3", "mine own 1/1 3", "Reclaimed b 1"},
	"a queue that waits before it takes":      {1, "own 3 delay1h; b 0", "b b 1 3", "mine own 1/1 3", ""},
}

// TestReclaim has each case on nodes and in queues of its own. Nothing but what is named goes, also a while later.
func TestReclaim(t *testing.T) {
	for name, c := range reclaimCases {
		t.Run(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), func(t *testing.T) {
			world := newWorld
			if strings.Contains(c.comes, "/0") || strings.Contains(c.comes, "2/1") {
				world = newQuietWorld // surplus leaves room to the gangs of other tests that wait
			}
			w := world(t, c.nodes)
			t.Cleanup(w.clear) // tests that must be alone come next: gangs that still wait would be tried for their nodes
			for _, words := range wordsOf(c.queues) {
				w.queueOf(words)
			}
			running := 0
			for _, words := range wordsOf(c.runs) {
				running += w.start(words)
			}
			w.expectBound("", running)
			coming := wordsOf(c.comes)[0]
			n := w.start(coming)
			if c.goes == "" {
				w.expectHeld(coming[0] + "-")
				w.expectStays("", running)
				require.Empty(t, w.evictions())
				return
			}
			w.expectBound(coming[0]+"-", n)
			w.expectEvictions(c.goes)
			gone := 0
			for _, words := range wordsOf(c.goes) {
				count, err := strconv.Atoi(words[2])
				require.NoError(t, err)
				gone += count
			}
			w.expectStays("", running-gone+n)
			require.Equal(t, c.goes, w.evictions())
		})
	}
}

func wordsOf(text string) (list [][]string) {
	for statement := range strings.SplitSeq(text, ";") {
		if words := strings.Fields(statement); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// evictions sums up what was evicted: the reason, the name without the number, and how many.
func (w *world) evictions() string {
	counts := map[string]int{}
	for _, told := range w.evicted() {
		counts[told[:strings.LastIndex(told, "-")]]++
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprint(what, " ", counts[what]))
	}
	return strings.Join(all, "; ")
}

// expectEvictions waits for the events of these evictions, and of no others. The API server gets an event some time after the eviction.
func (w *world) expectEvictions(want string) {
	w.t.Helper()
	w.eventually("there are events of these evictions: "+want, func() bool { return w.evictions() == want })
}

// queueOf makes a queue of a case.
func (w *world) queueOf(words []string) {
	w.t.Helper()
	w.queue(words[0], words[1], func(q *schedulingv1beta1.Queue) {
		for _, word := range words[2:] {
			switch {
			case word == "keep":
				notReclaimable(q)
			case word[0] == '<':
				q.Spec.Parent = w.namespace + "-" + word[1:]
			case word[0] == 'c':
				capability(word[1:])(q)
			case strings.HasPrefix(word, "runs"):
				q.Spec.Muster = &schedulingv1beta1.QueueExtension{MinRuntime: w.duration(word[len("runs"):])}
			case strings.HasPrefix(word, "delay"):
				q.Spec.Muster = &schedulingv1beta1.QueueExtension{PreemptionDelay: w.duration(word[len("delay"):])}
			default:
				require.Fail(w.t, "unknown word", word)
			}
		}
	})
}

func (w *world) duration(text string) *metav1.Duration {
	w.t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(w.t, err)
	return &metav1.Duration{Duration: d}
}

// start creates the pods of a statement, and says how many.
func (w *world) start(words []string) int {
	w.t.Helper()
	name, queue := words[0], ""
	if words[1] != "-" {
		queue = w.namespace + "-" + words[1]
	}
	size, minimum, isGang := strings.Cut(words[2], "/")
	count, err := strconv.Atoi(size)
	require.NoError(w.t, err)
	gang := ""
	if isGang {
		least, err := strconv.Atoi(minimum)
		require.NoError(w.t, err)
		w.createGroup(name, int32(least), queue)
		gang = name
	}
	change := w.changes(name, words[4:])
	for i := range count {
		pod := w.pod(fmt.Sprintf("%s-%d", name, i), gang)
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(words[3])}
		if !isGang && queue != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulingv1beta1.QueueNameAnnotation, queue)
		}
		change(pod, i)
		w.create(pod)
	}
	return count
}

// changes are what the further words of a statement say of its pods.
func (w *world) changes(name string, words []string) func(pod *corev1.Pod, i int) {
	w.t.Helper()
	var nodes []string
	var all []func(*corev1.Pod)
	for i, word := range words {
		switch {
		case word[0] == '@':
			priority, err := strconv.ParseInt(word[1:], 10, 32)
			require.NoError(w.t, err)
			all = append(all, w.class(int32(priority)))
		case word == "on":
			for _, node := range words[i+1:] {
				if strings.Trim(node, "0123456789") == "" {
					nodes = append(nodes, w.namespace+"-"+node)
				}
			}
		case strings.Trim(word, "0123456789") != "":
			all = append(all, w.setWord(name, word))
		}
	}
	return func(pod *corev1.Pod, i int) {
		for _, change := range all {
			change(pod)
		}
		if len(nodes) > 0 {
			pod.Spec.NodeSelector[corev1.LabelHostname] = nodes[i]
		}
	}
}

// setWord says what a word changes of a pod.
func (w *world) setWord(name, word string) func(*corev1.Pod) {
	w.t.Helper()
	switch word {
	case "spared":
		return func(p *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1alpha1.PodPreemptableKey, "false")
		}
	case "critical":
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }
	case "guarded":
		w.guard(name)
		return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "guarded", name) }
	}
	require.Fail(w.t, "unknown word", word)
	return nil
}

// guard makes a disruption budget that lets no pod with the label be disrupted.
func (w *world) guard(name string) {
	w.t.Helper()
	none := intstr.FromInt32(0)
	_, err := kube.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": name}}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.eventually("the budget is known", func() bool {
		budget, err := kube.PolicyV1().PodDisruptionBudgets(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration > 0
	})
}
