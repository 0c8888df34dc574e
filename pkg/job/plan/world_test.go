package plan

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// world is a Job and its pods, without an API server: every plan is carried out at once.
type world struct {
	t    require.TestingT
	job  *batchv1alpha1.Job
	pods map[string]*corev1.Pod // by name
	// podTracker of the controller. It hears of changes of pods at once.
	podTracker ended.Tracker
	now        time.Time
	uids       int
	ran        map[string]int // pod name -> how many pods of that name were created
	// command that the next look finds; nil if there is none.
	command *busv1alpha1.Command
	// refused says that the spec is one that cannot run.
	refused bool
	// unwritten is what a status that waits to be written remembers; nil if none does.
	unwritten *Unwritten
	// restartBackoff is the first pause between restarts; 0 if there is none.
	restartBackoff time.Duration
	// lists of indexes that this look has read.
	lists map[string]map[int32]bool
}

// dies has another controller go on, which knows what the status says and sees what is there.
func (w *world) dies() {
	w.podTracker, w.unwritten = ended.Tracker{}, nil
	for _, pod := range w.pods {
		w.podTracker.Came(w.job.UID, pod)
	}
	w.podTracker.Open()
}

func newWorld(t require.TestingT, job *batchv1alpha1.Job) *world {
	job.UID = "job-uid"
	w := &world{t: t, job: job, pods: map[string]*corev1.Pod{}, now: time.Unix(1000, 0), ran: map[string]int{}}
	w.podTracker.Open()
	return w
}

// crash says where a look at the Job ends early, as when the API server is away. How pods ended that are gone is still known, unless
// the controller dies.
type crash int

const (
	noCrash        crash = iota
	beforeWrite          // nothing of it is left
	beforeActing         // the status is written, nothing is done
	whileActing          // half of the pods are deleted, or half created
	statusDeferred       // no crash: a status that may follow what is done is not written yet
	statusPaced          // no crash: the last status was written so lately that one which must come first, and can wait, does
)

// look takes one look at the Job: make a plan, write its status, delete and create. Deleted pods stay until they are reaped.
func (w *world) look() *Plan { return w.lookAndCrash(noCrash) }

func (w *world) lookAndCrash(at crash) *Plan {
	w.lists = map[string]map[int32]bool{}
	filled := defaults.Job(w.job, "")
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		pods = append(pods, pod)
	}
	ends, _ := w.podTracker.Look(w.job.UID, pods)
	mark := SpecMark(filled)
	if w.refused {
		filled = withRoomForAll(filled, pods, ends)
	}
	w.unwritten.addTo(&filled.Status)
	w.unwritten = nil
	told := RecordsEnds(w.job)
	s := &Snapshot{Job: filled, Pods: pods, Ended: ends, Command: w.command, SpecMark: mark, Now: w.now, RestartBackoff: w.restartBackoff}
	if w.refused {
		s.Block(&Finding{}, BlocksRestarts, WhileLive)
	}
	result := newPlan(s)
	if first := firstStatus(&Snapshot{Job: filled, Now: w.now}, result); first != nil {
		if at != beforeWrite {
			w.job.Status = *first
		}
		return result
	}
	requireConsistent(w.t, filled, result)
	w.requireBackoff(filled.Status.RestartBackoff, result.Status)
	if at == beforeWrite {
		return result
	}
	when := TimingOf(s, &w.job.Status, result)
	if at == statusPaced && when.BeforeActing && when.Interval != NoInterval {
		w.unwritten = NewUnwritten(w.job.Status.DeepCopy(), result.Status)
		return result
	}
	if at == statusDeferred && !when.BeforeActing {
		w.unwritten = NewUnwritten(w.job.Status.DeepCopy(), result.Status)
	} else {
		w.job.Status = *result.Status.DeepCopy()
		if told {
			w.podTracker.Drop(w.job.UID, ends)
		}
	}
	w.requireDelayed(filled, result)
	if at == beforeActing {
		return result
	}
	victims := result.Members.Victims()
	for _, pod := range victims {
		require.True(w.t, w.isToGo(pod), "%s is deleted, and the status that is stored does not say so", pod.Name)
	}
	wanted := result.Members.Missing(filled.Name, result.Stage, make([]int32, len(filled.Spec.Tasks)), nil)
	if at == whileActing {
		victims, wanted = victims[:len(victims)/2], wanted[:len(wanted)/2]
	}
	for _, pod := range victims {
		w.askToGo(pod.Name)
	}
	if !w.refused && !IsDeleted(w.job) && !w.now.Before(untilOf(result.Status.RestartBackoff)) && phase.Runs(result.Status.State.Phase) && (at != whileActing || len(victims) == 0) {
		filled.Status = *result.Status
		for _, m := range wanted {
			pod := build.Pod(filled, &filled.Spec.Tasks[m.Task], m.Index)
			require.False(w.t, w.isToGo(pod), "%s is created, and is to go", pod.Name)
			w.create(pod)
		}
	}
	return result
}

