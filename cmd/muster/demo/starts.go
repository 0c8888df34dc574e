package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-sched/muster/pkg/watchlog"
)

const (
	// place is a resource of which each of the eight nodes has one for this act. Other pods there do not matter.
	place = "example.com/place"
	// startsLabel marks the Jobs of the act. They are many: the narrator tells of them in a table.
	startsLabel = "muster-demo=starts"
	wide        = "wide"
	longs       = 8
	smalls      = 16
	// step is how much longer each long Job runs than the one before.
	step = 3 * time.Second
	// smallFor is how long a small Job runs.
	smallFor = 4 * time.Second
	// spare is how much longer Jobs are expected to run than they do. People round up.
	spare = 6 * time.Second
)

// startsJob is a Job of the act, whose pods have a node each.
const startsJob = `---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: %s, labels: {muster-demo: starts}}
spec:
  queue: starts
  runningEstimate: %s
  minAvailable: %d
  tasks:
  - name: main
    replicas: %[3]d
    template:
      spec:
        containers:
        - {name: main, image: busybox, command: [sleep, "%d"], resources: {requests: {example.com/place: 1}, limits: {example.com/place: 1}}}
        restartPolicy: Never
`

func aJob(name string, pods int, runs time.Duration) string {
	return fmt.Sprintf(startsJob, name, runs+spare, pods, int(runs.Seconds()))
}

func isOfStarts(name string) bool {
	return name == wide || strings.HasPrefix(name, "long-") || strings.HasPrefix(name, "small-")
}

// sayWhen shows the expected starts of a gang that needs all nodes, and of small Jobs. These run before it on nodes that are free.
func sayWhen(ctx context.Context, s *stage) error {
	s.hushed = isOfStarts
	if err := s.fillEight(ctx); err != nil {
		return err
	}
	jobs := aJob(wide, longs, time.Second)
	for i := range smalls {
		jobs += aJob(fmt.Sprint("small-", i+1), 1, smallFor)
	}
	s.say("$ kubectl apply -f -    # wide: eight pods. small-1 to small-%d: one pod each, for %s", smalls, smallFor)
	if _, err := s.kubectl(ctx, []byte(jobs), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.await(ctx, "the API says when wide starts", func() bool { return !s.expected(wide).IsZero() }); err != nil {
		return err
	}
	if err := s.showTable(ctx, "get", "vcjob", "-l", startsLabel); err != nil {
		return err
	}
	if err := s.await(ctx, "wide starts", func() bool { return len(s.pods(wide, everBound)) == longs }); err != nil {
		return err
	}
	s.tableOfStarts()
	gang := s.incarnation(wide, "0")
	before := s.boundBefore(gang.FirstBind)
	claim := fmt.Sprintf("%d of %d small Jobs ran on free nodes while wide waited. The others did not hold it up", before, smalls)
	if err := s.check(gang.BoundWithin(window) == longs && before > 0 && before < smalls, claim, gang); err != nil {
		return err
	}
	_, err := s.kubectl(ctx, nil, "delete", "vcjob", "-l", startsLabel, "--wait=false")
	return err
}

// fillEight gives each of the eight nodes a place, and a long Job that takes it.
func (s *stage) fillEight(ctx context.Context) error {
	var names []string
	for i := range longs {
		names = append(names, fmt.Sprint("node-", i))
	}
	patch := fmt.Sprintf(`{"status":{"capacity":{%q:"1"},"allocatable":{%[1]q:"1"}}}`, place)
	args := append([]string{"patch", "node"}, names...)
	if _, err := s.kubectl(ctx, nil, append(args, "--subresource=status", "--type=merge", "-p", patch)...); err != nil {
		return err
	}
	jobs := "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: starts}\nspec: {}\n"
	for i := range longs {
		jobs += aJob(fmt.Sprint("long-", i+1), 1, time.Duration(i+1)*step)
	}
	s.say("$ kubectl apply -f -    # long-1 to long-8: one node each, for %s, %s, ... %s", step, 2*step, longs*step)
	if _, err := s.kubectl(ctx, []byte(jobs), "apply", "-f", "-"); err != nil {
		return err
	}
	return s.await(ctx, "the long Jobs run", func() bool {
		return len(s.log.Pods(func(p watchlog.Pod) bool { return strings.HasPrefix(p.Job, "long-") && everBound(p) })) == longs
	})
}

// expected is the first start that a Job was expected to have; zero for none.
func (s *stage) expected(name string) time.Time {
	for _, state := range s.log.JobStates(job(name)) {
		if !state.ExpectedStart.IsZero() {
			return state.ExpectedStart
		}
	}
	return time.Time{}
}

// boundBefore counts the small Jobs that had a node before a moment.
func (s *stage) boundBefore(moment time.Time) int {
	return len(s.log.Pods(func(p watchlog.Pod) bool {
		return strings.HasPrefix(p.Job, "small-") && everBound(p) && p.Bound.Before(moment)
	}))
}

// tableOfStarts tells of each Job its expected start as first said, its real start, and how far off that was.
func (s *stage) tableOfStarts() {
	s.tellAll()
	bound := s.log.Pods(func(p watchlog.Pod) bool { return isOfStarts(p.Job) && everBound(p) })
	slices.SortStableFunc(bound, func(a, b watchlog.Pod) int { return a.Bound.Compare(b.Bound) })
	lines, seen := []string{"when it was expected to start, as first said, and when it did:"}, map[string]bool{}
	for _, pod := range bound {
		said := s.expected(pod.Job)
		if seen[pod.Job] || said.IsZero() {
			continue
		}
		seen[pod.Job] = true
		lines = append(lines, fmt.Sprintf("%-9s said %6.1fs, started %6.1fs: %s", pod.Job, said.Sub(s.start).Seconds(), pod.Bound.Sub(s.start).Seconds(), off(pod.Bound.Sub(said))))
	}
	s.say("%s", strings.Join(lines, "\n"))
}

// off says how far a start was off.
func off(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%.1f s sooner", -by.Seconds())
	}
	return fmt.Sprintf("%.1f s later", by.Seconds())
}
