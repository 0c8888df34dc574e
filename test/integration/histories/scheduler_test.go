package histories_test

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/test/simulation"
)

// process is one run of the scheduler, from its start to its violent end. It is the upstream scheduler with the shipped profile
// "muster" and one plugin of the test.
type process struct {
	api      *simulation.API
	judge    judge
	cancel   context.CancelFunc
	tracker  *gangs.Tracker
	profile  framework.Framework
	queue    backend.SchedulingQueue
	shutdown func()
	turns    chan struct{} // each lets the scheduling loop take one pod
	ended    chan struct{} // closed when the loop has ended

	mu         sync.Mutex
	dead       bool
	reserved   map[types.UID]*corev1.Pod // hold room and are not bound, by what the plugin was told
	binding    map[types.UID]*attempt    // have been allowed to be bound, and wait for their fate
	refuse     bool                      // the next Reserve fails
	evictsIn   time.Duration             // how long the API takes for the deletion of a pod
	preference map[string]int64          // which node a pod goes to if it may choose
}

// judge is called with each violation of an invariant.
type judge interface {
	reserving(*corev1.Pod)
	binding(*corev1.Pod)
}

// attempt is a binding that is under way.
type attempt struct {
	pod  *corev1.Pod
	node string
	fate chan fate
	lost chan struct{} // closed when the answer that is lost later is lost
	// Set when it is decided:
	decided bool
	doom    fate
}

// fate is what becomes of a binding.
type fate int

const (
	succeeds fate = iota
	failsBefore
	fails
	losesAnswer      // it is bound, and the scheduler does not learn it
	losesAnswerLater // as before, but the scheduler may be told that it is bound before it gives up waiting for the answer
	fates
)

func (f fate) String() string {
	return [...]string{"succeeds", "fails before", "fails", "succeeds, and the answer is lost",
		"succeeds, and the answer is lost after a while"}[f]
}

var errInjected = errors.New("injected by the history")

// startProcess starts a scheduler and returns when its caches are full.
func startProcess(a *simulation.API, j judge) (*process, error) {
	p := &process{
		api: a, judge: j, turns: make(chan struct{}), ended: make(chan struct{}),
		reserved: map[types.UID]*corev1.Pod{}, binding: map[types.UID]*attempt{}, preference: map[string]int64{},
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger()))
	p.cancel = cancel
	s, err := simulation.Start(ctx, a, simulation.Options{
		Profile:   shipped,
		Plugins:   frameworkruntime.Registry{fateName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }},
		Intercept: p.intercept,
		Takes:     p.takes,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	p.tracker, p.profile, p.queue, p.shutdown = s.Tracker, s.Profiles[shipped.SchedulerName], s.SchedulingQueue, s.Shutdown
	s.SchedulingQueue.Run(klog.FromContext(ctx))
	go p.loop(ctx, s)
	return p, nil
}

func logger() klog.Logger {
	if *verbosity < 0 {
		return logr.Discard()
	}
	return klog.Background()
}

// loop schedules one pod for each turn. Real schedulers take the next pod at once; here the history says when.
func (p *process) loop(ctx context.Context, s *simulation.Scheduler) {
	defer close(p.ended)
	for {
		select {
		case <-p.turns:
			s.ScheduleOne(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// turn lets the loop take one pod. It says false if the loop is waiting for a pod already: there is none.
func (p *process) turn() bool {
	select {
	case p.turns <- struct{}{}:
		return true
	default:
		return false
	}
}

// takes is how long the API takes for a request.
func (p *process) takes(action clienttesting.Action) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if action.Matches("delete", "pods") {
		return p.evictsIn
	}
	return 0
}

// intercept stands before the API: a dead process reaches it no more, and bindings have their fates.
func (p *process) intercept(action clienttesting.Action) (bool, runtime.Object, error) {
	if p.isDead() {
		return true, nil, errInjected
	}
	if action.Matches("create", "pods/binding") || action.GetSubresource() == "binding" {
		return true, nil, p.bind(action.(clienttesting.CreateAction).GetObject().(*corev1.Binding))
	}
	return false, nil, nil
}

func (p *process) bind(binding *corev1.Binding) error {
	p.mu.Lock()
	tried := p.binding[binding.UID]
	p.mu.Unlock()
	if tried == nil {
		return errInjected
	}
	switch tried.doom {
	case fails:
		return errInjected
	case losesAnswer:
		_ = p.api.Bind(binding)
		return errInjected
	case losesAnswerLater:
		_ = p.api.Bind(binding)
		select {
		case <-tried.lost:
		case <-p.ended:
		}
		return errInjected
	}
	return p.api.Bind(binding)
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// kill ends the process: nothing that it does from now on reaches the API.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.cancel()
	p.queue.Close()
	p.profile.IterateOverWaitingPods(func(waiting fwk.WaitingPod) { waiting.Reject("", "killed") })
	<-p.ended
	p.shutdown()
}

// fateName is the name of the test's plugin, which comes last at each point.
const fateName = "Fate"

var (
	_ fwk.ScorePlugin   = (*process)(nil)
	_ fwk.ReservePlugin = (*process)(nil)
	_ fwk.PreBindPlugin = (*process)(nil)
	_ fwk.SignPlugin    = (*process)(nil)
)

// Name returns the name of the plugin.
func (*process) Name() string { return fateName }

// SignPod adds nothing, so that pods that are alike are batched as they are without the plugin.
func (*process) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// Score prefers nodes as the history says. So nodes are taken in any order, and in the same order when the history is repeated.
func (p *process) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.preference[node.Node().Name], nil
}

// ScoreExtensions returns nil: the scores are what they are.
func (*process) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve fails when the history says so.
func (p *process) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.mu.Lock()
	p.reserved[pod.UID] = pod
	refuse := p.refuse
	p.refuse = false
	p.mu.Unlock()
	p.judge.reserving(pod)
	if refuse {
		return fwk.AsStatus(errInjected)
	}
	return nil
}

// Unreserve takes note.
func (p *process) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reserved, pod.UID)
}

// PreBindPreFlight says that there is something to do.
func (*process) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

// PreBind is where a pod comes that is about to be bound. It waits for its fate.
func (p *process) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return fwk.AsStatus(errInjected)
	}
	tried := &attempt{pod: pod, node: node, fate: make(chan fate, 1), lost: make(chan struct{})}
	p.binding[pod.UID] = tried
	p.mu.Unlock()
	p.judge.binding(pod)
	select {
	case doom := <-tried.fate:
		if doom == failsBefore {
			return fwk.AsStatus(errInjected)
		}
		return nil
	case <-ctx.Done(): // it was preempted
		p.mu.Lock()
		tried.decided = true
		p.mu.Unlock()
		return fwk.AsStatus(ctx.Err())
	}
}

// attempts are the bindings that wait for their fate, in an order that does not depend on chance.
func (p *process) attempts() []*attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	var waiting []*attempt
	for _, tried := range p.binding {
		if !tried.decided {
			waiting = append(waiting, tried)
		}
	}
	sort.Slice(waiting, func(i, j int) bool { return waiting[i].pod.UID < waiting[j].pod.UID })
	return waiting
}

// decide lets a binding go on.
func (p *process) decide(tried *attempt, doom fate) {
	p.mu.Lock()
	tried.decided, tried.doom = true, doom
	p.mu.Unlock()
	tried.fate <- doom
}

// holds says whether a pod holds room.
func (p *process) holds(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved[uid] != nil
}
