package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/runtimes"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/simulation"
)

const (
	namespace = metav1.NamespaceDefault
	// unit is the resource that jobs ask for and nodes have.
	unit = "cpu"
	// tidyEvery is after how long the API server forgets what all watchers have seen.
	tidyEvery = time.Hour
	// ownNodes is the label of the nodes of a queue.
	ownNodes = "queue"
)

// Cluster is what the jobs run on: nodes that are alike.
type Cluster struct {
	Nodes, Each int
	// Quotas are the capabilities of queues. Each of them has as many nodes of its own; nil for no quota.
	Quotas map[string]int
}

// Capacity is what all nodes have.
func (c Cluster) Capacity() int { return c.Nodes * c.Each }

// replay is one run of a trace.
type replay struct {
	api     *simulation.API
	cluster Cluster
	began   time.Time

	mu      sync.Mutex
	gangs   map[string]*running // by their names
	pending int                 // gangs that have not ended
	done    chan struct{}       // closed when all have
	ran     []Ran
	past    *runtimes.Past // nil if it says nothing

	said     []said
	expected Expected

	waits chan struct{} // is full while one goroutine waits for the rest
}

// rest waits until all is at rest. Only one may wait at a time.
func (r *replay) rest() {
	r.waits <- struct{}{}
	synctest.Wait()
	<-r.waits
}

// running is a gang that waits or runs.
type running struct {
	job     int
	group   *schedulingv1beta1.PodGroup
	bound   sets.Set[string] // names of members
	started chan struct{}    // closed when all members are bound
}

// Replay runs jobs through the real scheduler in virtual time, by a rule, and returns when each began.
func Replay(t *testing.T, cluster Cluster, jobs []Job, rule Rule) (ran []Ran, err error) {
	ran, _, err = replayWith(t, cluster, jobs, rule, manner{})
	return ran, err
}

func replayWith(t *testing.T, cluster Cluster, jobs []Job, rule Rule, how manner) (ran []Ran, expected Expected, err error) {
	synctest.Test(t, func(*testing.T) { ran, expected, err = replayInBubble(cluster, jobs, rule, how) })
	return ran, expected, err
}

// manner says how a scheduler is run.
type manner struct {
	// look looks at the scheduler every second of the jobs' time, and may have it restarted; nil for none.
	look func(*simulation.Scheduler) (restart bool)
	// withAll has all loops of the scheduler run, and pods told why they wait.
	withAll bool
	// tick is how often the scheduler looks again at gangs that are not at rest. 0 leaves it as it is.
	tick time.Duration
	// expect has the scheduler say when gangs are expected to start.
	expect bool
}

// replayInBubble runs jobs.
func replayInBubble(cluster Cluster, jobs []Job, rule Rule, how manner) ([]Ran, Expected, error) {
	r := &replay{
		api: simulation.New(), cluster: cluster, began: time.Now(), gangs: map[string]*running{}, pending: len(jobs), done: make(chan struct{}),
		ran: make([]Ran, len(jobs)), waits: make(chan struct{}, 1),
	}
	if rule.ByHistory {
		r.past = &runtimes.Past{}
	}
	if err := r.build(cluster, jobs); err != nil {
		return nil, Expected{}, err
	}
	profile, err := profileOf(rule)
	if err != nil {
		return nil, Expected{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	options := simulation.Options{Profile: *profile, Intercept: r.intercept, WithoutMetrics: !how.withAll}
	if !how.withAll {
		options.Silent = cmp.Or(how.tick, state.TickPeriod)
	}
	if how.expect {
		options.Beside = r.expect
	}
	go func() { ended <- r.schedule(ctx, options, how.look) }()
	go r.tidy(ctx)
	played := make(chan error, 1)
	go func() { played <- r.play(jobs, rule) }()
	select {
	case err = <-ended: // it could not be started
		return nil, Expected{}, err
	case err = <-played:
	}
	cancel()
	err = errors.Join(err, <-ended)
	return r.ran, r.judge(), err
}

// schedule runs the scheduler until the context ends. It is stopped and started again when look says so.
func (r *replay) schedule(ctx context.Context, options simulation.Options, look func(*simulation.Scheduler) bool) error {
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		s, err := simulation.Start(life, r.api, options)
		if err != nil {
			end()
			if ctx.Err() == nil {
				return err
			}
			break // all jobs have ended while it started
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(life)
		}()
		for look != nil && life.Err() == nil {
			select {
			case <-life.Done():
			case <-time.After(time.Second):
				r.rest()
				if look(s) {
					end()
				}
			}
		}
		<-ended
		end()
		s.Shutdown()
	}
	return nil
}

func profileOf(rule Rule) (*schedulerapi.KubeSchedulerProfile, error) {
	profile, err := simulation.ShippedProfile()
	if err != nil {
		return nil, err
	}
	if rule.Arguments != nil {
		rule.Arguments(simulation.CoschedulingArgs(profile))
	}
	return profile, nil
}

// build creates the nodes and the queues. Queues lend each other what they do not use, and take nothing back by eviction.
func (r *replay) build(cluster Cluster, jobs []Job) error {
	for i := range cluster.Nodes {
		node := mustertesting.MakeNode(fmt.Sprintf("node-%03d", i)).Allocatable(unit, fmt.Sprint(cluster.Each), "memory", "1Ti", "pods", "1000").Obj()
		node.UID = types.UID(node.Name)
		if names := slices.Sorted(maps.Keys(cluster.Quotas)); len(names) > 0 {
			node.Labels = map[string]string{ownNodes: names[i%len(names)]}
		}
		if err := r.api.Create(simulation.Nodes, node, ""); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	queues := sets.New[string]()
	for _, job := range jobs {
		queues.Insert(queueOf(job))
	}
	for name := range queues {
		queue := mustertesting.MakeQueue(name).Obj()
		if quota := cluster.Quotas[name]; quota > 0 {
			queue = mustertesting.MakeQueue(name).Capability(unit, fmt.Sprint(quota)).Obj()
		}
		queue.UID, queue.Spec.Reclaimable = types.UID(name), new(bool)
		if err := r.api.Create(simulation.Queues, queue, ""); err != nil {
			return fmt.Errorf("creating a queue: %w", err)
		}
	}
	return nil
}

func queueOf(job Job) string {
	if job.Queue == "" {
		return "default"
	}
	return job.Queue
}

// play submits each job at its time, and waits until all have ended.
func (r *replay) play(jobs []Job, rule Rule) error {
	for i, job := range jobs {
		time.Sleep(time.Until(r.began.Add(job.Submit))) // virtual time: the bubble goes on at once
		gang, err := r.submit(i, job, rule)
		if err != nil {
			return err
		}
		if rule.InOrder {
			<-gang.started
		}
	}
	<-r.done
	return nil
}

// tidy has the API server forget what all watchers have seen, again and again. Else a long replay would keep gigabytes.
func (r *replay) tidy(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tidyEvery):
			r.rest()
			r.api.Forget()
		}
	}
}

