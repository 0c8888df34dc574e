package placement

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/resources"
)

// ended are the pods that a view counts as ended.
type ended struct {
	from *view           // the view of the cluster as it is
	pods [][]fwk.PodInfo // on each node
	// withoutNominated: the filters do not count the pods that are nominated to a node.
	withoutNominated bool
}

// whatIf is a copy of the view from which pods can be removed. It keeps its own record of rejections.
func (v *view) whatIf() *view {
	w := *v
	w.ended = &ended{from: v, pods: make([][]fwk.PodInfo, len(v.infos))}
	w.infos, w.nodes = slices.Clone(v.infos), slices.Clone(v.nodes)
	for n := range w.nodes {
		w.nodes[n].Free = v.nodes[n].Free.Clone()
	}
	w.filters, w.refused = make([]*filterState, len(v.demands)), map[pair]bool{}
	w.rejectors, w.reasons = sets.New[string](), sets.New[string]()
	return &w
}

// remove counts a pod on a node as ended. amounts is what that frees, of the resources that count.
func (v *view) remove(n int, pod fwk.PodInfo, amounts resources.List) {
	v.ended.pods[n] = append(v.ended.pods[n], pod)
	v.infos[n] = nil
	v.nodes[n].Free.Add(amounts)
	for d, f := range v.filters {
		v.removeFrom(f, v.example(d), n, pod)
	}
}

// restore undoes remove.
func (v *view) restore(n int, pod fwk.PodInfo, amounts resources.List) {
	v.ended.pods[n] = slices.DeleteFunc(v.ended.pods[n], func(p fwk.PodInfo) bool { return p == pod })
	v.infos[n] = nil
	v.nodes[n].Free.Sub(amounts)
	for d, f := range v.filters {
		if f != nil && f.status.IsSuccess() {
			if status := v.profile.RunPreFilterExtensionAddPod(v.ctx, f.cycle, v.example(d), pod, v.ended.from.infos[n]); !status.IsSuccess() {
				f.status = status
			}
		}
	}
}

// removeFrom has the plugins forget an ended pod. They read only constant fields of the node.
func (v *view) removeFrom(f *filterState, pod *corev1.Pod, n int, gone fwk.PodInfo) {
	if f != nil && f.status.IsSuccess() {
		if status := v.profile.RunPreFilterExtensionRemovePod(v.ctx, f.cycle, pod, gone, v.ended.from.infos[n]); !status.IsSuccess() {
			f.status = status
		}
	}
}

// removeAll has the plugins forget all ended pods.
func (v *view) removeAll(f *filterState, pod *corev1.Pod) {
	if v.ended == nil {
		return
	}
	for n, pods := range v.ended.pods {
		for _, gone := range pods {
			v.removeFrom(f, pod, n, gone)
		}
	}
}

// info is a node without the pods that have ended.
func (v *view) info(n int) fwk.NodeInfo {
	if v.infos[n] != nil {
		return v.infos[n]
	}
	info := v.ended.from.infos[n]
	if gone := v.ended.pods[n]; len(gone) > 0 {
		info = info.Snapshot()
		for _, pod := range gone {
			if err := info.RemovePod(klog.FromContext(v.ctx), pod.GetPod()); err != nil {
				return v.ended.from.infos[n] // it is of the snapshot and cannot be missing
			}
		}
	}
	v.infos[n] = info
	return info
}

// allInfos are all nodes without the pods that have ended.
func (v *view) allInfos() []fwk.NodeInfo {
	for n := range v.infos {
		v.info(n)
	}
	return v.infos
}

// freedBy is the amounts of some resources that the end of a pod frees.
func freedBy(pod fwk.PodInfo, names []corev1.ResourceName) resources.List {
	freed := make(resources.List, len(names))
	for _, name := range names {
		freed[name] = freedOf(pod, name)
	}
	return freed
}

// freedOf is the amount of a resource that the end of a pod frees.
func freedOf(pod fwk.PodInfo, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return amountOf(pod.CalculateResource().Resource, name)
}

// amounts are the amounts that pods free. Most pods have equals, and then share a list: it must not be changed.
type amounts struct {
	names []corev1.ResourceName
	lists map[string]resources.List
	key   []byte
}

func newAmounts(names []corev1.ResourceName) *amounts {
	return &amounts{names: names, lists: map[string]resources.List{}}
}

// freedBy is what the end of a pod frees.
func (a *amounts) freedBy(pod fwk.PodInfo) resources.List {
	a.key = a.key[:0]
	for _, name := range a.names {
		a.key = binary.LittleEndian.AppendUint64(a.key, uint64(freedOf(pod, name)))
	}
	list, known := a.lists[string(a.key)]
	if !known {
		list = freedBy(pod, a.names)
		a.lists[string(a.key)] = list
	}
	return list
}
