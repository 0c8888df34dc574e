// Command measure prints how plain the code is, such as knots of files and types, sizes, and refused words. It fails when a goal is
// missed. Goals in the list of open goals may be missed, but their figures must not rise.
package main

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-sched/muster/hack/prose/plain"
)

var (
	// scheduler is the folder of the scheduler's own packages.
	scheduler = "pkg/scheduler"
	// heart is what is counted in lines: the scheduler, and what it shares with the admission of PodGroups.
	heart = []string{"pkg/scheduler", "pkg/placement", "pkg/reservations", "pkg/gang", "pkg/quota", "pkg/ledger", "pkg/admission", "pkg/controllers/usage",
		"pkg/controllers/podgroup"}
	// jobs is the controller of Jobs.
	jobs = []string{"pkg/controllers/job", "pkg/job/plan"}
	// all is what is read for long functions and words.
	all = []string{"pkg/scheduler", "pkg/gang", "pkg/placement", "pkg/quota", "pkg/ledger", "pkg/reservations"}
	// everything is what is read for long sentences.
	everything = []string{"cmd", "hack", "manifests", "pkg", "test"}
	// pages are the docs about the scheduler.
	pages = []string{"docs/concepts.md", "docs/gangs.md", "docs/plain-scheduler.md", "docs/why-pending.md", "docs/install.md",
		"docs/reference/scheduler-metrics.md", "docs/reference/plugin-arguments.md", "docs/reference/reasons.md"}
)

// lifecycle is the file that derives a gang's phase.
const lifecycle = "pkg/gang/lifecycle.go"

// The goals.
const (
	maxKnot       = 6
	maxFields     = 25
	maxMethods    = 50
	maxHeartLines = 15000
	maxJobLines   = 5000
	maxFunction   = 60
)

// measure is a row of the table.
type measure struct {
	name    string
	value   int
	goal    int
	exactly bool     // otherwise the value may be smaller
	where   []string // what to look at
}

func (m *measure) missed() bool { return m.value > m.goal || m.exactly && m.value != m.goal }

func main() {
	everyPlace := flag.Bool("v", false, "list the places of open goals, too")
	flag.Parse()
	measures, err := measureAll(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(2)
	}
	if !printTable(measures, open, *everyPlace) {
		os.Exit(1)
	}
}

// printTable prints the measures, then places to look at. Places of open goals are printed if all are wanted. It returns false for a goal that
// is missed and not open, or whose figure has risen.
func printTable(measures []measure, open map[string]int, everyPlace bool) bool {
	passed := true
	var explained []measure
	fmt.Printf("%-75s %6s %8s\n", "measure", "today", "goal")
	unused := maps.Clone(open)
	for _, m := range measures {
		limit, isOpen := open[m.name]
		delete(unused, m.name)
		mark, sign := "", "<="
		switch {
		case isOpen && !m.missed():
			mark = "  met: remove it from the list of open goals"
		case isOpen && m.value < limit:
			mark = fmt.Sprintf("  open: lower its figure in the list from %d to %d", limit, m.value)
		case isOpen && m.value == limit:
			mark = "  open"
		case isOpen:
			mark, passed = fmt.Sprintf("  RISEN above %d", limit), false
		case m.missed():
			mark, passed = "  MISSED", false
		}
		if m.exactly {
			sign = "="
		}
		if m.missed() && len(m.where) > 0 && (everyPlace || !isOpen || m.value > limit) {
			explained = append(explained, m)
		}
		fmt.Printf("%-75s %6d %8s%s\n", m.name, m.value, fmt.Sprintf("%s %d", sign, m.goal), mark)
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		fmt.Printf("UNKNOWN: %s stands in the list of open goals, and nothing with this name is measured\n", name)
		passed = false
	}
	for _, m := range explained {
		fmt.Printf("\n%s:\n  %s\n", m.name, strings.Join(m.where, "\n  "))
	}
	return passed
}

// source is a file of Go.
type source struct {
	path string
	text string
	file *ast.File
	set  *token.FileSet
}

func (s *source) line(pos token.Pos) int { return s.set.Position(pos).Line }

// at is a place in the file.
func (s *source) at(pos token.Pos, what string) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.line(pos), what)
}

// read parses all files of folders but tests.
func read(folders []string) ([]source, error) {
	var sources []source
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s, err := parse(path, string(text))
			sources = append(sources, s)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", folder, err)
		}
	}
	return sources, nil
}

func parse(path, text string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	return source{path: filepath.ToSlash(path), text: text, file: file, set: set}, err
}

