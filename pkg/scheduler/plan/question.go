package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/timeline"
)

// mostBytes is how large an object is that a StartReview asks about.
const mostBytes = 64 << 10

// question is a StartReview with its gang.
type question struct {
	review *musterv1alpha1.StartReview
	group  *gang.Group
	shares []share
	want   resources.List // of the minimum
	runs   time.Duration
	// evicts and delays are parts of the answer.
	evicts bool
	delays *musterv1alpha1.StartDelays
}

// share is a number of members that cannot be told apart.
type share struct {
	*gang.Member
	count int
}

// cluster is what the objects of StartReviews are read with.
type cluster struct {
	classValue func(class string) *int32
	queue      func(name string) *schedulingv1beta1.Queue // nil for one that does not exist
	past       *runtimes.Past
}

// priorityOf is the value of a PriorityClass, 0 if it does not exist.
func (c *cluster) priorityOf(class string) int32 { return ptr.Deref(c.classValue(class), 0) }

// takesNone says why a queue takes no Jobs, by its label.
var takesNone = map[string]string{
	schedulingv1beta1.TakesNoJobsClosed: "is closed", schedulingv1beta1.TakesNoJobsParent: "has queues below it",
}

// never is the answer for what cannot start.
func never(format string, args ...any) *musterv1alpha1.StartReviewStatus {
	return inWords(musterv1alpha1.StartsNever, "it would never start: "+fmt.Sprintf(format, args...))
}

// read makes the gang that the object of a StartReview would have. If it never starts, or the question is not answered, it says so.
func read(review *musterv1alpha1.StartReview, now time.Time, in *cluster) (*question, *musterv1alpha1.StartReviewStatus) {
	var job *batchv1alpha1.Job
	podGroup, shares := &schedulingv1beta1.PodGroup{}, []build.Share(nil)
	if len(review.Spec.PodGroup.Raw) > 0 {
		if status := decode(review, "PodGroup", review.Spec.PodGroup.Raw, podGroup); status != nil {
			return nil, status
		}
		podGroup.Status, podGroup.Spec.Queue = schedulingv1beta1.PodGroupStatus{}, cmp.Or(podGroup.Spec.Queue, schedulingv1beta1.DefaultQueue)
		if podGroup.Spec.MinResources == nil {
			return nil, inWords(musterv1alpha1.StartRefused, "the PodGroup does not say what its pods ask for: set spec.podGroup.spec.minResources")
		}
		shares = []build.Share{evenShare(podGroup, in.priorityOf(podGroup.Spec.PriorityClassName))}
	} else {
		stored := &batchv1alpha1.Job{}
		if status := decode(review, "Job", review.Spec.Job.Raw, stored); status != nil {
			return nil, status
		}
		stored.Status = batchv1alpha1.JobStatus{}
		job = defaults.Job(stored, "")
		if errs := validation.Job(job); len(errs) > 0 {
			return nil, never("%v", errs.ToAggregate())
		}
		podGroup = build.PodGroup(build.FirstStage(job), in.priorityOf, build.Additions{})
		shares = build.Minimum(job, in.priorityOf)
	}
	queue := in.queue(podGroup.Spec.Queue)
	if queue == nil {
		return nil, never("queue %s does not exist: name another queue", podGroup.Spec.Queue)
	}
	if why := takesNone[queue.Labels[schedulingv1beta1.TakesNoJobsLabel]]; why != "" {
		return nil, never("queue %s %s: name another queue", queue.Name, why)
	}
	podGroup.UID = review.UID
	a := questionOf(review, podGroup, shares, now)
	a.runs = in.past.Find(runtimes.FactsOf(podGroup, job, queue, a.pods())).For.Round(time.Millisecond)
	return a, nil
}

// decode reads the object of a StartReview, and gives it the place that it would have.
func decode(review *musterv1alpha1.StartReview, kind string, raw []byte, object metav1.Object) *musterv1alpha1.StartReviewStatus {
	if n := len(raw); n > mostBytes {
		return inWords(musterv1alpha1.StartRefused, fmt.Sprintf("the %s has %d KiB, and at most %d are answered: leave out scripts and data", kind, n>>10, mostBytes>>10))
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
	requests := evenly(resources.FromResourceList(*group.Spec.MinResources), count).ToResourceList()
	return build.Share{Count: count, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}}
}

// questionOf is a question about a gang that can run.
func questionOf(review *musterv1alpha1.StartReview, podGroup *schedulingv1beta1.PodGroup, shares []build.Share, now time.Time) *question {
	a := &question{review: review, group: &gang.Group{Key: state.Key{Namespace: podGroup.Namespace, Name: podGroup.Name}, Seen: math.MaxInt64}, want: resources.List{}}
	a.group.PodGroup.Created = now
	a.group.Take(podGroup, quota.Account(podGroup.Spec.Queue, podGroup.Labels[schedulingv1beta1.UserLabel]))
	a.group.PodGroup.Account = a.group.Account()
	for i, of := range shares {
		of.Pod.UID = types.UID(strconv.Itoa(i))
		of.Pod.Annotations[schedulingv1beta1.QueueNameAnnotation] = podGroup.Spec.Queue // the tracker knows no gang of it
		m := gang.MemberOf(of.Pod, resources.PodRequests(of.Pod))
		a.group.Put(m)
		a.shares = append(a.shares, share{m, of.Count})
		a.want.Add(m.Requests.Scale(int64(of.Count)))
	}
	return a
}

// pods has one pod of each share.
func (a *question) pods() (pods []*corev1.Pod) {
	for _, of := range a.shares {
		pods = append(pods, of.Pod)
	}
	return pods
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
		status.Answer, status.Message, status.Delays = musterv1alpha1.StartsNow, "it would start at once", w.asked.delays
	default:
		status.Answer, status.Delays = musterv1alpha1.StartsLater, w.asked.delays
	}
	status.Evicts = w.asked.evicts && (status.Answer == musterv1alpha1.StartsLater || status.Answer == musterv1alpha1.StartUnknown)
	nodes := map[int]bool{}
	for _, place := range start.Places {
		nodes[place.Node] = true
	}
	status.NodeCount = int32(len(nodes))
	return status
}

// foresee finds what the gangs of StartReviews would do to others. It looks for delays no longer than mostLooking.
func (r *Room) foresee(s *Snapshot, starts []timeline.Start, asks []*question) {
	begun, claims := r.clock.Now(), make([]quota.Claim, len(asks))
	for i, a := range asks {
		claims[i] = quota.Claim{Queue: a.group.PodGroup.Account, Want: a.want}
	}
	for i, may := range r.tracker.Quota.MayReclaim(claims) {
		asks[i].evicts = may && r.tracker.Victims.Enabled
	}
	for i := range s.Waiting {
		w := &s.Waiting[i]
		if w.asked == nil || r.clock.Since(begun) > mostLooking {
			continue
		}
		var later []Owner
		for _, g := range timeline.Delays(&s.Cluster, starts, i) {
			later = append(later, s.Waiting[g].owner())
		}
		w.asked.delays = &musterv1alpha1.StartDelays{}
		w.asked.delays.Names, w.asked.delays.Others = mention(w.Key.Namespace, later)
	}
}