// untilOf returns when pods are created again; the zero time if they are.
func untilOf(b *batchv1alpha1.RestartBackoff) time.Time {
	if b == nil || b.Until == nil {
		return time.Time{}
	}
	return b.Until.Time
}

// requireBackoff checks that at most one restart counts in a pause. Pauses never shrink while the back-off is not reset, and none is longer
// than the longest.
func (w *world) requireBackoff(before *batchv1alpha1.RestartBackoff, status *batchv1alpha1.JobStatus) {
	after := status.RestartBackoff
	if after == nil {
		return
	}
	require.Positive(w.t, w.restartBackoff)
	require.LessOrEqual(w.t, after.Generation, status.PodGeneration)
	require.LessOrEqual(w.t, untilOf(after).Sub(w.now), 60*w.restartBackoff+time.Second)
	if before == nil || after.Count == 1 {
		require.Equal(w.t, int32(1), after.Count)
		require.Nil(w.t, after.Until, "the first restart does not wait")
		return
	}
	if after.Count == before.Count {
		require.Equal(w.t, before, after)
		return
	}
	require.Equal(w.t, before.Count+1, after.Count)
	require.False(w.t, w.now.Before(untilOf(before)), "a restart counts in a pause")
	pause := after.Until.Sub(w.now)
	require.GreaterOrEqual(w.t, pause, w.restartBackoff)
	if before.Until != nil {
		require.GreaterOrEqual(w.t, pause+time.Second, before.Until.Sub(before.Last.Time))
	}
	require.Contains(w.t, []batchv1alpha1.JobPhase{batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running}, status.State.Phase)
}

// isToGo tells whether the stored status and the spec say that a pod is to go. It reads them by itself.
func (w *world) isToGo(pod *corev1.Pod) bool {
	status := &w.job.Status
	p := status.State.Phase
	if pod.Annotations[batchv1alpha1.JobVersionKey] != fmt.Sprint(status.Version) || phase.KeepsOnlyFinished(p) ||
		p == batchv1alpha1.Restarting && status.RetryCount >= w.job.Spec.MaxRetry {
		return true
	}
	var index, generation int32
	fmt.Sscan(pod.Annotations[batchv1alpha1.TaskIndexKey], &index)
	fmt.Sscan(pod.Annotations[batchv1alpha1.PodGenerationAnnotation], &generation)
	if index >= max(batchv1alpha1.MaxReplicas, w.replicas(pod.Annotations[batchv1alpha1.TaskSpecKey])) {
		return true // the spec says so, now and later
	}
	for _, record := range status.TaskRecords {
		for _, replaced := range record.Replaced {
			if record.Name == pod.Annotations[batchv1alpha1.TaskSpecKey] && generation <= replaced.Generation && w.listsIndex(replaced.Indexes, index) {
				return true
			}
		}
	}
	return false
}

