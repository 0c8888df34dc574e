package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// Reader reads what pages and tables about the cluster are made of.
type Reader struct {
	ctx     context.Context
	clients *Clients
	// eventsIn is the namespace whose events are read; "" for that of the user.
	eventsIn string
	// Facts are what has been read.
	Facts explain.Facts
}

// NewReader makes a Reader that has read nothing yet.
func NewReader(ctx context.Context, clients *Clients) *Reader {
	return &Reader{ctx: ctx, clients: clients}
}

// Cluster reads parts of the cluster: queues, PodGroups, nodes or the pods on them. It notes what the user may not read.
func (r *Reader) Cluster(parts ...explain.Part) error {
	readers := map[explain.Part]func() error{
		explain.PartQueues: r.queues, explain.PartGroups: r.groups, explain.PartNodes: r.nodes, explain.PartPods: r.bound,
	}
	wanted := make([]part, 0, len(parts))
	for _, is := range parts {
		wanted = append(wanted, part{is, readers[is]})
	}
	if err := r.read(wanted); err != nil {
		return err
	}
	if r.Facts.Lacks(explain.PartNodes, explain.PartPods) {
		r.Facts.Nodes, r.Facts.Bound = nil, nil // half of both would be wrong
	}
	return nil
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
	others := sets.New[types.UID]() // pods of an earlier Job of the same name
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.IsControlledBy(pod, job) {
			r.Facts.Members = append(r.Facts.Members, *pod)
		} else {
			others.Insert(pod.UID)
		}
	}
	return r.cluster(job.CreationTimestamp, func(about *corev1.ObjectReference) bool {
		return belongs(job, r.Facts.Group, about) && !others.Has(about.UID)
	})
}

