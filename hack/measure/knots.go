package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is what the import paths of our packages begin with.
const module = "github.com/muster-sched/muster/"

// checked is a package of ours with its types. Tests are left out.
type checked struct {
	folder string
	files  []*ast.File
	set    *token.FileSet
	pkg    *types.Package
	uses   map[*ast.Ident]types.Object
}

// listed is the part of "go list -json" that matters here.
type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
	DepOnly                 bool
}

// load parses all packages of the module in the working directory, and computes their types.
func load(ctx context.Context) ([]checked, error) {
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("running go list: %w", err)
	}
	var own []listed
	exports := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			own = append(own, p)
		}
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var packages []checked
	for _, p := range own {
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		c, err := check(strings.TrimPrefix(p.ImportPath, module), set, files, imports)
		if err != nil {
			return nil, err
		}
		packages = append(packages, c)
	}
	return packages, nil
}

func check(folder string, set *token.FileSet, files []*ast.File, imports types.Importer) (checked, error) {
	c := checked{folder: folder, files: files, set: set, uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	var err error
	if c.pkg, err = config.Check(module+folder, set, files, &types.Info{Uses: c.uses}); err != nil {
		return c, fmt.Errorf("computing the types of %s: %w", folder, err)
	}
	return c, nil
}

// knot returns the files of the largest knot. Two files are in one knot if each uses what the other declares, directly or by way of others.
func (c *checked) knot() []string {
	uses := graph{}
	for id, object := range c.uses {
		if object.Pkg() == c.pkg && object.Pos().IsValid() {
			uses.add(c.fileOf(id.Pos()), c.fileOf(object.Pos()))
		}
	}
	return slices.MaxFunc(append(uses.circles(), nil), func(a, b []string) int { return len(a) - len(b) })
}

func (c *checked) fileOf(pos token.Pos) string { return filepath.Base(c.set.Position(pos).Filename) }

// circle is a set of types that reach each other through fields, or a single type.
type circle struct {
	types           []string
	fields, methods int
}

// circles returns the circles of types with the most fields, and with the most methods. A part that points back to its owner is in one
// circle with it.
func (c *checked) circles() (fields, methods circle) {
	own, holds := map[string]*types.Named{}, graph{}
	scope := c.pkg.Scope()
	for _, name := range scope.Names() {
		declared, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || declared.IsAlias() {
			continue
		}
		if t, ok := declared.Type().(*types.Named); ok {
			own[name] = t
			holds.add(name, name)
			c.reach(t.Underlying(), func(held string) { holds.add(name, held) })
		}
	}
	for _, names := range holds.circles() {
		found := circle{types: names}
		for _, name := range names {
			found.methods += own[name].NumMethods()
			if s, ok := own[name].Underlying().(*types.Struct); ok {
				found.fields += s.NumFields()
			}
		}
		if found.fields > fields.fields {
			fields = found
		}
		if found.methods > methods.methods {
			methods = found
		}
	}
	return fields, methods
}

// reach calls found with each type of the package that a value has in its fields, elements and keys. Functions and interfaces end it.
func (c *checked) reach(t types.Type, found func(name string)) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if t.Obj().Pkg() == c.pkg && t.Obj().Parent() == c.pkg.Scope() {
			found(t.Obj().Name())
		}
		for argument := range t.TypeArgs().Types() {
			c.reach(argument, found)
		}
	case *types.Map:
		c.reach(t.Key(), found)
		c.reach(t.Elem(), found)
	case *types.Struct:
		for field := range t.Fields() {
			c.reach(field.Type(), found)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		c.reach(t.Elem(), found)
	}
}

// graph says for each node to which others it leads.
type graph map[string]map[string]bool

func (g graph) add(from, to string) {
	for _, node := range []string{from, to} {
		if g[node] == nil {
			g[node] = map[string]bool{}
		}
	}
	g[from][to] = true
}

// circles returns the sets of nodes that can be reached from each other, sorted. Each node is in one of them, alone if need be.
func (g graph) circles() [][]string {
	reachable := map[string]map[string]bool{}
	for node := range g {
		reachable[node] = map[string]bool{}
		g.collect(node, reachable[node])
	}
	var all [][]string
	for node := range g {
		set := []string{node}
		for other := range reachable[node] {
			if other != node && reachable[other][node] {
				set = append(set, other)
			}
		}
		slices.Sort(set)
		if set[0] == node {
			all = append(all, set)
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

func (g graph) collect(node string, into map[string]bool) {
	for next := range g[node] {
		if !into[next] {
			into[next] = true
			g.collect(next, into)
		}
	}
}
