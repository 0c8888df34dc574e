package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const example = `package gangs

type small struct{ a, b int }

type large struct {
	a, b int
	c    string
}

func (l *large) one() {}
func (l large) two()  {}
func (small) three()  {}

func elsewhere() any { return gang.Status{Phase: gang.Ready} }
func nothing() any   { return gang.Status{} }
`

func parsed(t *testing.T, path, text string) source {
	t.Helper()
	s, err := parse(path, text)
	require.NoError(t, err)
	return s
}

func TestSizes(t *testing.T) {
	sources := []source{parsed(t, "pkg/scheduler/gangs/a.go", example)}
	assert.Equal(t, strings.Count(example, "\n"), linesOf(sources))
	assert.Empty(t, longFunctions(sources))
	long := "package p\n\nfunc long() {\n" + strings.Repeat("\tlong()\n", maxFunction-1) + "}\n"
	assert.Equal(t, []string{"p.go:3: long has 61 lines"}, longFunctions([]source{parsed(t, "p.go", long)}))
}

func TestPlacesThatDeriveAPhase(t *testing.T) {
	inside, outside := statusLiterals([]source{
		parsed(t, "pkg/scheduler/gangs/a.go", example),
		parsed(t, lifecycle, "package gang\n\nfunc status() Status {\n\tif true {\n\t\treturn Status{Phase: Ready}\n\t}\n\treturn Status{Phase: Running}\n}\n"),
		parsed(t, "pkg/gang/other.go", "package gang\n\nvar other = Status{Phase: Ready}\n"),
	})
	assert.Equal(t, []string{lifecycle + ":3: status"}, inside)
	assert.Equal(t, []string{"pkg/scheduler/gangs/a.go:14: makes a gang.Status", "pkg/gang/other.go:3: makes a gang.Status"}, outside)
}

func TestWords(t *testing.T) {
	for text, found := range map[string]int{
		"// what is set aside for it":             1,
		"func (s *Store) SetAside() {}":           1,
		"// beside it, around the Considerations": 0,
		"// nobody promised anything":             2,
		"d := time.Since(t).Round(time.Second)":   0,
		"// a round of the gang":                  1,
		"args.MaxOvertakes":                       0,
		"// gangs that overtake it":               1,
		"// it lets go of it":                     1,
		"func line() {}":                          1,
		"// a line of text":                       0,
		"// broadcast a cast":                     1,
		"var news = somebody":                     2,
		"// yields, yielded, yielding":            3,
	} {
		assert.Len(t, wordsOfText("p.go", text, true), found, text)
	}
	assert.Equal(t, []string{"a.md:2: aside (say: reservation)"}, wordsOfText("a.md", "one\nset aside\n", false))
	assert.Empty(t, wordsOfText("a.md", "func line", false), "no code")
}

func TestGoals(t *testing.T) {
	none := map[string]int{}
	assert.True(t, printTable([]measure{{name: "a", value: 1, goal: 2}, {name: "b", value: 1, goal: 1, exactly: true}}, none, false))
	assert.False(t, printTable([]measure{{name: "a", value: 3, goal: 2, where: []string{"here"}}}, none, false))
	assert.False(t, printTable([]measure{{name: "b", value: 0, goal: 1, exactly: true}}, none, false))
}

func TestOpenGoalsMayOnlyFall(t *testing.T) {
	open := map[string]int{"a": 5}
	for value, passes := range map[int]bool{6: false, 5: true, 4: true, 2: true} {
		assert.Equal(t, passes, printTable([]measure{{name: "a", value: value, goal: 2}}, open, false), "%d", value)
	}
	assert.False(t, printTable([]measure{{name: "b", goal: 2}}, open, false), "a name that is not measured")
}

func TestConcepts(t *testing.T) {
	page := "# Page\n\n" + lists[0].heading + "\n\n| | concept |\n|---|---|\n| 1 | gang |\n| 2 | member |\n\nMore:\n\n| concept |\n|---|\n| seat |\n\n## Next\n\n| a |\n|---|\n| b |\n"
	assert.Equal(t, 3, conceptsOf(page)[0].value)
	missing := conceptsOf("# Page\n")[0]
	assert.True(t, missing.missed(), "a page without a list")
}
