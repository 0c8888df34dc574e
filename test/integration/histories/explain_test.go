package histories_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"

	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

// clusters is how many generated clusters explain is asked about beside the scheduler.
const clusters = 200

// trait is something about the pods of a gang that a filter reads, or that keeps them from the scheduler.
type trait struct {
	name string
	give func(w *world, gang string, pods []*corev1.Pod)
}

var traits = []trait{
	{"node affinity", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}},
			}}}
		})
	}},
	{"node selector", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": "a"} })
	}},
	{"anti-affinity", func(_ *world, gang string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termsOf(corev1.LabelHostname, "of", gang)}}
		})
	}},
	{"affinity to other pods", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termsOf("zone", "app", "web")}}
		})
	}},
	{"spreading", func(_ *world, gang string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: metav1.SetAsLabelSelector(map[string]string{"of": gang}),
			}}
		})
	}},
	{"volume", func(w *world, gang string, pods []*corev1.Pod) {
		claim := w.createVolume(gang)
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		})
	}},
	{"device", func(w *world, gang string, pods []*corev1.Pod) {
		w.createDeviceClaim(gang)
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To(gang)}}
			pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
		})
	}},
	{"extended resource", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
		})
	}},
	{"port", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		})
	}},
	{"toleration", func(_ *world, _ string, pods []*corev1.Pod) {
		each(pods, func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "only", Operator: corev1.TolerationOpExists}}
		})
	}},
	{"scheduling gate", func(_ *world, _ string, pods []*corev1.Pod) {
		pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	}},
	{"priority", func(w *world, _ string, pods []*corev1.Pod) {
		priority := int32(w.draw("priority", 1, 9))
		each(pods, func(pod *corev1.Pod) { pod.Spec.Priority = &priority })
	}},
	{"quota", func(*world, string, []*corev1.Pod) {}}, // see mixedGang
}

func each(pods []*corev1.Pod, change func(*corev1.Pod)) {
	for _, pod := range pods {
		change(pod)
	}
}

func termsOf(topology, key, value string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: topology, LabelSelector: metav1.SetAsLabelSelector(map[string]string{key: value})}}
}

// createVolume creates a claim and returns its name. It is bound to a volume of one node, or to none, or does not exist.
func (w *world) createVolume(name string) string {
	how := w.draw("volume", 0, 5)
	if how == 0 {
		return "missing"
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: w.newUID()}}
	claim.Status.Phase = corev1.ClaimPending
	if node, ok := pick(w, "node of the volume", w.nodes()); ok && how > 1 {
		claim.Spec.VolumeName, claim.Status.Phase = name, corev1.ClaimBound
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.newUID()}}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID}
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Name}}}}}}}
		require.NoError(w.t, w.api.Create(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), volume, ""))
	}
	require.NoError(w.t, w.api.Create(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), claim, namespace))
	return name
}

// createDeviceClaim creates a claim of a device. The first node has one such device.
func (w *world) createDeviceClaim(name string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: w.newUID()}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	require.NoError(w.t, w.api.Create(resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), claim, namespace))
}

// generate makes a cluster: nodes that differ, a device, pods of others, and gangs with traits.
func (w *world) generate() map[string]sets.Set[string] {
	w.generateNodes()
	for range w.draw("others", 0, 3) {
		pod := w.podOf("", "", w.draw("cpu", 1, 4), 0)
		pod.Labels = map[string]string{"app": "web"}
		if w.oneIn(3, "port of others") {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}
		w.createPod(pod)
	}
	w.runFor(time.Second)
	of := map[string]sets.Set[string]{}
	for range w.draw("gangs", 2, 5) {
		name, given := w.mixedGang()
		of[name] = given
	}
	return of
}

func (w *world) generateNodes() {
	for i, node := range w.nodes() {
		update(w, simulation.Nodes, node, func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: n.Name, "zone": string(rune('a' + i%2))}
			if w.oneIn(2, "disk") {
				n.Labels["disk"] = "ssd"
			}
			if w.oneIn(3, "taint") {
				n.Spec.Taints = []corev1.Taint{{Key: "only", Value: "some", Effect: corev1.TaintEffectNoSchedule}}
			}
			if w.oneIn(2, "gpus") {
				n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
			}
		})
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "device", UID: w.newUID()}}
	require.NoError(w.t, w.api.Create(resourcev1.SchemeGroupVersion.WithResource("deviceclasses"), class, ""))
	first := w.nodes()[0].Name
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice", UID: w.newUID()}}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: "example.com", NodeName: &first, Pool: resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d"}},
	}
	require.NoError(w.t, w.api.Create(resourcev1.SchemeGroupVersion.WithResource("resourceslices"), slice, ""))
	w.settle()
}

