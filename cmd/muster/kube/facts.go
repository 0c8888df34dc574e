package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/phjob"
)

// Reader reads what pages and tables about the cluster are made of.
type Reader struct {
	ctx     context.Context
	clients *Clients
	// Facts are what has been read.
	Facts explain.Facts
}

// NewReader makes a Reader that has read nothing yet.
func NewReader(ctx context.Context, clients *Clients) *Reader {
	return &Reader{ctx: ctx, clients: clients}
}

// Cluster reads the queues, PodGroups and nodes. It notes what the user may not read.
func (r *Reader) Cluster() error {
	return r.cluster(func(*corev1.ObjectReference) bool { return false })
}

// recent reads a list from the API server's cache. A page may be a moment old, and costs the cluster little.
var recent = metav1.ListOptions{ResourceVersion: "0"}

// running selects the pods that take room on nodes.
const running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Job makes the page of a Job.
func (r *Reader) Job(name string) (explain.Page, error) {
	job, err := r.clients.Muster.BatchV1alpha1().Jobs(r.clients.Namespace).Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		return explain.Page{}, err
	}
	if err := r.ofJob(job); err != nil {
		return explain.Page{}, err
	}
	return explain.Job(r.Facts), nil
}

// ofJob reads a Job, its PodGroup, its pods and the cluster.
func (r *Reader) ofJob(job *batchv1alpha1.Job) error {
	r.Facts.Job = job
	group, err := r.clients.Muster.SchedulingV1beta1().PodGroups(job.Namespace).Get(r.ctx, batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
	switch {
	case err == nil:
		r.Facts.Group = group
	case !apierrors.IsNotFound(err):
		return err
	}
	selector := labels.Set{batchv1alpha1.JobNameKey: job.Name}.String()
	pods, err := r.clients.Kube.CoreV1().Pods(job.Namespace).List(r.ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	r.Facts.Members = pods.Items
	return r.cluster(func(about *corev1.ObjectReference) bool { return belongs(job, about) })
}

// belongs says whether an event is about a Job, its PodGroup or one of its pods. Many of the pods are gone.
func belongs(job *batchv1alpha1.Job, about *corev1.ObjectReference) bool {
	switch about.Kind {
	case "Job":
		return about.UID == job.UID
	case "PodGroup":
		return about.Name == batchv1alpha1.PodGroupName(job)
	case "Pod":
		for i := range job.Spec.Tasks {
			task := job.Spec.Tasks[i].Name
			if task == "" {
				task = fmt.Sprint(batchv1alpha1.DefaultTaskSpec, i)
			}
			index, isOfTask := strings.CutPrefix(about.Name, job.Name+"-"+task+"-")
			if isOfTask && index != "" && strings.Trim(index, "0123456789") == "" {
				return true
			}
		}
	}
	return false
}

// PhJob makes the page of a PhJob.
func (r *Reader) PhJob(name string) (explain.Page, error) {
	namespace := r.clients.Namespace
	job, err := r.clients.Muster.PrimehubV1alpha1().PhJobs(namespace).Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		return explain.Page{}, err
	}
	r.Facts.PhJob = job
	group, err := r.clients.Muster.SchedulingV1beta1().PodGroups(namespace).Get(r.ctx, phjob.PodGroupName(job), metav1.GetOptions{})
	switch {
	case err == nil:
		r.Facts.Group = group
	case !apierrors.IsNotFound(err):
		return explain.Page{}, err
	}
	pod, err := r.clients.Kube.CoreV1().Pods(namespace).Get(r.ctx, job.Name, metav1.GetOptions{})
	switch {
	case err == nil && metav1.IsControlledBy(pod, job):
		r.Facts.Members = []corev1.Pod{*pod}
	case err != nil && !apierrors.IsNotFound(err):
		return explain.Page{}, err
	}
	if err := r.scheduleOf(job); err != nil {
		return explain.Page{}, err
	}
	err = r.cluster(func(about *corev1.ObjectReference) bool {
		return about.UID == job.UID || about.Kind == "PodGroup" && about.Name == phjob.PodGroupName(job) || about.Kind == "Pod" && about.Name == job.Name
	})
	if err != nil {
		return explain.Page{}, err
	}
	return explain.PhJob(r.Facts), nil
}

// scheduleOf reads the PhSchedule that created a PhJob, if there is one.
func (r *Reader) scheduleOf(job *primehubv1alpha1.PhJob) error {
	name := job.Labels[primehubv1alpha1.ScheduledByLabel]
	if name == "" {
		return nil
	}
	schedule, err := r.clients.Muster.PrimehubV1alpha1().PhSchedules(job.Namespace).Get(r.ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		r.Facts.PhSchedule = schedule
	case apierrors.IsForbidden(err):
		r.Facts.Unread = append(r.Facts.Unread, "You may not get phschedules: nothing is said about its schedule.")
	case !apierrors.IsNotFound(err):
		return err
	}
	return nil
}

// PodGroup makes the page of a PodGroup.
func (r *Reader) PodGroup(name string) (explain.Page, error) {
	if err := r.ofGroup(name); err != nil {
		return explain.Page{}, err
	}
	return explain.PodGroup(r.Facts), nil
}

// ofGroup reads a PodGroup with what belongs to it.
func (r *Reader) ofGroup(name string) error {
	group, err := r.clients.Muster.SchedulingV1beta1().PodGroups(r.clients.Namespace).Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.Facts.Group = group
	pods, err := r.clients.Kube.CoreV1().Pods(group.Namespace).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range pods.Items {
		if usage.PodGroupOf(&pods.Items[i]) == group.Namespace+"/"+group.Name {
			r.Facts.Members = append(r.Facts.Members, pods.Items[i])
			known[pods.Items[i].Name] = true
		}
	}
	return r.cluster(func(about *corev1.ObjectReference) bool {
		return about.Kind == "PodGroup" && about.Name == group.Name || about.Kind == "Pod" && known[about.Name]
	})
}

// Pod makes the page of a pod, which may be gone.
func (r *Reader) Pod(name string) (explain.Page, error) {
	namespace := r.clients.Namespace
	pod, err := r.clients.Kube.CoreV1().Pods(namespace).Get(r.ctx, name, metav1.GetOptions{})
	own := func(about *corev1.ObjectReference) bool { return about.Kind == "Pod" && about.Name == name }
	if apierrors.IsNotFound(err) {
		if err := r.events(own); err != nil {
			return explain.Page{}, err
		}
		if len(r.Facts.Events) == 0 {
			return explain.Page{}, fmt.Errorf("%w, and no event is about it", err)
		}
		r.Facts.Now = time.Now()
		return explain.Pod(r.Facts, namespace, name, nil), nil
	}
	if err != nil {
		return explain.Page{}, err
	}
	if key := usage.PodGroupOf(pod); key != "" {
		group := strings.TrimPrefix(key, namespace+"/")
		if err := r.ofGroup(group); err != nil && !apierrors.IsNotFound(err) {
			return explain.Page{}, err
		}
	} else if err := r.cluster(own); err != nil {
		return explain.Page{}, err
	}
	r.Facts.Events = slices.DeleteFunc(r.Facts.Events, func(event corev1.Event) bool { return !own(&event.InvolvedObject) })
	r.Facts.Now = time.Now()
	return explain.Pod(r.Facts, namespace, name, pod), nil
}

// Queue makes the page of a queue.
func (r *Reader) Queue(name string) (explain.Page, error) {
	if _, err := r.clients.Muster.SchedulingV1beta1().Queues().Get(r.ctx, name, metav1.GetOptions{}); err != nil {
		return explain.Page{}, err
	}
	r.clients.Namespace = metav1.NamespaceDefault // which events of objects without a namespace are in
	if err := r.cluster(func(about *corev1.ObjectReference) bool { return about.Kind == "Queue" && about.Name == name }); err != nil {
		return explain.Page{}, err
	}
	return explain.Queue(r.Facts, name), nil
}

// cluster reads what the object waits for or among. It reads queues, PodGroups, priorities, nodes and what runs there, and the events that
// are of interest. It notes what the user may not read.
func (r *Reader) cluster(ofInterest func(*corev1.ObjectReference) bool) error {
	for _, part := range []struct {
		what string
		read func() error
	}{
		{"queues: nothing is said about quota", r.queues},
		{"podgroups of all namespaces: nothing is said about who is before it", r.groups},
		{"priorityclasses: priorities are taken as 0", r.priorities},
		{"nodes and the pods on them: nothing is said about room on nodes", r.nodes},
		{"events: little is said about what happened", func() error { return r.events(ofInterest) }},
	} {
		switch err := part.read(); {
		case apierrors.IsForbidden(err):
			r.Facts.Unread = append(r.Facts.Unread, "You may not list "+part.what+".")
		case err != nil:
			return err
		}
	}
	r.Facts.Now = time.Now()
	return nil
}

func (r *Reader) queues() error {
	queues, err := r.clients.Muster.SchedulingV1beta1().Queues().List(r.ctx, recent)
	if err == nil {
		r.Facts.Queues = queues.Items
	}
	return err
}

func (r *Reader) groups() error {
	groups, err := r.clients.Muster.SchedulingV1beta1().PodGroups(metav1.NamespaceAll).List(r.ctx, recent)
	if err == nil {
		r.Facts.Groups = groups.Items
	}
	return err
}

func (r *Reader) priorities() error {
	classes, err := r.clients.Kube.SchedulingV1().PriorityClasses().List(r.ctx, recent)
	if err != nil {
		return err
	}
	r.Facts.Priorities = map[string]int32{}
	for _, class := range classes.Items {
		r.Facts.Priorities[class.Name] = class.Value
		if class.GlobalDefault {
			r.Facts.Priorities[""] = class.Value
		}
	}
	return nil
}

// nodes reads the nodes and the pods on them. It returns none of both if one may not be read, because half of it would be wrong.
func (r *Reader) nodes() error {
	nodes, err := r.clients.Kube.CoreV1().Nodes().List(r.ctx, recent)
	if err != nil {
		return err
	}
	pods, err := r.clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(r.ctx, metav1.ListOptions{FieldSelector: running, ResourceVersion: "0"})
	if err != nil {
		return err
	}
	r.Facts.Nodes, r.Facts.Bound = nodes.Items, pods.Items
	return nil
}

func (r *Reader) events(ofInterest func(*corev1.ObjectReference) bool) error {
	events, err := r.clients.Kube.CoreV1().Events(r.clients.Namespace).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range events.Items {
		if ofInterest(&events.Items[i].InvolvedObject) {
			r.Facts.Events = append(r.Facts.Events, events.Items[i])
		}
	}
	return nil
}
