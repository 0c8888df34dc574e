package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

// variant is one way to run the same pods.
type variant struct {
	scheduler string
	config    string   // KubeSchedulerConfiguration, "" for what Muster ships
	without   []string // components that are not needed
	submit    func(ctx context.Context, b *bench, s shape) error
	prepare   func(ctx context.Context, b *bench) error // nil for nothing
}

// inTree are the arguments that both sides run with, so that what differs is gangs alone.
const inTree = `
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
  - name: InterPodAffinity
    args: {ignorePreferredTermsOfExistingPods: true}
`

const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler` + inTree

const musterConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins:
    queueSort: {enabled: [{name: TaskPriority}], disabled: [{name: "*"}]}
    preEnqueue: {enabled: [{name: TaskPriority}]}
    multiPoint: {enabled: [{name: Capacity}, {name: Coscheduling}, {name: NodeGroup}, {name: GangPreemption}], disabled: [{name: DefaultPreemption}]}
    preFilter: {enabled: [{name: Capacity}, {name: Coscheduling}]}
    postFilter: {enabled: [{name: Capacity}, {name: Coscheduling}]}` + inTree + `
  - name: Coscheduling
    args: {admission: Ignore}
`

var withoutController = []string{localcluster.KWOK, localcluster.MusterController}

var variants = map[string]variant{
	"stock":     {localcluster.KubeScheduler, stockConfig, withoutController, submitPods, nil},
	"plain":     {localcluster.MusterScheduler, musterConfig, withoutController, submitPods, nil},
	"podgroups": {localcluster.MusterScheduler, musterConfig, withoutController, submitPodGroups, nil},
	"jobs":      {localcluster.MusterScheduler, "", []string{localcluster.KWOK}, submitJobs, nil},
	"queues":    {localcluster.MusterScheduler, "", []string{localcluster.KWOK}, submitJobsInQueues, createQueues},
}

// besideLabel marks pods that are there beside the load and do not count.
const besideLabel = "beside"

// bench is a cluster that is measured.
type bench struct{ *meter.Cluster }

// run is the result of a load. It has the seconds from the first create to the last bind, and to the last event. costs is what each component
// spent until then.
type run struct {
	seconds, told float64
	costs         map[string]cost
}

// measure starts a cluster, submits the load and measures until the last bind.
func measure(ctx context.Context, o *options, s shape, name string) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	v := variants[name]
	b, err := o.up(ctx, v, o.nodes, "32")
	if err != nil {
		return run{}, err
	}
	defer b.Down(ctx)
	profiled := func() error { return nil }
	if o.profiles != "" {
		profiled = b.profile(ctx, o.profiles, s.String()+"-"+name, o.profileFor)
	}
	result, err := b.measure(ctx, s, v)
	if err != nil {
		return run{}, err
	}
	return result, profiled()
}

// up starts a cluster for a variant.
func (o *options) up(ctx context.Context, v variant, nodes int, cpu string) (*bench, error) {
	gates := []string{"--feature-gates=" + o.gates}
	cluster, err := meter.Up(ctx, localcluster.Options{
		Nodes: nodes, NodeCPU: cpu, NodeMemory: "256Gi", Scheduler: v.scheduler, SchedulerConfig: v.config, Without: v.without,
		ExtraArgs: map[string][]string{
			localcluster.KubeScheduler:   gates,
			localcluster.MusterScheduler: gates,
			localcluster.KubeAPIServer:   {fmt.Sprintf("--profiling=%t", o.profiles != "")},
		},
	})
	if err != nil {
		return nil, err
	}
	b := &bench{cluster}
	if v.prepare != nil {
		err = v.prepare(ctx, b)
	}
	if err == nil {
		err = b.prepare(ctx)
	}
	if err != nil {
		b.Down(ctx)
		return nil, err
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context) error {
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	return b.settle(ctx)
}

// A cluster has settled when each of its parts writes no more than what keeps its lease.
const (
	settleEvery  = 2 * time.Second
	settleWrites = 2
)

// settle waits until the components have done their work for new nodes. The controller manager writes for each, for some seconds, and that
// would count as the cost of a load.
func (b *bench) settle(ctx context.Context) error {
	var last map[string]cost
	err := wait.PollUntilContextCancel(ctx, settleEvery, true, func(ctx context.Context) (bool, error) {
		now, err := b.costs(ctx)
		if err != nil {
			return false, err
		}
		settled := last != nil
		for _, meanwhile := range spent(last, now) {
			settled = settled && meanwhile.Writes <= settleWrites
		}
		last = now
		return settled, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the cluster has settled: %w", err)
	}
	return nil
}

// measure submits a load to a cluster that runs and measures until the last bind. Work that our scheduler delays until after that is part
// of the costs.
func (b *bench) measure(ctx context.Context, s shape, v variant) (run, error) {
	ctx, stopWatching := context.WithCancel(ctx)
	defer stopWatching() // before the cluster goes down
	done, err := b.countBound(ctx, s.Gangs*s.Pods)
	if err != nil {
		return run{}, err
	}
	before, err := b.costs(ctx)
	if err != nil {
		return run{}, err
	}
	start := time.Now()
	bound, err := b.lastBind(ctx, s, v, done)
	if err != nil {
		return run{}, err
	}
	var after map[string]cost
	err = wait.PollUntilContextCancel(ctx, tellEvery, true, func(ctx context.Context) (bool, error) {
		after, err = b.costs(ctx)
		return err == nil && after[v.scheduler].Writes-before[v.scheduler].Writes >= writesPerPod*float64(s.Gangs*s.Pods), err
	})
	if err != nil {
		return run{}, fmt.Errorf("waiting for the last event: %w", err)
	}
	return run{bound.Sub(start).Seconds(), time.Since(start).Seconds(), spent(before, after)}, nil
}

// For each pod a scheduler writes a binding and an event. How often to look whether it has.
const (
	writesPerPod = 2
	tellEvery    = 200 * time.Millisecond
)

// warmUp asks for a custom resource of each kind without storing it. The first one after the CRDs are installed takes the API server two
// seconds. This time is not part of the throughput.
func (b *bench) warmUp(ctx context.Context) error {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "warm-up"}}
	if _, err := b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, group, dry); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	task := batchv1alpha1.TaskSpec{Template: corev1.PodTemplateSpec{Spec: podSpec()}}
	job := &batchv1alpha1.Job{ObjectMeta: metav1.ObjectMeta{Name: "warm-up"}, Spec: batchv1alpha1.JobSpec{Tasks: []batchv1alpha1.TaskSpec{task}}}
	if _, err := b.Muster.BatchV1alpha1().Jobs(corev1.NamespaceDefault).Create(ctx, job, dry); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	return nil
}

