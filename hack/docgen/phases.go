package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
)

// The marks between which a page that people write holds what is generated.
const (
	beginGenerated = "<!-- Made by hack/docgen (make update). Do not edit from here. -->\n"
	endGenerated   = "<!-- Until here. -->\n"
)

// fillIn writes a text between the marks of a page.
func fillIn(dir, name, text string) error {
	path := filepath.Join(dir, name)
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	before, rest, begins := strings.Cut(string(page), beginGenerated)
	_, after, ends := strings.Cut(rest, endGenerated)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for what is generated: it needs the lines %q and %q", name, beginGenerated, endGenerated)
	}
	filled := before + beginGenerated + "\n" + text + "\n" + endGenerated + after
	if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// phasesPart shows the table of phases: the ways between them, and what actions do.
func phasesPart() string { return ways() + "\n" + effects() }

// ways lists the ways between phases, which docs/lifecycle.svg draws.
func ways() string {
	b := &strings.Builder{}
	b.WriteString("| from | to | when |\n|---|---|---|\n")
	for _, way := range phase.Ways() {
		when := way.When
		if len(way.Actions) > 0 {
			when = listed(way.Actions)
		}
		from := cmp.Or(string(way.From), "(new)")
		if way.From != way.To {
			fmt.Fprintf(b, "| %s | %s | %s |\n", from, way.To, when)
		}
	}
	return b.String()
}

func listed(actions []busv1alpha1.Action) string {
	names := make([]string, 0, len(actions))
	for _, action := range actions {
		names = append(names, string(action))
	}
	return strings.Join(names, ", ")
}

// effects tells for each phase what each action does in it. Phases in which all do the same share their rows.
func effects() string {
	b := &strings.Builder{}
	b.WriteString("| in phase | action | leads to | pods that go | is a run |\n|---|---|---|---|---|\n")
	var done []string
	for _, p := range phase.Phases() {
		rows := rowsOf(p)
		if rows == "" || slices.Contains(done, rows) {
			continue
		}
		done = append(done, rows)
		var alike []string
		for _, other := range phase.Phases() {
			if rowsOf(other) == rows {
				alike = append(alike, string(other))
			}
		}
		b.WriteString(strings.ReplaceAll(rows, "{phase}", strings.Join(alike, ", ")))
	}
	b.WriteString("\nAn action that has no row for a phase does nothing in it.\n")
	return b.String()
}

func rowsOf(p batchv1alpha1.JobPhase) string {
	b := &strings.Builder{}
	for _, action := range phase.Actions() {
		effect, honoured := phase.Act(p, action, 0, 3)
		if !honoured {
			continue
		}
		run := "no"
		if effect.Retry {
			run = "yes"
		}
		fmt.Fprintf(b, "| {phase} | %s | %s | %s | %s |\n", action, effect.Next, whoGoes[effect.Kill], run)
	}
	return b.String()
}

var whoGoes = map[phase.Kill]string{
	phase.KillAll:          "all",
	phase.KillUnfinished:   "unfinished pods",
	phase.KillUnsuccessful: "all but succeeded pods",
	phase.KillTargets:      "those that it is about",
}
