package watchlog

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// Pod is what was seen of a pod. A time is zero while its moment has not come.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Group is the name of its PodGroup, Version the incarnation of its Job; both empty if it has none.
	Group, Version string
	// Job and Task are the names that the job controller gave it.
	Job, Task string
	// Queue that it is charged to; empty for none.
	Queue string
	// Scheduler that it asks for.
	Scheduler string
	// Node that it is bound to.
	Node string
	// Requests is what it takes from a node.
	Requests resources.List
	// Phase that it was in when last seen.
	Phase corev1.PodPhase
	// ExitCode of its first container, once that has terminated.
	ExitCode int32
	// Waiting is its last PodScheduled condition with status False.
	Waiting corev1.PodCondition
	// Created, Bound, Running, Finished (Succeeded or Failed), Deleting (deletion requested) and Gone are when each was first seen.
	Created, Bound, Running, Finished, Deleting, Gone time.Time

	charged string // the queue that its requests count in now
}

// Live says whether the pod exists and has neither finished nor been asked to go.
func (p Pod) Live() bool { return p.Finished.IsZero() && p.Deleting.IsZero() && p.Gone.IsZero() }

// String is a line for people.
func (p Pod) String() string {
	text := fmt.Sprintf("pod %s/%s", p.Namespace, p.Name)
	if p.Version != "" {
		text += " version " + p.Version
	}
	for _, moment := range []struct {
		name string
		at   time.Time
	}{
		{"created", p.Created}, {"bound", p.Bound}, {"running", p.Running}, {strings.ToLower(string(p.Phase)), p.Finished},
		{"deleting", p.Deleting}, {"gone", p.Gone},
	} {
		if !moment.at.IsZero() {
			text += fmt.Sprintf(", %s %s", moment.name, moment.at.Format(clock))
		}
	}
	if p.Bound.IsZero() && p.Waiting.Message != "" {
		text += fmt.Sprintf(", waits: %s, %s", p.Waiting.Reason, p.Waiting.Message)
	}
	return text
}

// clock is how moments are written.
const clock = "15:04:05.000"

// RecordPod takes in a state of a pod.
func (l *Log) RecordPod(pod *corev1.Pod) {
	l.record(func(now time.Time) {
		known := l.pods[pod.UID]
		if known == nil {
			known = &Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Created: now}
			l.pods[pod.UID] = known
			l.podOrder = append(l.podOrder, pod.UID)
			job := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Annotations[batchv1alpha1.JobNameKey]}
			l.podsOfJob[job] = append(l.podsOfJob[job], pod.UID)
		}
		known.see(pod, now)
		if known.Queue == "" {
			known.Queue = l.queueOf(pod)
		}
		l.charge(known)
	})
}

// RecordPodGone takes in that a pod was deleted.
func (l *Log) RecordPodGone(pod *corev1.Pod) {
	l.record(func(now time.Time) {
		known := l.pods[pod.UID]
		if known == nil {
			return
		}
		known.see(pod, now)
		known.Gone = now
		l.charge(known)
	})
}

func (p *Pod) see(pod *corev1.Pod, now time.Time) {
	p.Group = pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	p.Version = pod.Annotations[batchv1alpha1.JobVersionKey]
	p.Job = pod.Annotations[batchv1alpha1.JobNameKey]
	p.Task = pod.Annotations[batchv1alpha1.TaskSpecKey]
	p.Scheduler = pod.Spec.SchedulerName
	p.Node = pod.Spec.NodeName
	p.Requests = resources.PodRequests(pod)
	p.Phase = pod.Status.Phase
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			p.Waiting = condition
		}
	}
	if statuses := pod.Status.ContainerStatuses; len(statuses) > 0 && statuses[0].State.Terminated != nil {
		p.ExitCode = statuses[0].State.Terminated.ExitCode
	}
	once(&p.Bound, now, p.Node != "")
	once(&p.Running, now, p.Phase == corev1.PodRunning)
	once(&p.Finished, now, p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed)
	once(&p.Deleting, now, pod.DeletionTimestamp != nil)
}

// once sets a moment the first time that its condition holds.
func once(moment *time.Time, now time.Time, holds bool) {
	if holds && moment.IsZero() {
		*moment = now
	}
}

// queueOf is the queue that a pod counts in: its Job's, else its PodGroup's, else the one it names itself.
func (l *Log) queueOf(pod *corev1.Pod) string {
	if queue := pod.Annotations[batchv1alpha1.QueueNameKey]; queue != "" {
		return queue
	}
	group := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Annotations[schedulingv1beta1.GroupNameAnnotation]}
	if known := l.groups[group]; known != nil {
		return known.last().Queue
	}
	return pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
}

// charge keeps the use of the pod's queue: pods count from their binding until they have finished or are gone. The
// watch delivers pods in the order of their writes, so the sum was true at one moment.
func (l *Log) charge(p *Pod) {
	uses := p.Queue != "" && !p.Bound.IsZero() && p.Finished.IsZero() && p.Gone.IsZero()
	if !uses && p.charged != "" {
		l.usage[p.charged].Sub(p.Requests)
		p.charged = ""
	}
	if uses && p.charged == "" {
		p.charged = p.Queue
		if l.usage[p.Queue] == nil {
			l.usage[p.Queue] = resources.Sums{}
			l.peak[p.Queue] = resources.List{}
		}
		l.usage[p.Queue].Add(p.Requests)
		for name, amount := range l.usage[p.Queue].List() {
			l.peak[p.Queue][name] = max(l.peak[p.Queue][name], amount)
		}
	}
}

// PeakUse is the most of each resource that the bound, unfinished pods of a queue requested at one time. Pods of its
// children do not count.
func (l *Log) PeakUse(queue string) resources.List {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak[queue].Clone()
}

// Pods returns the pods that fit, in the order in which they were first seen.
func (l *Log) Pods(fits func(Pod) bool) []Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Pod
	for _, uid := range l.podOrder {
		if pod := *l.pods[uid]; fits(pod) {
			found = append(found, pod)
		}
	}
	return found
}

// PodsOf returns all pods of a Job, of every incarnation, in the order in which they were first seen.
func (l *Log) PodsOf(job types.NamespacedName) []Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Pod
	for _, uid := range l.podsOfJob[job] {
		found = append(found, *l.pods[uid])
	}
	return found
}
