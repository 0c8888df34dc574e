// Package batching is upstream's opportunistic batching at a cost that does not grow with the nodes.
//
// Of pods that are alike and come one after the other, upstream looks at all nodes for the first, and keeps their scores for those that
// follow: the best of the others is the hint for the next. The node that the last pod has taken may still be the best, so it is scored
// anew. For that upstream gathers all the nodes again, and has the plugins normalize and weigh the scores of each: where 500 nodes are
// scored of 5,000, that is a third of a millisecond and 270 kB of garbage for every pod, nine tenths of what it takes to find a node for it.
//
// What a pod on a node changes is how that node is scored for its room. Where this is all that has changed, the others' scores stand, and
// the node is put back among them with its new one. Otherwise all scores are made anew, as upstream does it.
//
// See https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5598-opportunistic-batching
package batching

import (
	"bytes"
	"container/heap"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// Install has the profiles of a scheduler give hints by this package.
func Install(s *scheduler.Scheduler) {
	profiles := make(profile.Map, len(s.Profiles))
	for name, inner := range s.Profiles {
		profiles[name] = New(inner)
	}
	s.Profiles = profiles
}

// New is the framework of a profile with hints by this package. The scheduling loop alone may ask for them.
func New(inner framework.Framework) framework.Framework {
	f := &batching{Framework: inner, weights: map[string]int64{}}
	for _, plugin := range inner.ListPlugins().Score.Enabled {
		f.weights[plugin.Name] = int64(plugin.Weight)
	}
	return f
}

// batching is a framework that remembers how the nodes were scored for the last pod.
type batching struct {
	framework.Framework
	weights map[string]int64 // of the plugins that score
	batch   *batch           // nil if nothing is remembered
	last    cycle
	hinted  fwk.NodePluginScores // the node that was the last hint
}

// cycle is the last one in which a pod has found a node.
type cycle struct {
	count  int64
	node   string
	scores *fwk.NodePluginScores // of the node before the pod took it; nil if they are not known
	back   bool                  // a pod has had its hint since then
}

// batch is how nodes were scored for pods of one signature.
type batch struct {
	signature fwk.PodSignature
	since     time.Time
	nodes     nodes
}

// longest is how long scores are gone by, as with upstream: meanwhile nobody sees what others do to the nodes.
const longest = 500 * time.Millisecond

// GetNodeHint returns the best node for a pod that is like the last one, or "" if it must be looked for among all.
func (f *batching) GetNodeHint(ctx context.Context, pod *corev1.Pod, signature fwk.PodSignature, state fwk.CycleState, count int64) string {
	begun := time.Now()
	hint := f.hint(ctx, pod, signature, state, count)
	result := "hint"
	if hint == "" {
		result = "no_hint"
		metrics.BatchAttemptStats.WithLabelValues(f.ProfileName(), metrics.BatchAttemptNoHint).Inc()
	}
	metrics.GetNodeHintDuration.WithLabelValues(result, f.ProfileName()).Observe(metrics.SinceInSeconds(begun))
	klog.FromContext(ctx).V(4).Info("Asked for a hint", "profile", f.ProfileName(), "pod", klog.KObj(pod), "cycleCount", count, "hint", hint)
	return hint
}

func (f *batching) hint(ctx context.Context, pod *corev1.Pod, signature fwk.PodSignature, state fwk.CycleState, count int64) string {
	if f.batch == nil || f.batch.nodes.Len() == 0 {
		return ""
	}
	obstacle := f.obstacle(pod, signature, count)
	if obstacle == "" {
		obstacle = f.putBack(ctx, pod, state)
	}
	if obstacle != "" {
		f.forget(ctx, obstacle)
		return ""
	}
	f.hinted = f.batch.nodes.best()
	if _, err := f.SnapshotSharedLister().NodeInfos().Get(f.hinted.Name); err != nil {
		f.forget(ctx, metrics.BatchFlushNodeMissing)
		return ""
	}
	return f.hinted.Name
}

// StoreScheduleResults takes note of the node that a pod has found, and of the others if they were scored.
func (f *batching) StoreScheduleResults(ctx context.Context, signature fwk.PodSignature, hint, chosen string, others framework.SortedScoredNodes, count int64) {
	defer metrics.StoreScheduleResultsDuration.ObserveSince(time.Now(), f.ProfileName())()
	f.last = cycle{count: count, node: chosen}
	switch hint {
	case chosen:
		metrics.BatchAttemptStats.WithLabelValues(f.ProfileName(), metrics.BatchAttemptHintUsed).Inc()
		hinted := f.hinted
		f.last.scores = &hinted
		return
	case "":
	default:
		metrics.BatchAttemptStats.WithLabelValues(f.ProfileName(), metrics.BatchAttemptHintNotUsed).Inc()
	}
	switch {
	case others == nil || others.Len() == 0:
		f.forget(ctx, metrics.BatchFlushEmptyList)
	case signature == nil:
		f.forget(ctx, metrics.BatchFlushPodNotBatchable)
	default:
		f.batch = &batch{signature: signature, since: time.Now(), nodes: nodesOf(others.UnorderedList())}
	}
}

// forget ends a batch for the reason that the metrics give.
func (f *batching) forget(ctx context.Context, why string) {
	f.batch = nil
	metrics.BatchCacheFlushed.WithLabelValues(f.ProfileName(), why).Inc()
	klog.FromContext(ctx).V(4).Info("Forgot how nodes were scored", "profile", f.ProfileName(), "reason", why)
}

// obstacle says why the scores for the last pod do not hold for this one, or "" if they do.
func (f *batching) obstacle(pod *corev1.Pod, signature fwk.PodSignature, count int64) string {
	// The pods of a native PodGroup are tried in one cycle.
	sameCycle := count == f.last.count && utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload)
	switch {
	case count != f.last.count+1 && !sameCycle:
		return metrics.BatchFlushPodSkipped
	case pod.Status.NominatedNodeName != "":
		return metrics.BatchFlushPodNominated
	case signature == nil || !bytes.Equal(signature, f.batch.signature):
		return metrics.BatchFlushPodIncompatible
	case time.Since(f.batch.since) > longest:
		return metrics.BatchFlushExpired
	}
	return ""
}

