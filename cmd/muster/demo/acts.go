package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// window is how much time may lie between the first and the last bind of a gang's minimum.
const window = 2 * time.Second

// acts are the parts of the story, in order. Each makes its claims and fails with the first that does not hold.
var acts = []struct {
	title, intro string
	play         func(context.Context, *stage) error
}{
	{
		title: "A gang that does not fit waits whole",
		intro: `tf-job has one ps (2 CPUs) and five workers (5 CPUs each), and minAvailable is 6: all or nothing.
			The nodes have 32 CPUs, more than the 27 it needs; but each holds only one worker.`,
		play: holdGang,
	},
	{
		title: "It holds nothing meanwhile: another Job runs and completes",
		intro: `distributed-training has one ps and four workers on GPUs, in a queue of its own. When its ps has succeeded,
			the policy TaskCompleted -> CompleteJob ends the workers.`,
		play: completeJob,
	},
	{
		title: "Two gangs that each need most of the cluster do not deadlock",
		intro: `rival-a and rival-b come at the same moment; each needs three of the four nodes.
			Placed pod by pod, each could get two and wait for ever.`,
		play: runRivals,
	},
	{
		title: "Room comes, and the gang starts in one go",
		intro: "tf-job has waited since the first part. Now the cluster grows.",
		play:  releaseGang,
	},
	{
		title: "The pods of a Job get what they need to find each other and to log in to each other",
		intro: `mpi-job has a master and two workers, and the plugins svc, ssh and env: a name in the DNS for each pod,
			a list of them all, and one key for ssh. It grows by a worker while it runs.`,
		play: connectPeers,
	},
	{
		title: "A worker fails, and the whole gang restarts",
		intro: `Training goes on only with all workers, so tf-job has the policy * -> RestartJob.
			Simulated pods do what their annotations say: this one is told to end with exit code 137.`,
		play: restartGang,
	},
	{
		title: "A Job that can use more than it needs shares what is left",
		intro: `spark-job has one driver and five executors, and minAvailable is 3: the driver, of a higher priority,
			and two executors start together; further executors come as there is room.`,
		play: shareRest,
	},
	{
		title: "A queue takes back what it is owed, and no more",
		intro: `Two teams own half of the sixteen GPUs each. Blue has borrowed all of them for a Job that can do with less.
			Now red comes with a gang that needs its whole half.`,
		play: takeBack,
	},
	{
		title: "A Deployment can be a gang, too",
		intro: `model-server is a Deployment of four pods, with an annotation that says that all four start together. Its queue has room
			for three.`,
		play: holdDeployment,
	},
	{
		title: "PhJobs: PrimeHub's jobs wait for the quota of their group and of their user",
		intro: `A PhJob is a command with an image and an instance type. The group phusers may use four GPUs, and so may each of its
			users. Only quota decides, in the order of creation: a job has its quota though all GPUs are in use.`,
		play: admitByQuota,
	},
	{
		title: "A gang runs in one rack, and its ranks are neighbours",
		intro: `HyperNodes say which nodes share a rack: two racks of four nodes. in-one-rack fills one of them.
			too-wide has a pod more than a rack has room for.`,
		play: fillRack,
	},
	{
		title: "A gang says when it starts, and small Jobs run before it in the holes",
		intro: `Eight nodes, with a Job on each: they end one after the other. wide needs all eight. Each Job says how long it runs,
			so wide gets a start. Until then small Jobs run on the nodes that come free, if they end in time.`,
		play: sayWhen,
	},
}

// holdGang shows a gang that does not fit. Its pods exist, the reason is there to read, and not one pod is bound.
func holdGang(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "tf-job.yaml"); err != nil {
		return err
	}
	if err := s.await(ctx, "the six pods of tf-job exist", func() bool { return len(s.pending("tf-job")) == 6 }); err != nil {
		return err
	}
	if err := s.showReason(ctx, "tf-job"); err != nil {
		return err
	}
	held := func() bool { return len(s.pods("tf-job", everBound)) == 0 && len(s.pending("tf-job")) == 6 }
	if err := s.stays(ctx, 2*time.Second, "tf-job waits whole", held); err != nil {
		return err
	}
	return s.check(held(), "tf-job waits whole: six pods exist and not one is bound", s.log.PodsOf(job("tf-job")))
}