// replicas of the task of that name; 0 if there is none.
func (w *world) replicas(task string) int32 {
	for i := range w.job.Spec.Tasks {
		if w.job.Spec.Tasks[i].Name == task {
			return w.job.Spec.Tasks[i].Replicas
		}
	}
	return 0
}

// askToGo deletes a pod: it stays until it is reaped. As from the API server it has time to end in, if it has not ended yet.
func (w *world) askToGo(name string) {
	gone := w.pods[name].DeepCopy()
	if gone.DeletionTimestamp == nil {
		grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
		if policy.IsFinished(gone) {
			grace = 0
		}
		gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &metav1.Time{Time: w.now}, &grace
	}
	w.podTracker.Changed(w.job.UID, w.pods[name], gone)
	w.pods[name] = gone
}

// names of the pods that fit, in order.
func (w *world) names(fits func(*corev1.Pod) bool) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if fits(w.pods[name]) {
			found = append(found, name)
		}
	}
	return found
}

// edit changes the spec as a user, or the controller, does.
func (w *world) edit(change func(*batchv1alpha1.JobSpec)) {
	change(&w.job.Spec)
	w.job.Generation++
}

func (w *world) create(pod *corev1.Pod) {
	_, taken := w.pods[pod.Name] // NotContains would look at all pods
	require.False(w.t, taken, "a pod of the name %s is still there", pod.Name)
	w.uids++
	pod.UID = types.UID(fmt.Sprintf("uid-%d", w.uids))
	pod.CreationTimestamp = metav1.NewTime(w.now.Truncate(time.Second))
	pod.Status.Phase = corev1.PodPending
	w.pods[pod.Name] = pod
	w.podTracker.Came(w.job.UID, pod)
	w.ran[pod.Name]++
}

// settle looks until nothing changes any more.
func (w *world) settle() {
	for range 20 {
		before := w.job.Status.DeepCopy()
		count := len(w.pods)
		w.look()
		if assert.ObjectsAreEqual(before, &w.job.Status) && count == len(w.pods) {
			return
		}
	}
	require.Fail(w.t, "the Job does not come to rest", "%+v", w.job.Status)
}

func (w *world) set(name string, p corev1.PodPhase, exitCode int32) {
	require.NotNil(w.t, w.pods[name], "there is no pod %s", name)
	pod := w.pods[name].DeepCopy()
	pod.Status.Phase = p
	if policy.IsFinished(pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, FinishedAt: metav1.NewTime(w.now)}}}}
	}
	w.pods[name] = pod
}

func (w *world) runAll() {
	for name, pod := range w.pods {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.set(name, corev1.PodRunning, 0)
		}
	}
}

func (w *world) succeedAll() {
	for name := range w.pods {
		w.set(name, corev1.PodSucceeded, 0)
	}
}

// reap removes the pods that are being deleted.
func (w *world) reap() {
	for name, pod := range w.pods {
		if pod.DeletionTimestamp != nil {
			w.remove(name)
		}
	}
}

// remove takes a pod away, of which the informer tells as it was last.
func (w *world) remove(name string) {
	if pod := w.pods[name]; pod != nil {
		w.podTracker.Left(w.job.UID, pod, true)
	}
	delete(w.pods, name)
}

func (w *world) start() {
	w.settle()
	w.runAll()
	w.settle()
	require.Equal(w.t, batchv1alpha1.Running, w.job.Status.State.Phase)
}

func (w *world) phase() batchv1alpha1.JobPhase { return w.job.Status.State.Phase }