// putBack puts the node of the last pod back among the others, if it can take another one.
func (f *batching) putBack(ctx context.Context, pod *corev1.Pod, state fwk.CycleState) (obstacle string) {
	if f.last.back {
		return metrics.BatchFlushPodFailed // the hint was of no use to the pod before, of the same cycle, and what came of that is not known
	}
	node, err := f.SnapshotSharedLister().NodeInfos().Get(f.last.node)
	if err != nil || node == nil {
		return metrics.BatchFlushNodeMissing
	}
	f.last.back = true
	switch status := f.RunFilterPlugins(ctx, state, pod, node); {
	case status.IsRejected():
		f.batch.nodes.fewer = true
		return ""
	case !status.IsSuccess():
		return metrics.BatchFlushFilterError
	}
	defer metrics.BatchRescoreDuration.ObserveSince(time.Now(), f.ProfileName())()
	metrics.BatchRescoreAttempts.WithLabelValues(f.ProfileName()).Inc()
	if scores, ok := f.scoreAlone(ctx, pod, state, node); ok {
		heap.Push(&f.batch.nodes, scores)
		return ""
	}
	return f.scoreAll(ctx, pod, state, node)
}

// scoreAlone scores a node where nothing but its room has changed, so that the plugins that compare nodes see no difference. It returns
// false where that is not certain.
func (f *batching) scoreAlone(ctx context.Context, pod *corev1.Pod, state fwk.CycleState, node fwk.NodeInfo) (fwk.NodePluginScores, bool) {
	like := f.batch.nodes.like(f.last.scores)
	if like == nil {
		return fwk.NodePluginScores{}, false
	}
	state = state.Clone() // the pod's own is not prepared for scoring yet
	if !f.RunPreScorePlugins(ctx, state, pod, []fwk.NodeInfo{node}).IsSuccess() {
		return fwk.NodePluginScores{}, false
	}
	raw, status := f.RunRawScorePlugins(ctx, state, pod, node)
	if !status.IsSuccess() {
		return fwk.NodePluginScores{}, false
	}
	return weigh(node.Node().Name, raw, like, f.weights)
}

// scoreAll scores a node and normalizes the scores of all, as upstream does it each time.
func (f *batching) scoreAll(ctx context.Context, pod *corev1.Pod, state fwk.CycleState, node fwk.NodeInfo) (obstacle string) {
	lister := f.SnapshotSharedLister().NodeInfos()
	infos := make([]fwk.NodeInfo, 0, f.batch.nodes.Len()+1)
	for _, scored := range f.batch.nodes.scores {
		info, err := lister.Get(scored.Name)
		if err != nil || info == nil {
			return metrics.BatchFlushNodeMissing
		}
		infos = append(infos, info)
	}
	state = state.Clone()
	if !f.RunPreScorePlugins(ctx, state, pod, append(infos, node)).IsSuccess() {
		return metrics.BatchFlushPreScoreError
	}
	raw, status := f.RunRawScorePlugins(ctx, state, pod, node)
	if !status.IsSuccess() {
		return metrics.BatchFlushRescoreError
	}
	f.batch.nodes.scores = append(f.batch.nodes.scores, fwk.NodePluginScores{Name: node.Node().Name, RawScores: raw})
	if !f.NormalizeScores(ctx, state, pod, f.batch.nodes.scores).IsSuccess() {
		return metrics.BatchFlushNormalizeError
	}
	f.batch.nodes = nodesOf(f.batch.nodes.scores)
	return ""
}