// belongs says whether an event is about a Job, its PodGroup or one of its pods. Many of the pods are gone.
func belongs(job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup, about *corev1.ObjectReference) bool {
	switch about.Kind {
	case "Job":
		return about.UID == job.UID
	case "PodGroup":
		return group != nil && about.UID == group.UID
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
	err = r.cluster(job.CreationTimestamp, func(about *corev1.ObjectReference) bool {
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
		r.Facts.Unread = append(r.Facts.Unread, explain.PartPhSchedules)
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
	known := sets.New(group.UID)
	for i := range pods.Items {
		if admission.PodGroupOf(&pods.Items[i]) == group.Namespace+"/"+group.Name {
			r.Facts.Members = append(r.Facts.Members, pods.Items[i])
			known.Insert(pods.Items[i].UID)
		}
	}
	return r.cluster(group.CreationTimestamp, func(about *corev1.ObjectReference) bool { return known.Has(about.UID) })
}

// Pod makes the page of a pod, which may be gone.
func (r *Reader) Pod(name string) (explain.Page, error) {
	namespace := r.clients.Namespace
	pod, err := r.clients.Kube.CoreV1().Pods(namespace).Get(r.ctx, name, metav1.GetOptions{})
	own := func(about *corev1.ObjectReference) bool { return about.Kind == "Pod" && about.Name == name }
	if apierrors.IsNotFound(err) {
		if err := r.events(metav1.Time{}, own); err != nil {
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
	own = func(about *corev1.ObjectReference) bool { return about.UID == pod.UID }
	if key := admission.PodGroupOf(pod); key != "" {
		group := strings.TrimPrefix(key, namespace+"/")
		if err := r.ofGroup(group); err != nil && !apierrors.IsNotFound(err) {
			return explain.Page{}, err
		}
	} else if err := r.cluster(pod.CreationTimestamp, own); err != nil {
		return explain.Page{}, err
	}
	r.Facts.Events = slices.DeleteFunc(r.Facts.Events, func(event corev1.Event) bool { return !own(&event.InvolvedObject) })
	r.Facts.Now = time.Now()
	return explain.Pod(r.Facts, namespace, name, pod), nil
}

// Queue makes the page of a queue.
func (r *Reader) Queue(name string) (explain.Page, error) {
	queue, err := r.clients.Muster.SchedulingV1beta1().Queues().Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		return explain.Page{}, err
	}
	r.eventsIn = metav1.NamespaceDefault // which events of objects without a namespace are in
	if err := r.cluster(queue.CreationTimestamp, func(about *corev1.ObjectReference) bool { return about.UID == queue.UID }); err != nil {
		return explain.Page{}, err
	}
	return explain.Queue(r.Facts, name), nil
}

// part is what a user may not be allowed to read.
type part struct {
	is   explain.Part
	read func() error
}

// read reads some parts of the cluster, and notes what the user may not read.
func (r *Reader) read(parts []part) error {
	for _, part := range parts {
		switch err := part.read(); {
		case apierrors.IsForbidden(err):
			r.Facts.Unread = append(r.Facts.Unread, part.is)
		case err != nil:
			return err
		}
	}
	r.Facts.Now = time.Now()
	return nil
}

// cluster reads what an object waits for or among: queues, PodGroups and priorities. It reads the events about the object since it was created: an
// earlier one of the same name had others. Nodes and the pods on them are read only for a gang that waits for a domain of the network. Otherwise
// it is the scheduler who judges them.
func (r *Reader) cluster(created metav1.Time, ofInterest func(*corev1.ObjectReference) bool) error {
	parts := []part{
		{explain.PartQueues, r.queues},
		{explain.PartGroups, r.groups},
		{explain.PartPhJobs, r.phJobs},
		{explain.PartPriorities, r.priorities},
		{explain.PartEvents, func() error { return r.events(created, ofInterest) }},
	}
	if explain.WaitsForDomain(r.Facts.Group, time.Now()) {
		parts = append(parts, part{explain.PartNodes, r.nodes}, part{explain.PartPods, r.bound}, part{explain.PartTopology, r.topology})
	}
	return r.read(parts)
}

// topology reads the domains of the network.
func (r *Reader) topology() error {
	if r.Facts.Lacks(explain.PartNodes) {
		return nil
	}
	tree, err := watch.Read(r.ctx, r.clients.Muster, r.clients.Foreign, r.Facts.Nodes)
	r.Facts.Tree = tree
	return err
}

// phJobs reads the PhJobs if the order of any PodGroups depends on them.
func (r *Reader) phJobs() error {
	if !slices.ContainsFunc(r.Facts.Groups, isOfPhJob) {
		return nil
	}
	jobs, err := r.clients.Muster.PrimehubV1alpha1().PhJobs(metav1.NamespaceAll).List(r.ctx, recent)
	if err == nil {
		r.Facts.PhJobs = jobs.Items
	}
	return err
}

func isOfPhJob(group schedulingv1beta1.PodGroup) bool {
	owner := metav1.GetControllerOf(&group)
	return owner != nil && owner.Kind == "PhJob"
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
	switch {
	case err == nil:
		r.Facts.Groups = groups.Items
	case apierrors.IsForbidden(err):
		if own, err := r.clients.Muster.SchedulingV1beta1().PodGroups(r.clients.Namespace).List(r.ctx, recent); err == nil {
			r.Facts.Own = own.Items
		}
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

func (r *Reader) nodes() error {
	nodes, err := r.clients.Kube.CoreV1().Nodes().List(r.ctx, recent)
	if err == nil {
		r.Facts.Nodes = nodes.Items
	}
	return err
}

// bound reads the pods on the nodes.
func (r *Reader) bound() error {
	pods, err := r.clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(r.ctx, metav1.ListOptions{FieldSelector: running, ResourceVersion: "0"})
	if err == nil {
		r.Facts.Bound = pods.Items
	}
	return err
}

func (r *Reader) events(since metav1.Time, ofInterest func(*corev1.ObjectReference) bool) error {
	events, err := r.clients.Kube.CoreV1().Events(cmp.Or(r.eventsIn, r.clients.Namespace)).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range events.Items {
		if event := &events.Items[i]; ofInterest(&event.InvolvedObject) && !explain.TimeOf(event).Before(since.Time) {
			r.Facts.Events = append(r.Facts.Events, *event)
		}
	}
	return nil
}
