package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// started and waiting are what the demo tells apart of the phases of a PhJob. It has its quota, or waits for it.
const (
	started = "started"
	waiting = "waiting"
)

// admitByQuota plays both examples of the scheduler in PrimeHub's documentation.
func admitByQuota(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "phgroup.yaml"); err != nil {
		return err
	}
	err := s.playPhJobs(ctx, "phjobs-1.yaml", "a has its quota; b lacks the group's, and c waits behind b",
		map[string]string{"example-1-a": started, "example-1-b": waiting, "example-1-c": waiting})
	if err != nil {
		return err
	}
	s.say("$ kubectl delete phjob --all")
	if _, err := s.kubectl(ctx, nil, "delete", "phjob", "--all", "--wait=false"); err != nil {
		return err
	}
	err = s.playPhJobs(ctx, "phjobs-2.yaml", "a has its quota; b lacks that of its user, bob, and c does not wait behind b",
		map[string]string{"example-2-a": started, "example-2-b": waiting, "example-2-c": started})
	if err != nil {
		return err
	}
	return s.showTable(ctx, "get", "phjob")
}

// playPhJobs applies an example and claims which of its PhJobs have their quota and which wait.
func (s *stage) playPhJobs(ctx context.Context, file, claim string, want map[string]string) error {
	if err := s.apply(ctx, file); err != nil {
		return err
	}
	var seen map[string]string
	var failure error
	holds := func() bool {
		seen, failure = s.phJobs(ctx)
		return failure == nil && maps.Equal(seen, want)
	}
	if err := s.await(ctx, claim, holds); err != nil {
		return errors.Join(fmt.Errorf("%w; seen: %v", err, seen), failure)
	}
	if err := s.stays(ctx, time.Second, claim, holds); err != nil {
		return err
	}
	return s.check(true, claim, seen)
}

// phJobs asks which PhJobs have their quota, which wait for it, and how the others have ended. A new PhJob without a phase is left out.
func (s *stage) phJobs(ctx context.Context) (map[string]string, error) {
	text, err := s.kubectl(ctx, nil, "get", "phjob", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.phase}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for line := range strings.Lines(text) {
		switch fields := strings.Fields(line); {
		case len(fields) < 2:
		case fields[1] == "Preparing", fields[1] == "Running":
			seen[fields[0]] = started
		case fields[1] == "Pending":
			seen[fields[0]] = waiting
		default:
			seen[fields[0]] = fields[1]
		}
	}
	return seen, nil
}