// mixedGang creates a gang with at most two traits, and returns its name and those.
func (w *world) mixedGang() (string, sets.Set[string]) {
	size := w.draw("size", 1, 4)
	group := mustertesting.MakePodGroup(w.newName("gang")).MinMember(int32(w.draw("minMember", max(1, size-1), size))).Obj()
	group.UID, group.CreationTimestamp = w.newUID(), metav1.Now()
	group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	var pods []*corev1.Pod
	cpu := w.draw("cpu", 1, 5)
	for range size {
		pod := w.podOf(group.Name, "", cpu, 0)
		pod.Labels = map[string]string{"of": group.Name}
		pods = append(pods, pod)
	}
	given := sets.New[string]()
	for range w.draw("traits", 0, 2) {
		trait, _ := pick(w, "trait", traits)
		if !given.Has(trait.name) {
			given.Insert(trait.name)
			trait.give(w, group.Name, pods)
		}
	}
	if given.Has("quota") {
		group.Spec.Queue = queueName
	}
	w.createGroup(group)
	for _, pod := range pods {
		w.createPod(pod)
	}
	return group.Name, given
}

// pagesOf are the pages of a gang and of its waiting pods. The scheduler's reporter and muster-controller have written the conditions.
func (w *world) pagesOf(name string) (of explain.Page, pods []explain.Page) {
	facts := explain.Facts{Now: time.Now(), Queues: []schedulingv1beta1.Queue{*w.queue()}}
	for _, group := range w.groups() {
		group = group.DeepCopy()
		if !w.hasStarted(group.Name) {
			group.Status.Phase = schedulingv1beta1.PodGroupInqueue // as muster-controller does after an eviction
		}
		facts.Groups = append(facts.Groups, *group)
		if group.Name == name {
			facts.Group = group
		}
	}
	found := report.NewReports(w.process.tracker).TakeReport(state.Key{Namespace: namespace, Name: name}).Explanation
	var waiting []int
	for _, pod := range w.now().members(name) {
		pod = pod.DeepCopy()
		said := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: found.Reason, Message: found.Text()}
		switch {
		case len(pod.Spec.SchedulingGates) > 0:
			said.Reason, said.Message = corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates"
		case found.IsZero():
			said.Type = ""
		}
		if pod.Spec.NodeName == "" && said.Type != "" {
			pod.Status.Conditions = []corev1.PodCondition{said}
		}
		if pod.Spec.NodeName == "" {
			waiting = append(waiting, len(facts.Members))
		}
		facts.Members = append(facts.Members, *pod)
	}
	if !found.IsZero() {
		facts.Group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{conditionOf(found, len(waiting), len(facts.Members))}
	}
	for _, at := range waiting {
		pods = append(pods, explain.Pod(facts, namespace, facts.Members[at].Name, &facts.Members[at]))
	}
	return explain.PodGroup(facts), pods
}

func conditionOf(found report.Explanation, waiting, members int) schedulingv1beta1.PodGroupCondition {
	condition := schedulingv1beta1.PodGroupCondition{
		Type: schedulingv1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: schedulingv1beta1.NotEnoughResourcesReason,
		Message: fmt.Sprintf("%d/%d tasks in gang unschedulable: %s", waiting, members, found.Text()),
	}
	switch found.Reason {
	case report.ReasonWaitingForQuota:
		condition.Reason = schedulingv1beta1.QuotaExceededReason
	case report.ReasonNotEnoughPods:
		condition.Reason = found.Reason
	}
	return condition
}

// hasStarted says whether the minimum of a gang is bound.
func (w *world) hasStarted(name string) bool {
	v := w.now()
	return v.missing(v.groups[name], bound(v.members(name))) == 0
}

// record counts what was seen of a trait, so that the test shows what it has judged.
type record map[string]struct{ started, waits, never int }

func (r record) note(given sets.Set[string], started bool, ever explain.Ever) {
	for name := range given.Union(sets.New("any")) {
		seen := r[name]
		switch {
		case started:
			seen.started++
		case ever == "never":
			seen.never++
			fallthrough
		default:
			seen.waits++
		}
		r[name] = seen
	}
}

