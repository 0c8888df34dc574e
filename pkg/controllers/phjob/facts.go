package phjob

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/admission"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/phjob"
)

// sight is what a look at a PhJob shows: the facts, and what is needed to act on them.
type sight struct {
	phjob.Facts
	// group is the PodGroup of this try; nil if there is none.
	group *schedulingv1beta1.PodGroup
	// wanted is the PodGroup that there should be; nil if no pod can be made of the PhJob.
	wanted *schedulingv1beta1.PodGroup
	// order is what the pod is made of; nil if no pod can be made.
	order *phjob.Order
}

// look gathers the facts about a PhJob.
func (c *Controller) look(ctx context.Context, job *primehubv1alpha1.PhJob) (*sight, error) {
	s := &sight{Facts: phjob.Facts{Job: job, Config: c.settings, Now: c.clock.Now()}}
	for _, group := range c.groupsOf(job) {
		if group.Name == phjob.PodGroupName(job) && group.DeletionTimestamp == nil {
			s.group = group
		}
	}
	if s.group != nil {
		s.Admitted = s.group.Status.Phase.Admitted()
		s.Shortage = shortageOf(s.group)
		if plan := s.group.Status.Plan; plan != nil && plan.ExpectedStart != nil {
			s.ExpectedStart = plan.ExpectedStart.At.DeepCopy()
		}
	}
	s.Pod = podOfTry(job, c.podsOf(job))
	s.NodeLost = c.isOnLostNode(s.Pod)
	switch {
	case s.Pod != nil:
		return s, nil
	case job.Status.Phase == primehubv1alpha1.PhJobRunning:
		return s, c.confirmLoss(ctx, job)
	}
	return s, c.lookForPresets(ctx, s)
}

// confirmLoss asks the API server whether the pod of a PhJob that runs is gone. It is an error if it is not, or if that is not known.
func (c *Controller) confirmLoss(ctx context.Context, job *primehubv1alpha1.PhJob) error {
	pod, err := c.kube.CoreV1().Pods(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(pod, job):
		return nil
	case err != nil:
		return fmt.Errorf("asking for the pod: %w", err)
	}
	return errors.New("the informer does not show the pod yet")
}

// lookForPresets finds what the PhJob names. Before it is refused for good the API server is asked, as informers may be behind it.
func (c *Controller) lookForPresets(ctx context.Context, s *sight) error {
	if s.refuse(c.resolve(s, c.cached(s.Job))); s.Refused == nil {
		return nil
	}
	asked, err := c.asked(ctx, s.Job)
	if err != nil {
		return err
	}
	s.Refused = nil
	err = c.resolve(s, asked)
	if failed := (*askFailed)(nil); errors.As(err, &failed) {
		return failed.error
	}
	s.refuse(err)
	return nil
}

// errAboveQuota says that a PhJob asks for more than a whole quota.
var errAboveQuota = errors.New("above a whole quota")

func (s *sight) refuse(err error) {
	switch {
	case errors.Is(err, errAboveQuota):
		s.Refused = phjob.AboveQuota()
	case err != nil:
		s.Refused = phjob.CannotCreate(err)
	}
}

// source is where the objects that a PhJob names are looked up.
type source struct {
	queues       []*schedulingv1beta1.Queue // candidates for its group
	queue        func(name string) *schedulingv1beta1.Queue
	books        *ledger.Ledger
	image        func(namespace, name string) (*primehubv1alpha1.Image, error)
	instanceType func(namespace, name string) (*primehubv1alpha1.InstanceType, error)
}

// cached looks objects up in the informers.
func (c *Controller) cached(job *primehubv1alpha1.PhJob) source {
	return source{
		queues: queuesFor(c.queueIndex, &job.Spec), books: c.usage.Ledger(),
		queue: func(name string) *schedulingv1beta1.Queue { return queueNamed(c.queueIndex, name) },
		image: func(namespace, name string) (*primehubv1alpha1.Image, error) {
			return c.images.Images(namespace).Get(name)
		},
		instanceType: func(namespace, name string) (*primehubv1alpha1.InstanceType, error) {
			return c.instanceTypes.InstanceTypes(namespace).Get(name)
		},
	}
}