// showReason shows where a user finds why a gang waits: on its PodGroup, among the events, and on its pods.
func (s *stage) showReason(ctx context.Context, name string) error {
	group := types.NamespacedName{Namespace: "default", Name: s.pending(name)[0].Group}
	waits := func() bool {
		return s.log.Group(group).Condition.Type == schedulingv1beta1.PodGroupUnschedulableType && s.log.Group(group).Condition.Message != ""
	}
	if err := s.await(ctx, "the PodGroup of "+name+" says why it waits", waits); err != nil {
		return err
	}
	unschedulable := func(e watchlog.Event) bool { return e.Reason == "Unschedulable" }
	said := func() bool {
		return slices.ContainsFunc(s.log.Events("PodGroup", group.Namespace, group.Name), unschedulable)
	}
	if err := s.await(ctx, "an event says why "+name+" waits", said); err != nil {
		return err
	}
	explained := func(p watchlog.Pod) bool { return p.Waiting.Message != "" }
	if err := s.await(ctx, "a pod of "+name+" says why it waits", func() bool { return len(s.pods(name, explained)) > 0 }); err != nil {
		return err
	}
	s.tellAll()
	condition := s.log.Group(group).Condition
	pod := s.pods(name, explained)[0]
	s.say("the reason, on the PodGroup: %s, %s\n%s", condition.Type, condition.Reason, condition.Message)
	s.say("and on its pods: %s=%s, %s\n%s", pod.Waiting.Type, pod.Waiting.Status, pod.Waiting.Reason, pod.Waiting.Message)
	return nil
}

// completeJob shows a Job through to its end by a policy, while the gang of the first act still waits.
func completeJob(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "priorityclasses.yaml", "queue.yaml", "distributed-training.yaml"); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "distributed-training", batchv1alpha1.Completed); err != nil {
		return err
	}
	phases := watchlog.Phases(s.log.JobStates(job("distributed-training")))
	want := []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed}
	if err := s.check(slices.Equal(phases, want), "distributed-training went from Pending over Running and Completing to Completed", phases); err != nil {
		return err
	}
	if err := s.expectPlugins(ctx, "distributed-training", "plugin-env", "plugin-ssh", "plugin-svc"); err != nil {
		return err
	}
	ended := s.pods("distributed-training", watchlog.Pod.Live)
	if err := s.check(len(ended) == 0, "none of its pods runs on", ended); err != nil {
		return err
	}
	return s.check(len(s.pods("tf-job", everBound)) == 0, "tf-job has waited all the while, and still not one pod of it is bound", s.pods("tf-job", everBound))
}

// runRivals shows two gangs of which only one fits at a time.
func runRivals(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "rivals.yaml"); err != nil {
		return err
	}
	for _, name := range []string{"rival-a", "rival-b"} {
		if err := s.awaitPhase(ctx, name, batchv1alpha1.Completed); err != nil {
			return err
		}
	}
	first, second := s.incarnation("rival-a", "0"), s.incarnation("rival-b", "0")
	if second.FirstBind.Before(first.FirstBind) {
		first, second = second, first
	}
	whole := first.BoundWithin(window) == 3 && second.BoundWithin(window) == 3
	if err := s.check(whole, "each was bound whole", []watchlog.Incarnation{first, second}); err != nil {
		return err
	}
	ended := 0
	for _, pod := range first.Pods {
		if !pod.Finished.IsZero() && !pod.Finished.After(second.FirstBind) {
			ended++
		}
	}
	claim := fmt.Sprintf("%s ran first; %s had not one pod bound until %d pods of %s had ended and made room for all three",
		first.Pods[0].Job, second.Pods[0].Job, ended, first.Pods[0].Job)
	return s.check(ended >= 2, claim, []watchlog.Incarnation{first, second})
}

