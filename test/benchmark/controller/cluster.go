package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
)

const (
	namespace = metav1.NamespaceDefault
	// creators is how many requests are made at the same time.
	creators = 16
	// patience is how long one part of a run may take.
	patience = 10 * time.Minute
	// look is how often what is waited for is looked at.
	look = 50 * time.Millisecond
)

// bench is a cluster, with clients without limits of their own.
type bench struct {
	*localcluster.Cluster
	kube   kubernetes.Interface
	muster versioned.Interface
}

// start brings up a cluster. The function that it returns takes it down.
func start(ctx context.Context, options localcluster.Options) (*bench, func(), error) {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder: %w", err)
	}
	options.Dir, options.BinDir = filepath.Join(dir, "cluster"), "bin"
	cluster, err := localcluster.Up(ctx, options)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, fmt.Errorf("starting a cluster: %w", err)
	}
	down := func() {
		_ = cluster.Down(context.WithoutCancel(ctx)) // it ends with the process anyway
		os.RemoveAll(dir)
	}
	config, err := cluster.RESTConfig()
	if err != nil {
		down()
		return nil, nil, err
	}
	config.QPS = -1
	b := &bench{Cluster: cluster}
	if b.muster, err = versioned.NewForConfig(config); err == nil {
		protobuf := rest.CopyConfig(config)
		protobuf.ContentType = "application/vnd.kubernetes.protobuf"
		b.kube, err = kubernetes.NewForConfig(protobuf)
	}
	if err != nil {
		down()
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	return b, down, nil
}

// metrics are those that a part of the cluster serves, by name.
type metrics map[string]*dto.MetricFamily

func (b *bench) metrics(ctx context.Context, part string) (metrics, error) {
	text, err := b.Get(ctx, part, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", part, err)
	}
	return families, nil
}

// sum adds up the values of a metric over those of its series whose label has one of the values; over all without a label.
func (m metrics) sum(name, label string, values ...string) float64 {
	total := 0.0
	for _, series := range m[name].GetMetric() {
		if label == "" || hasLabel(series, label, values) {
			total += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func hasLabel(series *dto.Metric, label string, values []string) bool {
	for _, pair := range series.GetLabel() {
		for _, value := range values {
			if pair.GetName() == label && pair.GetValue() == value {
				return true
			}
		}
	}
	return false
}

// writes is how many requests a part has made that change something, its events and its lease included.
func (m metrics) writes() float64 {
	return m.sum("rest_client_requests_total", "method", "POST", "PUT", "PATCH", "DELETE")
}

// await looks until something has come about.
func await(ctx context.Context, what string, met wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, look, patience, true, met); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// inParallel runs work for 0 to n-1 and returns the first error.
func inParallel(ctx context.Context, n int, work func(i int) error) error {
	var once sync.Once
	var first error
	workqueue.ParallelizeUntil(ctx, creators, n, func(i int) {
		if err := work(i); err != nil {
			once.Do(func() { first = err })
		}
	})
	return first
}

// setPhase plays the kubelet of a pod.
func (b *bench) setPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	changed := pod.DeepCopy()
	changed.Status.Phase = phase
	now := metav1.Now()
	status := corev1.ContainerStatus{Name: changed.Spec.Containers[0].Name, Image: "none", Ready: phase == corev1.PodRunning}
	if phase == corev1.PodRunning {
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
	} else {
		status.State.Terminated = &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now}
	}
	changed.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	_, err := b.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}