// lastBind submits the load and waits until the watch has shown every pod bound. It returns when that was.
func (b *bench) lastBind(ctx context.Context, s shape, v variant, done <-chan time.Time) (time.Time, error) {
	submitted := make(chan error, 1)
	go func() { submitted <- v.submit(ctx, b, s) }()
	if err := <-submitted; err != nil {
		return time.Time{}, fmt.Errorf("submitting: %w", err)
	}
	select {
	case at := <-done:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("waiting for the last bind: %w", ctx.Err())
	}
}

// countBound sends the time at which the given number of pods has been seen bound. It asks for the pods of the load alone, so that the
// benchmark keeps no other pods in memory. Its own cost is not part of the throughput.
func (b *bench) countBound(ctx context.Context, want int) (<-chan time.Time, error) {
	done := make(chan time.Time, 1)
	bound := 0
	see := func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" {
			if bound++; bound == want {
				done <- time.Now()
			}
		}
	}
	watch := cache.NewFilteredListWatchFromClient(b.Kube.CoreV1().RESTClient(), "pods", corev1.NamespaceDefault,
		func(o *metav1.ListOptions) { o.LabelSelector = "!" + besideLabel })
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watch, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { see(obj.(*corev1.Pod)) },
			UpdateFunc: func(old, obj any) {
				if old.(*corev1.Pod).Spec.NodeName == "" {
					see(obj.(*corev1.Pod))
				}
			},
		},
	})
	go controller.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return done, nil
}

func submitPods(ctx context.Context, b *bench, s shape) error {
	return meter.InParallel(ctx, s.Gangs*s.Pods, func(i int) error {
		return b.createPod(ctx, i/s.Pods, i%s.Pods, false)
	})
}

func submitPodGroups(ctx context.Context, b *bench, s shape) error {
	err := meter.InParallel(ctx, s.Gangs, func(g int) error {
		pg := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: gangName(g)},
			Spec:       schedulingv1beta1.PodGroupSpec{MinMember: int32(s.Pods)},
		}
		_, err := b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, pg, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return meter.InParallel(ctx, s.Gangs*s.Pods, func(i int) error {
		return b.createPod(ctx, i/s.Pods, i%s.Pods, true)
	})
}

func submitJobs(ctx context.Context, b *bench, s shape) error {
	return submitJobsTo(ctx, b, s, func(int) string { return "" })
}

// submitJobsTo creates Jobs, each in the queue that queueOf names; "" for the default one.
func submitJobsTo(ctx context.Context, b *bench, s shape, queueOf func(job int) string) error {
	return meter.InParallel(ctx, s.Gangs, func(g int) error {
		job := &batchv1alpha1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: gangName(g)},
			Spec: batchv1alpha1.JobSpec{
				Queue:         queueOf(g),
				SchedulerName: "muster",
				Tasks: []batchv1alpha1.TaskSpec{{
					Name: "worker", Replicas: int32(s.Pods), Template: corev1.PodTemplateSpec{Spec: podSpec()},
				}},
			},
		}
		_, err := b.Muster.BatchV1alpha1().Jobs(corev1.NamespaceDefault).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
}

func gangName(g int) string { return fmt.Sprintf("gang-%d", g) }

func podSpec() corev1.PodSpec { return podSpecOf("100m") }

func podSpecOf(cpu string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("100Mi")},
		}}},
	}
}

func podName(gang string, index int) string { return fmt.Sprintf("%s-%d", gang, index) }

// podOf is a member of a gang.
func podOf(gang string, index int, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        podName(gang, index),
			Annotations: map[string]string{schedulingv1beta1.GroupNameAnnotation: gang},
		},
		Spec: podSpecOf(cpu),
	}
}

// createPod creates a pod, in a gang or not.
func (b *bench) createPod(ctx context.Context, gang, index int, inGang bool) error {
	pod := podOf(gangName(gang), index, "100m")
	if !inGang {
		pod.Annotations = nil
	}
	_, err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