// releaseGang adds nodes and shows the waiting gang start at once.
func releaseGang(ctx context.Context, s *stage) error {
	if err := s.check(len(s.pods("tf-job", everBound)) == 0, "not one pod of tf-job is bound", s.pods("tf-job", everBound)); err != nil {
		return err
	}
	s.say("$ muster local nodes --add %d", moreNodes)
	added := time.Now()
	if _, err := s.cluster.AddNodes(ctx, moreNodes); err != nil {
		return fmt.Errorf("adding nodes: %w", err)
	}
	if err := s.awaitPhase(ctx, "tf-job", batchv1alpha1.Running); err != nil {
		return err
	}
	gang := s.incarnation("tf-job", "0")
	spread, _ := gang.Spread()
	claim := fmt.Sprintf("all six pods of tf-job were bound together: %d ms from the first to the last, %.1f s after the first new node",
		max(spread.Milliseconds(), 1), gang.FirstBind.Sub(added).Seconds())
	return s.check(gang.BoundWithin(window) == 6, claim, gang)
}

// restartGang lets one worker fail and shows what its Job's policy does.
func restartGang(ctx context.Context, s *stage) error {
	before := s.pods("tf-job", watchlog.Pod.Live)
	version := s.log.Job(job("tf-job")).Version
	s.say("$ kubectl annotate pod tf-job-worker-3 muster.sh/sim-exit-after=0s muster.sh/sim-exit-code=137")
	if _, err := s.kubectl(ctx, nil, "annotate", "pod", "tf-job-worker-3",
		"muster.sh/sim-exit-after=0s", "muster.sh/sim-exit-code=137"); err != nil {
		return err
	}
	again := func() bool {
		state := s.log.Job(job("tf-job"))
		return state.Phase == batchv1alpha1.Running && state.Version > version
	}
	if err := s.await(ctx, "tf-job runs again", again); err != nil {
		return err
	}
	phases := watchlog.Phases(s.log.JobStates(job("tf-job")))
	want := []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running}
	if err := s.check(slices.Equal(phases, want), "tf-job went from Running over Restarting and Pending to Running", phases); err != nil {
		return err
	}
	after := s.pods("tf-job", watchlog.Pod.Live)
	fresh := len(before) == 6 && len(after) == 6 && !slices.ContainsFunc(after, func(p watchlog.Pod) bool {
		return slices.ContainsFunc(before, func(old watchlog.Pod) bool { return old.UID == p.UID })
	})
	if err := s.check(fresh, "all six pods are new ones", after); err != nil {
		return err
	}
	gang := s.incarnation("tf-job", fmt.Sprint(version+1))
	claim := fmt.Sprintf("they were bound together again, as incarnation %d", version+1)
	return s.check(gang.BoundWithin(window) == 6, claim, gang)
}

// shareRest shows a gang whose minimum fits and the rest of which does not.
func shareRest(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "spark-job.yaml"); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "spark-job", batchv1alpha1.Running); err != nil {
		return err
	}
	if err := s.stays(ctx, time.Second, "spark-job runs", func() bool { return s.log.Job(job("spark-job")).Phase == batchv1alpha1.Running }); err != nil {
		return err
	}
	gang := s.incarnation("spark-job", "0")
	if err := s.check(gang.BoundWithin(window) >= 3, "at least three pods of spark-job were bound together", gang); err != nil {
		return err
	}
	runs := func(task string) int {
		return len(s.pods("spark-job", func(p watchlog.Pod) bool { return p.Task == task && !p.Running.IsZero() && p.Live() }))
	}
	claim := fmt.Sprintf("the driver runs with %d of its executors; %d pods wait for room, and the Job runs all the same",
		runs("executor"), len(s.pending("spark-job")))
	return s.check(runs("driver") == 1 && runs("executor") >= 2, claim, gang.Pods)
}