// requireConsistent checks what clients rely on in every single write.
func requireConsistent(t require.TestingT, job *batchv1alpha1.Job, v *Plan) {
	s := v.Status
	require.GreaterOrEqual(t, s.PodGeneration, job.Status.PodGeneration)
	switch s.State.Phase {
	case batchv1alpha1.Restarting, batchv1alpha1.Aborting, batchv1alpha1.Terminating, batchv1alpha1.Completing:
		require.Positive(t, s.Terminating, "%s without terminating pods", s.State.Phase)
	case batchv1alpha1.Aborted, batchv1alpha1.Terminated:
		require.Zero(t, s.Pending+s.Running+s.Terminating, "%s", s.State.Phase)
	case batchv1alpha1.Running:
		if job.Status.State.Phase != batchv1alpha1.Running {
			require.GreaterOrEqual(t, s.Running+s.Succeeded, v.Stage.MinAvailable)
		}
	case batchv1alpha1.Pending:
		if job.Status.State.Phase == batchv1alpha1.Restarting {
			require.GreaterOrEqual(t, defaults.Replicas(&job.Spec)-s.Terminating, s.MinAvailable)
		}
	}
	require.Len(t, s.Conditions, len(conditionPhases(s)), "one condition per phase")
	require.Equal(t, s.State.Phase, s.Conditions[len(s.Conditions)-1].Status, "the latest condition comes last")
}

func conditionPhases(s *batchv1alpha1.JobStatus) map[batchv1alpha1.JobPhase]bool {
	phases := map[batchv1alpha1.JobPhase]bool{}
	for _, c := range s.Conditions {
		phases[c.Status] = true
	}
	return phases
}

// requireDelayed checks that the status holds every answer that comes later, before anything is done. It reads the entries of the
// status by itself. A pending pod needs no entry: its creation time is known from the pod.
func (w *world) requireDelayed(job *batchv1alpha1.Job, v *Plan) {
	t := w.t
	if !phase.Runs(v.Status.State.Phase) {
		return
	}
	for i := range v.Delays {
		cause := &v.Delays[i].Cause
		if cause.Type == busv1alpha1.PodPendingEvent {
			continue
		}
		task := ""
		if cause.Task >= 0 {
			task = job.Spec.Tasks[cause.Task].Name
		}
		isOfCause := func(entry batchv1alpha1.DelayedEvent) bool {
			return entry.Event == cause.Type && entry.Task == task && entry.ExitCode == cause.ExitCode && w.listsIndex(entry.Indexes, cause.Index)
		}
		at := slices.IndexFunc(v.Status.Delayed, isOfCause)
		require.GreaterOrEqual(t, at, 0, "%s of task %q, index %d has no entry in the status", cause.Type, task, cause.Index)
		require.False(t, v.Status.Delayed[at].Since.After(cause.Since), "the entry of %s is later than the event", cause.Type)
	}
}

// listsIndex tells whether a list such as "0-2,5", or a bitmap, has the index. An empty list has only -1: the event is about no single
// pod.
func (w *world) listsIndex(list string, index int32) bool {
	if list == "" {
		return index == -1
	}
	if w.lists[list] == nil {
		w.lists[list] = readList(list)
	}
	return w.lists[list][index]
}

// readList reads a list of indexes without the code that wrote it.
func readList(list string) map[int32]bool {
	listed := map[int32]bool{}
	if bitmap, isBitmap := strings.CutPrefix(list, "base64:"); isBitmap {
		bytes, _ := base64.RawStdEncoding.DecodeString(bitmap)
		for i := range int32(8 * len(bytes)) {
			if bytes[i/8]>>(i%8)&1 == 1 {
				listed[i] = true
			}
		}
		return listed
	}
	for _, part := range strings.Split(list, ",") {
		var first, last int32
		if n, _ := fmt.Sscanf(part, "%d-%d", &first, &last); n == 1 {
			last = first
		}
		for i := first; i <= last; i++ {
			listed[i] = true
		}
	}
	return listed
}

// mayWait tells whether the status of the plan may be written after it is carried out.
func mayWait(job *batchv1alpha1.Job, p *Plan) bool {
	return !TimingOf(&Snapshot{Job: job}, &job.Status, p).BeforeActing
}

// givesWay tells whether the status of the plan waits while there is other work.
func givesWay(job *batchv1alpha1.Job, before *batchv1alpha1.JobStatus, p *Plan) bool {
	return TimingOf(&Snapshot{Job: job}, before, p).IsReport
}
