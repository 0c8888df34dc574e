package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typed computes the types of a package whose files are named by letters. The text of each follows its package clause.
func typed(t *testing.T, folder string, texts ...string) checked {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for i, text := range texts {
		file, err := parser.ParseFile(set, string(rune('a'+i))+".go", "package p\n"+text, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	c, err := check(folder, set, files, importer.Default())
	require.NoError(t, err)
	return c
}

func TestKnot(t *testing.T) {
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"one way":                  {[]string{"func a() { b() }", "func b() { c() }", "func c() {}"}, "a.go"},
		"both ways":                {[]string{"func a() { b() }", "func b() { a() }", "func c() { a() }"}, "a.go b.go"},
		"by way of a third":        {[]string{"func a() { b() }", "func b() { c() }", "func c() { a() }"}, "a.go b.go c.go"},
		"methods of another file":  {[]string{"type t struct{}\nfunc a(x t) { x.m() }", "func (t) m() {}"}, "a.go b.go"},
		"fields of another file":   {[]string{"type t struct{ n int }\nvar _ = b", "func b(x t) int { return x.n }"}, "a.go b.go"},
		"the same name in another": {[]string{"func a() { b() }", "func b() { a := 1; _ = a }"}, "a.go"},
	} {
		c := typed(t, "pkg/p", test.texts...)
		assert.Equal(t, test.want, strings.Join(c.knot(), " "), name)
	}
}

func TestCircle(t *testing.T) {
	for name, test := range map[string]struct {
		text            string
		fields, methods int
	}{
		"parts that their owner holds":       {"type a struct{ b *b; c map[string][]c }\ntype b struct{ n int }\ntype c struct{ l, m, n int }", 3, 0},
		"a part that points back":            {"type a struct{ b *b; n int }\ntype b struct{ owner *a }\nfunc (a) m() {}\nfunc (b) m() {}", 3, 2},
		"back by way of a slice and a third": {"type a struct{ b []b }\ntype b struct{ c chan c }\ntype c struct{ of map[*a]bool }\nfunc (*a) m() {}", 3, 1},
		"back by an argument of a type":      {"type a struct{ b *b[a] }\ntype b[T any] struct{ c, d T }\nfunc (a) m() {}", 2, 1},
		"an interface is a door":             {"type a struct{ b b }\ntype b struct{ owner interface{ m() } }\nfunc (a) m() {}\nfunc (b) n() {}", 1, 1},
		"an embedded owner":                  {"type a struct{ b *b }\ntype b struct{ *a }\nfunc (a) m() {}\nfunc (b) n() {}", 2, 2},
	} {
		c := typed(t, "pkg/p", test.text)
		fields, methods := c.circles()
		assert.Equal(t, test.fields, fields.fields, name)
		assert.Equal(t, test.methods, methods.methods, name)
	}
}

func TestConsequencesThatArePassedOnByHand(t *testing.T) {
	text := "type t struct{}\nfunc (t) look() {}\nfunc (t) other() {}\nfunc (x t) apply() { x.look() }\nfunc (x t) verb() { x.look(); x.other(); f := x.look; f() }\n"
	for folder, want := range map[string]int{"pkg/scheduler/p": 2, "pkg/placement": 0} {
		assert.Len(t, passedOn([]checked{typed(t, folder, text)}, "pkg/scheduler"), want, folder)
	}
}