// submit creates the PodGroup of a job, admitted, and its pods.
func (r *replay) submit(i int, job Job, rule Rule) (*running, error) {
	name := fmt.Sprintf("job-%05d", i)
	group := mustertesting.MakePodGroup(name).MinMember(int32(job.Members)).Queue(queueOf(job)).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	group.UID, group.CreationTimestamp = types.UID(name), metav1.Now()
	if rule.Estimate != nil {
		metav1.SetMetaDataAnnotation(&group.ObjectMeta, schedulingv1beta1.RunningEstimateAnnotation, rule.Estimate(job).String())
	}
	gang := &running{job: i, group: group, bound: sets.New[string](), started: make(chan struct{})}
	r.mu.Lock()
	r.gangs[name] = gang
	r.ran[i].Job = job
	if r.past != nil {
		group.Status.Estimate = fromPast(r.past, job)
	}
	r.mu.Unlock()
	if err := r.api.Create(simulation.PodGroups, group, namespace); err != nil {
		return nil, fmt.Errorf("creating a PodGroup: %w", err)
	}
	for m := range job.Members {
		pod := mustertesting.MakePod(podName(name, m)).SchedulerName("muster").Group(name).Requests(unit, fmt.Sprint(job.Each)).Obj()
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(pod.Name), metav1.Now(), corev1.PodPending
		if r.cluster.Quotas != nil {
			pod.Spec.NodeSelector = map[string]string{ownNodes: queueOf(job)}
		}
		if err := r.api.Create(simulation.Pods, pod, namespace); err != nil {
			return nil, fmt.Errorf("creating a pod: %w", err)
		}
	}
	return gang, nil
}

func podName(gang string, member int) string { return fmt.Sprintf("%s-%d", gang, member) }

// intercept sees each binding. The last one of a gang starts it.
func (r *replay) intercept(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.Matches("patch", "podgroups/status") {
		return r.hear(action.(clienttesting.PatchAction))
	}
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
	if err := r.api.Bind(binding); err != nil {
		return true, nil, err
	}
	return true, nil, r.bound(binding)
}

func (r *replay) bound(binding *corev1.Binding) error {
	pod, err := r.api.Get(simulation.Pods, namespace, binding.Name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gang := r.gangs[pod.(*corev1.Pod).Annotations[schedulingv1beta1.GroupNameAnnotation]]
	gang.bound.Insert(binding.Name)
	if job := r.ran[gang.job].Job; gang.bound.Len() == job.Members {
		r.ran[gang.job].Start = time.Since(r.began)
		close(gang.started)
		time.AfterFunc(job.Run, func() { r.end(gang) })
	}
	return nil
}

// end has all members of a gang succeed, and removes them.
func (r *replay) end(gang *running) {
	for _, name := range sets.List(gang.bound) {
		if err := r.api.Delete(simulation.Pods, namespace, name); err != nil {
			panic(err)
		}
	}
	if err := r.api.Delete(simulation.PodGroups, namespace, gang.group.Name); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gangs, gang.group.Name)
	if r.past != nil {
		r.learn(r.ran[gang.job].Job)
	}
	if r.pending--; r.pending == 0 {
		close(r.done)
	}
}

// learn notes how long a job took. Gangs that wait without an estimate get one. The lock is held.
func (r *replay) learn(job Job) {
	r.past.Ended(runOf(job), job.Run, 0)
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) { // each replay is alike
		other := r.gangs[name]
		if other.bound.Len() > 0 || other.group.Status.Estimate != nil || runOf(r.ran[other.job].Job) != runOf(job) {
			continue
		}
		group := other.group.DeepCopy()
		group.Status.Estimate = fromPast(r.past, job)
		if err := r.api.Update(simulation.PodGroups, group, namespace); err != nil {
			panic(err)
		}
		other.group = group
	}
}
