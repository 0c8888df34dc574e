package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-sched/muster/pkg/watchlog"
)

// finale checks the whole record and shows the cluster as kubectl does.
func (s *stage) finale(ctx context.Context) error {
	s.heading("In the whole record of the watches")
	all := s.log.Incarnations()
	violations := watchlog.GangViolations(all, window)
	claim := fmt.Sprintf("each of the %d gangs started whole: from its first bind, its minimum was bound within %s", len(all), window)
	if err := s.check(len(violations) == 0, claim, strings.Join(violations, "; ")); err != nil {
		return err
	}
	writes := 0
	for _, name := range s.log.JobNames() {
		states := s.log.JobStates(name)
		writes += len(states)
		for _, violation := range watchlog.StatusViolations(states) {
			violations = append(violations, name.Name+": "+violation)
		}
	}
	claim = fmt.Sprintf("phase and counts agreed in each of the %d states of Jobs that were published", writes)
	if err := s.check(len(violations) == 0, claim, strings.Join(violations, "; ")); err != nil {
		return err
	}
	for _, table := range [][]string{
		{"get", "vcjob", "-o", "wide"},
		{"get", "podgroup", "-o", "wide"},
		{"get", "queue"},
		{"get", "pods"},
	} {
		if err := s.showTable(ctx, table...); err != nil {
			return err
		}
	}
	return nil
}

// showTable prints what kubectl prints.
func (s *stage) showTable(ctx context.Context, args ...string) error {
	table, err := s.kubectl(ctx, nil, args...)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n$ kubectl %s\n%s", strings.Join(args, " "), table)
	return nil
}