func measureAll(ctx context.Context) ([]measure, error) {
	packages, err := load(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := read(heart)
	if err != nil {
		return nil, err
	}
	jobLines, err := read(jobs)
	if err != nil {
		return nil, err
	}
	texts, err := textMeasures(ctx)
	if err != nil {
		return nil, err
	}
	byHand := passedOn(packages, scheduler)
	measures := append(tied(packages, open),
		measure{name: "calls in " + scheduler + " that pass a consequence on, but in " + applies, value: len(byHand), where: byHand},
		measure{name: "lines of the scheduler and of what it shares with admission", value: linesOf(counted), goal: maxHeartLines, where: heart},
		measure{name: "lines of " + strings.Join(jobs, " + "), value: linesOf(jobLines), goal: maxJobLines})
	return append(measures, texts...), nil
}

// tied measures knots and circles. Packages that miss a goal or are in the list of open goals have rows of their own.
func tied(packages []checked, open map[string]int) (measures []measure) {
	others := []measure{
		{name: "files in one knot: any other package", goal: maxKnot},
		{name: "fields of a circle of types: any other package", goal: maxFields},
		{name: "methods of a circle of types: any other package", goal: maxMethods},
	}
	for _, c := range packages {
		knot := c.knot()
		fields, methods := c.circles()
		for i, m := range []measure{
			{name: "files in one knot: " + c.folder, value: len(knot), goal: maxKnot, where: knot},
			{name: "fields of a circle of types: " + c.folder, value: fields.fields, goal: maxFields, where: fields.types},
			{name: "methods of a circle of types: " + c.folder, value: methods.methods, goal: maxMethods, where: methods.types},
		} {
			m.where = []string{strings.Join(m.where, " ")}
			if _, isOpen := open[m.name]; isOpen || m.missed() {
				measures = append(measures, m)
			} else {
				others[i].value = max(others[i].value, m.value)
			}
		}
	}
	return append(measures, others...)
}

// textMeasures are the rows of the table that are computed without type information.
func textMeasures(ctx context.Context) ([]measure, error) {
	sources, err := read(all)
	if err != nil {
		return nil, err
	}
	words := wordsIn(sources)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		words = append(words, wordsOfText(page, string(text), false)...)
	}
	imports, err := objections(ctx)
	if err != nil {
		return nil, err
	}
	sentences, err := longSentences()
	if err != nil {
		return nil, err
	}
	concepts, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		return nil, err
	}
	inside, outside := statusLiterals(sources)
	long := longFunctions(sources)
	return append(conceptsOf(string(concepts)),
		measure{name: "functions that derive a gang's phase", value: len(inside), goal: 1, exactly: true, where: inside},
		measure{name: "places elsewhere that make a gang.Status", value: len(outside), where: outside},
		measure{name: fmt.Sprintf("functions of more than %d lines", maxFunction), value: len(long), where: long},
		measure{name: "words that we do not use", value: len(words), where: words},
		measure{name: "sentences of comments that are too long", value: len(sentences), where: sentences},
		measure{name: "imports that break the order of packages", value: len(imports), where: imports},
	), nil
}

// longSentences lists the sentences of comments with too many words, tests included.
func longSentences() (found []string, err error) {
	for _, folder := range everything {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			long, err := plain.LongComments(filepath.ToSlash(path), string(text))
			found = append(found, long...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading the comments of %s: %w", folder, err)
		}
	}
	return found, nil
}

// objections are what verifyimports prints, among it imports of k8s.io/kubernetes beyond the plugin interfaces.
func objections(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "run", "./hack/verifyimports").Output()
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	if err != nil && len(lines) == 0 {
		return nil, fmt.Errorf("running verifyimports: %w", err)
	}
	return lines, nil
}

// linesOf counts lines as wc does.
func linesOf(sources []source) (lines int) {
	for _, s := range sources {
		lines += strings.Count(s.text, "\n")
	}
	return lines
}

// statusLiterals finds where a gang.Status with a phase is made: the functions of lifecycle.go, and places elsewhere.
func statusLiterals(sources []source) (inside, outside []string) {
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			makes := token.NoPos
			ast.Inspect(decl, func(n ast.Node) bool {
				if literal, ok := n.(*ast.CompositeLit); ok && isStatus(literal.Type, s.file.Name.Name) && len(literal.Elts) > 0 {
					makes = literal.Pos()
				}
				return true
			})
			if f, ok := decl.(*ast.FuncDecl); ok && makes.IsValid() && s.path == lifecycle {
				inside = append(inside, s.at(f.Pos(), f.Name.Name))
			} else if makes.IsValid() {
				outside = append(outside, s.at(makes, "makes a gang.Status"))
			}
		}
	}
	return inside, outside
}

func isStatus(expr ast.Expr, pkg string) bool {
	switch e := expr.(type) {
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "gang" && e.Sel.Name == "Status"
	case *ast.Ident:
		return pkg == "gang" && e.Name == "Status"
	}
	return false
}

// longFunctions lists functions with too many lines.
func longFunctions(sources []source) (long []string) {
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.line(f.End()) - s.line(f.Pos()) + 1; lines > maxFunction {
				long = append(long, s.at(f.Pos(), fmt.Sprintf("%s has %d lines", f.Name.Name, lines)))
			}
		}
	}
	slices.Sort(long)
	return long
}
