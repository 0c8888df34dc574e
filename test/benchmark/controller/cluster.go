package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/benchmark/meter"
)

const (
	namespace = metav1.NamespaceDefault
	// timeout is how long one part of a run may take.
	timeout = 10 * time.Minute
	// look is how often what is waited for is looked at.
	look = 50 * time.Millisecond
)

// bench is a cluster that is measured.
type bench struct{ *meter.Cluster }

// start brings up a cluster.
func start(ctx context.Context, options localcluster.Options) (*bench, error) {
	cluster, err := meter.Up(ctx, options)
	if err != nil {
		return nil, err
	}
	return &bench{cluster}, nil
}

// await looks until something has come about.
func await(ctx context.Context, what string, met wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, look, timeout, true, met); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
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
	_, err := b.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}
