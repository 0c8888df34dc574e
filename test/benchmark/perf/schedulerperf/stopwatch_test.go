package schedulerperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

// stopwatch times the pods of a namespace, from the first that the scheduler sees until all are seen bound. It looks through the
// scheduler's own informer, so that it costs the API server nothing. scheduler_perf's throughput is an average over samples of one second,
// too coarse for runs of some seconds.
type stopwatch struct {
	namespace, file, profile string
	begin                    sync.Once

	mu          sync.Mutex
	seen, bound int
	first, last time.Time
	// Processor time of this process at the first and at the last.
	cpuFirst, cpuLast time.Duration
}

// reading is what the stopwatch shows.
type reading struct {
	// Seen and Bound count pods.
	Seen  int `json:"seen"`
	Bound int `json:"bound"`
	// Seconds are from the first pod seen to the last one bound.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is the processor time that this process (the scheduler and the API server) took in these seconds.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// newStopwatch makes a stopwatch that writes its times into a file, and a CPU profile into another. Either may be "", for none.
func newStopwatch(namespace, file, profile string) *stopwatch {
	return &stopwatch{namespace: namespace, file: file, profile: profile}
}

// start begins to look at pods, until the workload ends; further calls do nothing.
func (s *stopwatch) start(tCtx ktesting.TContext, sched *scheduler.Scheduler) error {
	var err error
	s.begin.Do(func() {
		// The removal of the cluster may take long if the workload failed.
		tCtx.Cleanup(func() {
			pprof.StopCPUProfile()
			if err := s.write(); err != nil {
				tCtx.Errorf("keeping the time: %v", err)
			}
		})
		err = s.watch(tCtx, sched)
	})
	return err
}

// write writes the file, if one is wanted. It is never half written.
func (s *stopwatch) write() error {
	if s.file == "" {
		return nil
	}
	data, err := json.Marshal(s.reading())
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if err := os.WriteFile(s.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

func (s *stopwatch) watch(tCtx ktesting.TContext, sched *scheduler.Scheduler) error {
	start := func() {
		if err := s.startProfile(); err != nil {
			tCtx.Errorf("starting a profile: %v", err)
		}
	}
	for _, profile := range sched.Profiles {
		_, err := profile.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { s.see(nil, obj, start) },
			UpdateFunc: func(old, obj any) { s.see(old, obj, start) },
		})
		if err != nil {
			return fmt.Errorf("watching pods: %w", err)
		}
		return nil // all profiles share one informer
	}
	return errors.New("the scheduler has no profile")
}

// startProfile starts the CPU profile, if one is wanted.
func (s *stopwatch) startProfile() error {
	if s.profile == "" {
		return nil
	}
	file, err := os.Create(s.profile)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(file) // the file is written when the profile stops, and closed with the process
}

// see looks at a pod that is new (old is nil) or has changed. It calls start at the first.
func (s *stopwatch) see(old, obj any, start func()) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Namespace != s.namespace {
		return
	}
	before, known := old.(*corev1.Pod)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known {
		s.seen++
		if s.first.IsZero() {
			s.first, s.cpuFirst = now, processorTime()
			start()
		}
	}
	if pod.Spec.NodeName != "" && (!known || before.Spec.NodeName == "") {
		s.bound++
		s.last, s.cpuLast = now, processorTime()
	}
}

func (s *stopwatch) reading() reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reading{
		Seen: s.seen, Bound: s.bound, Seconds: s.last.Sub(s.first).Seconds(), CPUSeconds: (s.cpuLast - s.cpuFirst).Seconds(),
	}
}

// processorTime is what this process has used of the processors.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
