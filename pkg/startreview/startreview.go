// Package startreview reads what a StartReview asks: it makes the gang that its Job or its PodGroup would have. It is pure.
package startreview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/validation"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/runtimes"
	"github.com/muster-sched/muster/pkg/text"
)

const (
	// mostBytes is how large an object is that a StartReview asks about.
	mostBytes = 64 << 10
	// mostTasks is how many tasks its Job has. The API server refuses a Job with more.
	mostTasks = 100
)

// Question is a StartReview with its gang.
type Question struct {
	// Review that asks.
	Review *musterv1alpha1.StartReview
	// Group has a member of each share.
	Group *gang.Group
	// Shares of the minimum.
	Shares []Share
	// Want is what the minimum asks for.
	Want resources.List
	// Runs is how long it is expected to run, 0 if that is not known.
	Runs time.Duration
}

// Share is a number of members that cannot be told apart.
type Share struct {
	// Member stands for all.
	*gang.Member
	// Count of members.
	Count int
}

// Cluster is what the objects of StartReviews are read with.
type Cluster struct {
	// ClassValue is the value of a PriorityClass, nil if it does not exist.
	ClassValue func(class string) *int32
	// Queue is nil for one that does not exist.
	Queue func(name string) *schedulingv1beta1.Queue
	// Past runs.
	Past *runtimes.Past
}

// PriorityOf is the value of a PriorityClass, 0 if it does not exist.
func (c *Cluster) PriorityOf(class string) int32 { return ptr.Deref(c.ClassValue(class), 0) }

// takesNone says why a queue takes no Jobs, by its label.
var takesNone = map[string]string{
	schedulingv1beta1.TakesNoJobsClosed: "is closed", schedulingv1beta1.TakesNoJobsParent: "has queues below it",
}

// never is the answer for what cannot start.
func never(format string, args ...any) *musterv1alpha1.StartReviewStatus {
	return InWords(musterv1alpha1.StartsNever, "it would never start: "+fmt.Sprintf(format, args...))
}

// Read makes the gang that the object of a StartReview would have. If it never starts, or the question is not answered, it says so.
func Read(review *musterv1alpha1.StartReview, now time.Time, in *Cluster) (*Question, *musterv1alpha1.StartReviewStatus) {
	var job *batchv1alpha1.Job
	var shares []build.Share
	podGroup := &schedulingv1beta1.PodGroup{}
	if len(review.Spec.PodGroup.Raw) > 0 {
		if status := decode(review, "PodGroup", review.Spec.PodGroup.Raw, podGroup); status != nil {
			return nil, status
		}
		podGroup.Status, podGroup.Spec.Queue = schedulingv1beta1.PodGroupStatus{}, cmp.Or(podGroup.Spec.Queue, schedulingv1beta1.DefaultQueue)
		if podGroup.Spec.MinResources == nil {
			return nil, InWords(musterv1alpha1.StartRefused, "the PodGroup does not say what its pods ask for: set spec.podGroup.spec.minResources")
		}
		shares = []build.Share{evenShare(podGroup, in.PriorityOf(podGroup.Spec.PriorityClassName))}
	} else {
		stored := &batchv1alpha1.Job{}
		if status := decode(review, "Job", review.Spec.Job.Raw, stored); status != nil {
			return nil, status
		}
		if n := len(stored.Spec.Tasks); n > mostTasks {
			return nil, never("spec.tasks: Too many: %d: must have at most %d items", n, mostTasks)
		}
		stored.Status = batchv1alpha1.JobStatus{}
		job = defaults.Job(stored, "")
		if errs := validation.Job(job); len(errs) > 0 {
			return nil, never("%v", errs.ToAggregate())
		}
		podGroup = build.PodGroup(build.FirstStage(job), in.PriorityOf, build.Additions{})
		shares = build.Minimum(job, in.PriorityOf)
	}
	queue := in.Queue(podGroup.Spec.Queue)
	if queue == nil {
		return nil, never("queue %s does not exist: name another queue", podGroup.Spec.Queue)
	}
	if why := takesNone[queue.Labels[schedulingv1beta1.TakesNoJobsLabel]]; why != "" {
		return nil, never("queue %s %s: name another queue", queue.Name, why)
	}
	podGroup.UID = review.UID
	a := questionOf(review, podGroup, shares, now)
	a.Runs = in.Past.Find(runtimes.FactsOf(podGroup, job, queue, a.pods())).For.Round(time.Millisecond)
	return a, nil
}

// decode reads the object of a StartReview, and gives it the place that it would have.
func decode(review *musterv1alpha1.StartReview, kind string, raw []byte, object metav1.Object) *musterv1alpha1.StartReviewStatus {
	if n := len(raw); n > mostBytes {
		return InWords(musterv1alpha1.StartRefused, fmt.Sprintf("the %s has %d KiB, and at most %d are answered: leave out scripts and data", kind, n>>10, mostBytes>>10))
	}
	if err := json.Unmarshal(raw, object); err != nil {
		return never("it is no %s: %v", kind, err)
	}
	if of := object.GetNamespace(); of != "" && of != review.Namespace {
		return never("the %s is for namespace %s: create the StartReview there", kind, of)
	}
	object.SetNamespace(review.Namespace)
	object.SetName(cmp.Or(object.GetName(), review.Name))
	object.SetUID(review.UID)
	return nil
}

// evenShare are the pods of a PodGroup that do not exist yet.
func evenShare(group *schedulingv1beta1.PodGroup, priority int32) build.Share {
	count := max(1, int(group.Spec.Minimum()))
	requests := resources.Evenly(resources.FromResourceList(*group.Spec.MinResources), count).ToResourceList()
	return build.Share{Count: count, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}}
}

// questionOf is a question about a gang that can run.
func questionOf(review *musterv1alpha1.StartReview, podGroup *schedulingv1beta1.PodGroup, shares []build.Share, now time.Time) *Question {
	a := &Question{Review: review, Group: &gang.Group{Key: gang.Key{Namespace: podGroup.Namespace, Name: podGroup.Name}, Seen: math.MaxInt64}, Want: resources.List{}}
	a.Group.PodGroup.Created = now
	a.Group.Take(podGroup, quota.Account(podGroup.Spec.Queue, podGroup.Labels[schedulingv1beta1.UserLabel]))
	a.Group.PodGroup.Account = a.Group.Account()
	for i, of := range shares {
		of.Pod.UID = types.UID(strconv.Itoa(i))
		of.Pod.Annotations[schedulingv1beta1.QueueNameAnnotation] = podGroup.Spec.Queue // the tracker knows no gang of it
		m := gang.MemberOf(of.Pod, resources.PodRequests(of.Pod))
		a.Group.Put(m)
		a.Shares = append(a.Shares, Share{m, of.Count})
		a.Want.Add(m.Requests.Scale(int64(of.Count)))
	}
	return a
}

// pods has one pod of each share.
func (a *Question) pods() (pods []*corev1.Pod) {
	for _, of := range a.Shares {
		pods = append(pods, of.Pod)
	}
	return pods
}

// InWords is an answer without a plan.
func InWords(answer musterv1alpha1.StartAnswer, message string) *musterv1alpha1.StartReviewStatus {
	return &musterv1alpha1.StartReviewStatus{Answer: answer, Message: text.Cut(message, text.MaxMessage)}
}