// hasAll says whether a gang was seen that started, one that never will, and one of each trait that waits.
func (r record) hasAll() bool {
	return r["any"].started > 0 && r["any"].never > 0 && !slices.ContainsFunc(traits, func(of trait) bool { return r[of.name].waits == 0 })
}

// TestExplainSaysWhatTheSchedulerDoes asks for the pages of gangs in generated clusters, beside the scheduler that decides there. A page of a
// gang that has not been decided answers nothing. A gang that has started does not wait on its page, and every other does. No
// page promises a start. If a page says no, the gang does not start when everything else has gone, either. All pages of a gang
// say the same.
func TestExplainSaysWhatTheSchedulerDoes(t *testing.T) {
	seen := record{}
	var failure string
	mustertesting.HistoriesUntil(t, clusters, seen.hasAll, func(rt *rapid.T) {
		if failure == "" {
			failure = inBubble(t, rt, func(w *world) { w.askAll(seen) })
		}
		if failure != "" {
			rt.Fatalf("%s", failure)
		}
	})
	t.Logf("%+v", seen)
	assert.Positive(t, seen["any"].started)
	assert.Positive(t, seen["any"].never)
	for _, trait := range traits {
		assert.Positive(t, seen[trait.name].waits, trait.name)
	}
}

func (w *world) askAll(seen record) {
	of := w.generate()
	for name := range of {
		page, _ := w.pagesOf(name)
		w.require(page.Wait == nil || page.Wait.Reason != "" || page.Wait.Ever == "notKnown", "%s is not decided, and its page says %+v", name, page.Wait)
	}
	for range 25 {
		w.runFor(time.Second)
	}
	never := sets.New[string]()
	for _, name := range sets.List(sets.KeySet(of)) {
		page, pods := w.pagesOf(name)
		if w.hasStarted(name) {
			w.require(page.Wait == nil, "%s has started, and its page says that it waits: %+v", name, page.Wait)
			for _, pod := range pods {
				w.require(pod.Wait != nil && pod.Wait.Queue == "", "a pod beyond the minimum of %s waits as its gang: %+v", name, pod.Wait)
			}
			seen.note(of[name], true, "")
			continue
		}
		w.require(page.Wait != nil && page.Wait.Reason != "", "%s waits, and its page does not say why: %+v", name, page.Wait)
		w.checkPage(name, page, pods)
		seen.note(of[name], false, page.Wait.Ever)
		if page.Wait.Ever == "never" {
			never.Insert(name)
		}
	}
	w.removeAllBut(never)
	for name := range never {
		w.require(!w.hasStarted(name), "%s has started, and its page said that it never can", name)
	}
}

// checkPage compares the pages of a gang that waits.
func (w *world) checkPage(name string, page explain.Page, pods []explain.Page) {
	for _, one := range append(pods, page) {
		text := &strings.Builder{}
		require.NoError(w.t, one.Write(text, nil))
		w.require(!strings.Contains(text.String(), "Yes"), "the page of %s promises a start:\n%s", name, text)
		if one.Wait != nil && one.Wait.Reason == corev1.PodReasonSchedulingGated {
			w.require(one.Wait.Ever == "afterOthers", "a pod of %s has gates, and its page says %+v", name, one.Wait)
			continue
		}
		w.require(one.Wait != nil && one.Wait.Ever == page.Wait.Ever && one.Wait.Message == page.Wait.Message,
			"the pages of %s differ: %+v and %+v", name, page.Wait, one.Wait)
	}
	switch page.Wait.Reason {
	case report.ReasonUnschedulable, report.ReasonWaitingForQuota:
		w.require(page.Wait.Short != nil || strings.Contains(page.Wait.Message, "could not be placed"), "nothing is read from %q", page.Wait.Message)
	}
	w.require(page.Wait.Ever != "byItself", "%s waits at rest, and its page says that this ends by itself: %+v", name, page.Wait)
}

// removeAllBut empties the cluster but for some gangs, and lets the scheduler do what it can.
func (w *world) removeAllBut(kept sets.Set[string]) {
	for _, pod := range w.pods() {
		if !kept.Has(groupOf(pod)) {
			w.remove(simulation.Pods, pod)
		}
	}
	for range 25 {
		w.runFor(time.Second)
	}
}
