// Command measure prints how plain the scheduler is: its sizes, where a gang's phase is derived, and words that we do not use. It fails when a
// goal is missed.
package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// scheduler is the folder of the scheduler's own packages.
	scheduler = []string{"pkg/scheduler"}
	// heart is what is counted in lines.
	heart = []string{"pkg/scheduler", "pkg/placement", "pkg/reservations"}
	// all is what is read for long functions and words.
	all = []string{"pkg/scheduler", "pkg/gang", "pkg/placement", "pkg/quota", "pkg/ledger", "pkg/reservations"}
	// pages are the docs about the scheduler.
	pages = []string{"docs/concepts.md", "docs/gangs.md", "docs/plain-scheduler.md", "docs/why-pending.md", "docs/install.md",
		"docs/reference/scheduler-metrics.md", "docs/reference/plugin-arguments.md", "docs/reference/reasons.md"}
)

// lifecycle is the file that derives a gang's phase.
const lifecycle = "pkg/gang/lifecycle.go"

// The goals.
const (
	maxFields   = 25
	maxMethods  = 50
	maxLines    = 7000
	maxFunction = 60
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
	measures, err := measureAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(2)
	}
	if !printTable(measures) {
		os.Exit(1)
	}
}

// printTable prints the measures, then what is wrong. It says whether all goals are met.
func printTable(measures []measure) bool {
	met := true
	fmt.Printf("%-62s %6s %7s\n", "measure", "today", "goal")
	for _, m := range measures {
		mark, sign := "", "<="
		if m.missed() {
			mark, met = "  MISSED", false
		}
		if m.exactly {
			sign = "="
		}
		fmt.Printf("%-62s %6d %7s%s\n", m.name, m.value, fmt.Sprintf("%s %d", sign, m.goal), mark)
	}
	for _, m := range measures {
		if m.missed() && len(m.where) > 0 {
			fmt.Printf("\n%s:\n  %s\n", m.name, strings.Join(m.where, "\n  "))
		}
	}
	return met
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

func measureAll() ([]measure, error) {
	own, err := read(scheduler)
	if err != nil {
		return nil, err
	}
	counted, err := read(heart)
	if err != nil {
		return nil, err
	}
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
	imports, err := objections()
	if err != nil {
		return nil, err
	}
	fields, methods := largestStruct(own), mostMethods(own)
	inside, outside := statusLiterals(sources)
	long := longFunctions(sources)
	return []measure{
		{name: "fields of the largest struct in pkg/scheduler: " + fields.name, value: fields.count, goal: maxFields},
		{name: "methods of the largest type in pkg/scheduler: " + methods.name, value: methods.count, goal: maxMethods},
		{name: "lines of " + strings.Join(heart, " + "), value: linesOf(counted), goal: maxLines},
		{name: "functions that derive a gang's phase", value: len(inside), goal: 1, exactly: true, where: inside},
		{name: "places elsewhere that make a gang.Status", value: len(outside), where: outside},
		{name: fmt.Sprintf("functions of more than %d lines", maxFunction), value: len(long), where: long},
		{name: "words that we do not use", value: len(words), where: words},
		{name: "imports that break the order of packages", value: len(imports), where: imports},
	}, nil
}

// objections are what verifyimports prints, among it imports of k8s.io/kubernetes beyond the plugin interfaces.
func objections() ([]string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "run", "./hack/verifyimports").Output()
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	if err != nil && len(lines) == 0 {
		return nil, fmt.Errorf("running verifyimports: %w", err)
	}
	return lines, nil
}

// named is a type, and how many of something it has.
type named struct {
	name  string
	count int
}

// largestStruct finds the struct type with the most fields.
func largestStruct(sources []source) (largest named) {
	for _, s := range sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok && fields.Fields.NumFields() > largest.count {
				largest = named{s.file.Name.Name + "." + spec.Name.Name, fields.Fields.NumFields()}
			}
			return true
		})
	}
	return largest
}

// mostMethods finds the type with the most methods.
func mostMethods(sources []source) (most named) {
	counts := map[string]int{}
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := s.file.Name.Name + "." + receiver(f.Recv.List[0].Type)
			counts[name]++
			if counts[name] > most.count {
				most = named{name, counts[name]}
			}
		}
	}
	return most
}

// receiver is the name of the type of a method.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
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
