package demo

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// connectPeers shows the objects that the plugins of a Job make. They follow the Job's size and end with the Job.
func connectPeers(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "mpi-job.yaml"); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "mpi-job", batchv1alpha1.Running); err != nil {
		return err
	}
	if err := s.expectPlugins(ctx, "mpi-job", "plugin-env", "plugin-ssh", "plugin-svc"); err != nil {
		return err
	}
	key, err := s.field(ctx, "secret", "mpi-job-ssh", `{.data.id_rsa}`)
	if err != nil {
		return err
	}
	if err := s.check(key != "", "its Secret has a key", ""); err != nil {
		return err
	}
	if err := s.growPeers(ctx); err != nil {
		return err
	}
	same, err := s.field(ctx, "secret", "mpi-job-ssh", `{.data.id_rsa}`)
	if err != nil {
		return err
	}
	if err := s.check(same == key, "the key is the same", ""); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "mpi-job", batchv1alpha1.Completed); err != nil {
		return err
	}
	var left string
	gone := func() bool {
		left, err = s.kubectl(ctx, nil, "get", "service,configmap,secret,networkpolicy", "-l", "volcano.sh/job-name=mpi-job", "-o", "name")
		return err == nil && left == ""
	}
	if err := s.await(ctx, "what the plugins made is gone", gone); err != nil {
		return fmt.Errorf("%w: %s", err, left)
	}
	return s.check(true, "its master has succeeded, the Job is Completed, and what its plugins made is gone", left)
}

// growPeers adds a worker and waits until the others are told.
func (s *stage) growPeers(ctx context.Context) error {
	s.say("$ kubectl patch vcjob mpi-job --type json -p '[{op: replace, path: /spec/tasks/1/replicas, value: 3}]'")
	if _, err := s.kubectl(ctx, nil, "patch", "vcjob.batch.volcano.sh", "mpi-job", "--type", "json",
		"-p", `[{"op":"replace","path":"/spec/tasks/1/replicas","value":3}]`); err != nil {
		return err
	}
	var hosts, config string
	told := func() bool {
		var errs [2]error
		hosts, errs[0] = s.field(ctx, "configmap", "mpi-job-svc", `{.data.mpiworker\.host}`)
		config, errs[1] = s.field(ctx, "secret", "mpi-job-ssh", `{.data.config}`)
		decoded, err := base64.StdEncoding.DecodeString(config)
		return errs == [2]error{} && err == nil && strings.Contains(hosts, "mpi-job-mpiworker-2.mpi-job") &&
			strings.Contains(string(decoded), "Host mpi-job-mpiworker-2\n")
	}
	if err := s.await(ctx, "the lists of hosts name the new worker", told); err != nil {
		return err
	}
	s.tellAll()
	s.say("the hosts: %s", strings.Join(strings.Fields(hosts), ", "))
	return s.check(true, "the list of hosts and the configuration of ssh name the new worker", hosts)
}

// expectPlugins checks that a Job's status tells of its plugins.
func (s *stage) expectPlugins(ctx context.Context, name string, want ...string) error {
	entries, err := s.field(ctx, "vcjob.batch.volcano.sh", name, `{.status.controlledResources}`)
	if err != nil {
		return err
	}
	for _, key := range want {
		if !strings.Contains(entries, `"`+key+`"`) {
			return s.check(false, name+" has its plugins", entries)
		}
	}
	return s.check(true, name+" has its plugins: "+entries, entries)
}

// field reads a field with kubectl.
func (s *stage) field(ctx context.Context, kind, name, path string) (string, error) {
	return s.kubectl(ctx, nil, "get", kind, name, "-o", "jsonpath="+path)
}
