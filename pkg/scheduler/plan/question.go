package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/timeline"
)

// mostBytes is how large a Job is that a StartReview asks about.
const mostBytes = 64 << 10

// question is a StartReview with the gang of its Job.
type question struct {
	review *musterv1alpha1.StartReview
	group  *gang.Group
	shares []share
	want   resources.List // of the minimum
	runs   time.Duration
}

// share is a number of members that cannot be told apart.
type share struct {
	*gang.Member
	count int
}

// cluster is what the Jobs of StartReviews are read with.
type cluster struct {
	classValue func(class string) *int32
	queue      func(name string) *schedulingv1beta1.Queue // nil for one that does not exist
	past       *runtimes.Past
}

// takesNone says why a queue takes no Jobs, by its label.
var takesNone = map[string]string{
	schedulingv1beta1.TakesNoJobsClosed: "is closed", schedulingv1beta1.TakesNoJobsParent: "has queues below it",
}

// read makes the gang that the Job of a StartReview would have. If it never starts, or the question is not answered, it says so.
func read(review *musterv1alpha1.StartReview, now time.Time, in *cluster) (*question, *musterv1alpha1.StartReviewStatus) {
	never := func(format string, args ...any) *musterv1alpha1.StartReviewStatus {
		return inWords(musterv1alpha1.StartsNever, "it would never start: "+fmt.Sprintf(format, args...))
	}
	if n := len(review.Spec.Job.Raw); n > mostBytes {
		return nil, inWords(musterv1alpha1.StartRefused, fmt.Sprintf("the Job has %d KiB, and at most %d are answered: leave out scripts and data", n>>10, mostBytes>>10))
	}
	stored := &batchv1alpha1.Job{}
	if err := json.Unmarshal(review.Spec.Job.Raw, stored); err != nil {
		return nil, never("spec.job is no Job: %v", err)
	}
	if stored.Namespace != "" && stored.Namespace != review.Namespace {
		return nil, never("the Job is for namespace %s: create the StartReview there", stored.Namespace)
	}
	stored.Namespace, stored.UID, stored.Status = review.Namespace, review.UID, batchv1alpha1.JobStatus{}
	if stored.Name == "" {
		stored.Name = review.Name
	}
	job := defaults.Job(stored, "")
	if errs := validation.Job(job); len(errs) > 0 {
		return nil, never("%v", errs.ToAggregate())
	}
	queue := in.queue(job.Spec.Queue)
	if queue == nil {
		return nil, never("queue %s does not exist: name another queue", job.Spec.Queue)
	}
	if why := takesNone[queue.Labels[schedulingv1beta1.TakesNoJobsLabel]]; why != "" {
		return nil, never("queue %s %s: name another queue", queue.Name, why)
	}
	return gangOfJob(review, job, queue, now, in), nil
}

// gangOfJob is the gang of a Job that can run.
func gangOfJob(review *musterv1alpha1.StartReview, job *batchv1alpha1.Job, queue *schedulingv1beta1.Queue, now time.Time, in *cluster) *question {
	priorityOf := func(class string) int32 {
		if value := in.classValue(class); value != nil {
			return *value
		}
		return 0
	}
	podGroup := build.PodGroup(build.FirstStage(job), priorityOf, build.Additions{})
	podGroup.UID = review.UID
	a := &question{review: review, group: &gang.Group{Key: state.Key{Namespace: job.Namespace, Name: podGroup.Name}, Seen: math.MaxInt64}, want: resources.List{}}
	a.group.PodGroup.Created = now
	a.group.Take(podGroup, quota.Account(podGroup.Spec.Queue, podGroup.Labels[schedulingv1beta1.UserLabel]))
	a.group.PodGroup.Account = a.group.Account()
	var pods []*corev1.Pod
	for i, of := range build.Minimum(job, priorityOf) {
		of.Pod.UID = types.UID(strconv.Itoa(i))
		of.Pod.Annotations[schedulingv1beta1.QueueNameAnnotation] = job.Spec.Queue // the tracker knows no gang of it
		m := gang.MemberOf(of.Pod, resources.PodRequests(of.Pod))
		a.group.Put(m)
		a.shares, pods = append(a.shares, share{m, of.Count}), append(pods, of.Pod)
		a.want.Add(m.Requests.Scale(int64(of.Count)))
	}
	a.runs = in.past.Find(runtimes.FactsOf(podGroup, job, queue, pods)).For.Round(time.Millisecond)
	return a
}

// insert adds the gangs of StartReviews to the waiting gangs, sorted by rank, and sets the positions of all. If the plan leaves out waiting gangs,
// a gang that ranks after the last planned one is left out, too. The caller holds the lock.
func (s *survey) insert(waiting []Waiting, asks []*question, hasAll bool) []Waiting {
	last := len(waiting) - 1
	for _, a := range asks {
		of := &a.group.PodGroup
		w := Waiting{Key: a.group.Key, UID: of.UID, Queue: quota.QueueOf(of.Account), Created: of.Created, rank: s.tracker.Rank(a.group), runs: a.runs, account: of.Account, asked: a}
		if hasAll || w.rank.Compare(waiting[last].rank) < 0 {
			waiting = append(waiting, w)
		}
	}
	slices.SortStableFunc(waiting, func(a, b Waiting) int { return a.rank.Compare(b.rank) })
	position := int32(1)
	for i := range waiting {
		if waiting[i].position = position; waiting[i].asked == nil {
			position++
		}
	}
	return waiting
}

// needs are the needs of a StartReview. Its kinds are of its own, so that no other gang is planned with them.
func (b *builder) needs(a *question) (needs []timeline.Need) {
	for _, of := range a.shares {
		needs = append(needs, timeline.Need{Kind: b.kindOf(of.Member, "asked "), Count: of.count})
	}
	return needs
}

// answer is what a plan says of the gang of a StartReview.
func (s *Snapshot) answer(i int, start *timeline.Start, past *ratios, quotaFor func(account string, want resources.List) *quota.Shortage) *musterv1alpha1.StartReviewStatus {
	w := &s.Waiting[i]
	status := &musterv1alpha1.StartReviewStatus{Answer: musterv1alpha1.StartUnknown, Plan: s.planOf(i, start, past)}
	status.Message = status.Plan.Message
	if w.asked.runs > 0 {
		status.Runtime = w.asked.runs.String()
	}
	switch {
	case start.Why == timeline.TooLarge:
		status.Answer, status.Message = musterv1alpha1.StartsNever, "it would never start: no nodes that take its pods have room for its minimum, even if they are empty"
		if shortage := quotaFor(w.account, w.asked.want); shortage != nil && shortage.IsForEver() {
			status.Message = "it would never start: its minimum " + shortage.Error()
		}
	case start.Why != timeline.Known:
	case start.At.Sub(s.Cluster.Now) < shortSleep:
		status.Answer, status.Message = musterv1alpha1.StartsNow, "it would start at once"
	default:
		status.Answer = musterv1alpha1.StartsLater
	}
	nodes := map[int]bool{}
	for _, place := range start.Places {
		nodes[place.Node] = true
	}
	status.NodeCount = int32(len(nodes))
	return status
}