// asked looks objects up in the API server.
func (c *Controller) asked(ctx context.Context, job *primehubv1alpha1.PhJob) (source, error) {
	answer, err := c.asker.ask(ctx, job.ResourceVersion, c.clock.Now())
	if err != nil {
		return source{}, err
	}
	return source{
		queues: answer.queues, queue: answer.queue, books: answer.books,
		image: func(namespace, name string) (*primehubv1alpha1.Image, error) {
			return c.muster.PrimehubV1alpha1().Images(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		instanceType: func(namespace, name string) (*primehubv1alpha1.InstanceType, error) {
			return c.muster.PrimehubV1alpha1().InstanceTypes(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}, nil
}

// askFailed says that it is not known whether an object exists.
type askFailed struct{ error }

// resolve finds what the PhJob names, and fills in what its PodGroup and its pod are made of.
func (c *Controller) resolve(s *sight, from source) error {
	spec := &s.Job.Spec
	if err := phjob.Validate(spec); err != nil {
		return err
	}
	queue, err := from.queueOf(s)
	if err != nil {
		return err
	}
	order := &phjob.Order{Config: c.settings, SchedulerName: c.schedulerName}
	if order.Group, err = phjob.GroupOf(queue); err != nil {
		return err
	}
	if order.Image, err = from.image(s.Job.Namespace, spec.Image); err != nil {
		return lookupFailed("Image", spec.Image, err)
	}
	if !phjob.IsImageOffered(order.Image, spec.GroupName) {
		return notOffered("Image", spec.Image, spec.GroupName)
	}
	if order.InstanceType, err = from.instanceType(s.Job.Namespace, spec.InstanceType); err != nil {
		return lookupFailed("InstanceType", spec.InstanceType, err)
	}
	if !phjob.IsOffered(order.InstanceType, spec.GroupName) {
		return notOffered("InstanceType", spec.InstanceType, spec.GroupName)
	}
	limits, err := phjob.Limits(order.InstanceType)
	if err != nil {
		return err
	}
	if _, err := phjob.Pod(s.Job, order); err != nil {
		return err
	}
	s.order, s.wanted = order, phjob.PodGroup(s.Job, queue.Name, limits)
	if from.books.Exceeds(admission.AccountOf(s.wanted), admission.MinimumOf(s.wanted)) {
		return errAboveQuota
	}
	return nil
}

func notOffered(kind, name, group string) error {
	return fmt.Errorf("%s not found: %s is not offered to group %s", kind, name, group)
}

func lookupFailed(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found: %s", kind, name)
	}
	return &askFailed{fmt.Errorf("asking for %s %s: %w", kind, name, err)}
}

// shortageOf says what quota a PodGroup waits for; "" if that is not known.
func shortageOf(group *schedulingv1beta1.PodGroup) string {
	for _, condition := range group.Status.Conditions {
		if condition.Type == schedulingv1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return condition.Message
		}
	}
	return ""
}

// groupsOf are the PodGroups that a PhJob controls.
func (c *Controller) groupsOf(job *primehubv1alpha1.PhJob) []*schedulingv1beta1.PodGroup {
	found, _ := c.groupIndex.ByIndex(byOwner, string(job.UID)) // fails only for an unknown index
	groups := make([]*schedulingv1beta1.PodGroup, 0, len(found))
	for _, obj := range found {
		groups = append(groups, obj.(*schedulingv1beta1.PodGroup))
	}
	return groups
}

// podsOf are the pods that a PhJob controls.
func (c *Controller) podsOf(job *primehubv1alpha1.PhJob) []*corev1.Pod {
	found, _ := c.podIndex.ByIndex(byOwner, string(job.UID)) // fails only for an unknown index
	pods := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return pods
}

// podOfTry is the pod of the try that a PhJob is at; nil if there is none.
func podOfTry(job *primehubv1alpha1.PhJob, pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		if isOfTry(job, pod) {
			return pod
		}
	}
	return nil
}

func isOfTry(job *primehubv1alpha1.PhJob, pod *corev1.Pod) bool {
	return pod.Name == job.Name && pod.Annotations[schedulingv1beta1.GroupNameAnnotation] == phjob.PodGroupName(job)
}
