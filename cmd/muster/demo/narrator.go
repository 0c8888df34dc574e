package demo

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// quiet ends a wave: nothing more of its kind has happened for that long. The narrator is late by as much.
const quiet = 300 * time.Millisecond

// indent is the width of the column of times.
const indent = 10

// narrator writes what the stage does and what the watch of the API has seen, with times since the
// start. Plain text, a line at a time.
type narrator struct {
	out   io.Writer
	start time.Time

	log    *watchlog.Log
	phases map[string]int  // by Job: how many of its states are told
	told   map[string]bool // moments of pods
	// hushed are Jobs that an act tells of in its own way.
	hushed func(job string) bool
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{
		out: out, start: time.Now(), phases: map[string]int{}, told: map[string]bool{}, hushed: func(string) bool { return false },
	}
}

// heading starts a part of the story.
func (n *narrator) heading(text string) { fmt.Fprintf(n.out, "\n%s\n", text) }

// explain writes text for people, in the column of the story.
func (n *narrator) explain(text string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(n.out, "%*s%s\n", indent, "", strings.TrimSpace(line))
	}
}

// show writes what people may do next: what it is for, and the commands.
func (n *narrator) show(purpose string, commands ...string) {
	fmt.Fprintf(n.out, "\n%s\n", purpose)
	for _, command := range commands {
		fmt.Fprintf(n.out, "  %s\n", command)
	}
}

// say writes a line with the present time.
func (n *narrator) say(format string, args ...any) { n.sayAt(time.Now(), fmt.Sprintf(format, args...)) }

func (n *narrator) sayAt(at time.Time, text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	fmt.Fprintf(n.out, "%7.1fs  %s\n", at.Sub(n.start).Seconds(), lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintf(n.out, "%*s%s\n", indent, "", line)
	}
}

// fact is something that happened.
type fact struct {
	at   time.Time
	text string
}

// tell writes what has happened since it was last called, in order. It stays a moment behind, so that a wave is told
// as one.
func (n *narrator) tell() { n.tellUntil(time.Now().Add(-quiet)) }

// tellAll writes everything that has happened so far.
func (n *narrator) tellAll() { n.tellUntil(time.Now()) }

func (n *narrator) tellUntil(until time.Time) {
	waves := n.waves()
	for _, w := range waves {
		if w.last.After(until) && w.first.Before(until) {
			until = w.first.Add(-1) // it goes on: what came later must wait for it
		}
	}
	facts := n.phaseFacts(until)
	for _, w := range waves {
		if w.last.After(until) {
			continue
		}
		for _, pod := range w.pods {
			n.told[string(pod.UID)+w.verb] = true
		}
		facts = append(facts, fact{w.first, w.String()})
	}
	sort.SliceStable(facts, func(a, b int) bool { return facts[a].at.Before(facts[b].at) })
	for _, f := range facts {
		n.sayAt(f.at, f.text)
	}
}

// phaseFacts are the changes of Jobs' phases up to a moment that are not told yet.
func (n *narrator) phaseFacts(until time.Time) []fact {
	var facts []fact
	for _, job := range n.log.JobNames() {
		states := n.log.JobStates(job)
		known := n.phases[job.String()]
		if n.hushed(job.Name) {
			continue
		}
		for ; known < len(states) && !states[known].Time.After(until); known++ {
			previous := batchv1alpha1.JobPhase("")
			if known > 0 {
				previous = states[known-1].Phase
			}
			if phase := states[known].Phase; phase != previous {
				facts = append(facts, fact{states[known].Time, fmt.Sprintf("%s is %s", job.Name, phase)})
			}
		}
		n.phases[job.String()] = known
	}
	return facts
}

// moments are what may happen to a pod, in the order of its life.
var moments = []struct {
	verb string
	when func(watchlog.Pod) time.Time
}{
	{"created", func(p watchlog.Pod) time.Time { return p.Created }},
	{"bound", func(p watchlog.Pod) time.Time { return p.Bound }},
	{"succeeded", func(p watchlog.Pod) time.Time { return finishedWith(p, "Succeeded") }},
	{"failed", func(p watchlog.Pod) time.Time { return finishedWith(p, "Failed") }},
	{"gone", func(p watchlog.Pod) time.Time { return p.Gone }},
}

// finishedWith is when a pod finished of itself in a phase. Pods that are deleted while they run end as Failed too,
// which is not worth telling.
func finishedWith(p watchlog.Pod, phase string) time.Time {
	killed := !p.Deleting.IsZero() && !p.Deleting.After(p.Finished)
	if string(p.Phase) == phase && !killed {
		return p.Finished
	}
	return time.Time{}
}

// wave is the same thing happening to pods of a Job at about the same time.
type wave struct {
	job, verb   string
	first, last time.Time
	pods        []watchlog.Pod
}

// waves gathers what happened to pods and is not printed yet. Six pods that are bound together make one line.
func (n *narrator) waves() []*wave {
	open := map[string]*wave{}
	var waves []*wave
	for _, pod := range n.log.Pods(func(p watchlog.Pod) bool { return p.Job != "" && !n.hushed(p.Job) }) {
		for _, moment := range moments {
			at := moment.when(pod)
			if at.IsZero() || n.told[string(pod.UID)+moment.verb] {
				continue
			}
			key := pod.Job + "/" + pod.Version + "/" + moment.verb
			if open[key] == nil {
				open[key] = &wave{job: pod.Job, verb: moment.verb, first: at, last: at}
				waves = append(waves, open[key])
			}
			open[key].add(pod, at)
		}
	}
	return waves
}

func (w *wave) add(pod watchlog.Pod, at time.Time) {
	w.pods = append(w.pods, pod)
	if at.Before(w.first) {
		w.first = at
	}
	if at.After(w.last) {
		w.last = at
	}
}

// String tells the wave: "tf-job: 6 pods bound within 12 ms (1 ps, 5 worker)".
func (w *wave) String() string {
	if len(w.pods) == 1 {
		pod := w.pods[0]
		text := fmt.Sprintf("%s: pod %s %s", w.job, pod.Name, w.verb)
		switch w.verb {
		case "bound":
			text += " to " + pod.Node
		case "failed":
			text += fmt.Sprintf(" with exit code %d", pod.ExitCode)
		}
		return text
	}
	within := ""
	if w.verb == "bound" {
		within = fmt.Sprintf(" within %d ms", max(w.last.Sub(w.first).Milliseconds(), 1))
	}
	return fmt.Sprintf("%s: %d pods %s%s (%s)", w.job, len(w.pods), w.verb, within, countTasks(w.pods))
}

// countTasks says how many pods of each task there are: "1 ps, 5 worker".
func countTasks(pods []watchlog.Pod) string {
	counts := map[string]int{}
	var tasks []string
	for _, pod := range pods {
		if counts[pod.Task] == 0 {
			tasks = append(tasks, pod.Task)
		}
		counts[pod.Task]++
	}
	sort.Strings(tasks)
	for i, task := range tasks {
		tasks[i] = fmt.Sprintf("%d %s", counts[task], task)
	}
	return strings.Join(tasks, ", ")
}
