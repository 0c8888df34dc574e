package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark/ast"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// testsOf returns the folders of all tests of the repository, by their names.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := map[string][]string{}
	for _, folder := range []string{"cmd", "pkg", "test", "hack", "manifests"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name)
			for _, match := range function.FindAllSubmatch(content, -1) {
				where, _ := filepath.Rel("../..", filepath.Dir(name))
				tests[string(match[1])] = append(tests[string(match[1])], filepath.ToSlash(where))
			}
			return err
		}))
	}
	return tests
}

// TestEveryTestThatAPageNamesExists, and in the folder that the page names.
func TestEveryTestThatAPageNamesExists(t *testing.T) {
	tests := testsOf(t)
	require.Greater(t, len(tests), 1000)
	sources, err := markdownFiles("../..")
	require.NoError(t, err)
	named := regexp.MustCompile(`\b(Test[A-Z]\w+)\b(?:` + "`?" + ` in ((?:cmd|pkg|test|hack)/[\w/.-]*\w))?`)
	patterns := regexp.MustCompile(`-run '?\^?[\w/]+`)
	for _, source := range sources {
		page := patterns.ReplaceAllString(readFile(t, "../..", source), "")
		for _, match := range named.FindAllStringSubmatch(page, -1) {
			if folders, exists := tests[match[1]]; assert.True(t, exists, "%s names %s, which does not exist", source, match[1]) && match[2] != "" {
				assert.Contains(t, folders, match[2], "%s names %s in %s", source, match[1], match[2])
			}
		}
	}
}

// unproven returns the paragraphs, items and tables of a page that nothing proves. A link proves, and a comment "<!-- proof: TestName in
// folder -->" behind it. Commands prove the paragraph before them: TestTheCommandsOfThePages runs them, or a comment names who does.
func unproven(content []byte) []string {
	var found []string
	document := markdown.Parser().Parse(text.NewReader(content))
	for block := document.FirstChild(); block != nil; block = block.NextSibling() {
		after := block.NextSibling()
		switch block.(type) {
		case *ast.Paragraph:
			if !hasProof(block, content) && !isProof(after, content) && !isCode(after, content) && !introduces(block, after, content) {
				found = append(found, plainText(block, content))
			}
		case *extensionast.Table:
			if !hasProof(block, content) && !isProof(after, content) && (after == nil || !hasProof(after, content)) {
				found = append(found, plainText(block, content))
			}
		case *ast.List:
			for item := block.FirstChild(); item != nil; item = item.NextSibling() {
				if !hasProof(item, content) && !isProof(after, content) {
					found = append(found, plainText(item, content))
				}
			}
		}
	}
	return found
}

// introduces says whether a paragraph only says what the list after it is.
func introduces(paragraph, after ast.Node, content []byte) bool {
	_, isList := after.(*ast.List)
	return isList && strings.HasSuffix(plainText(paragraph, content), ":")
}

// hasProof says whether a link or a proof stands below the node.
func hasProof(node ast.Node, content []byte) bool {
	has := false
	_ = ast.Walk(node, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		_, isLink := n.(*ast.Link)
		_, isPicture := n.(*ast.Image)
		has = has || isLink || isPicture || isProof(n, content)
		return ast.WalkContinue, nil
	})
	return has
}

// isProof says whether a block is a comment with a proof.
func isProof(node ast.Node, content []byte) bool {
	html, is := node.(*ast.HTMLBlock)
	return is && strings.HasPrefix(string(html.Lines().Value(content)), "<!-- proof: Test")
}

// isCode says whether commands come next, with or without a comment on who runs them.
func isCode(node ast.Node, content []byte) bool {
	if html, is := node.(*ast.HTMLBlock); is && strings.HasPrefix(string(html.Lines().Value(content)), "<!-- not run: ") {
		node = node.NextSibling()
	}
	_, is := node.(*ast.FencedCodeBlock)
	return is
}

func TestEveryClaimOfTheReadmeIsProven(t *testing.T) {
	for _, claim := range unproven([]byte(readFile(t, "../..", "README.md"))) {
		assert.Fail(t, "nothing proves what README says: link to a page, or name a test in a comment <!-- proof: TestName in folder -->", claim)
	}
}

func TestAClaimWithoutProofIsFound(t *testing.T) {
	for page, want := range map[string][]string{
		"It is fast.\n": {"It is fast."},
		"It is fast.\n<!-- proof: TestFast in pkg/a -->\n":     nil,
		"It is [fast](a.md).\n":                                nil,
		"Run it:\n\n```console\n$ it\n```\n":                   nil,
		"Run it:\n\n<!-- not run: x -->\n\n```console\n```\n":  nil,
		"- one\n- [two](a.md)\n":                               {"one"},
		"- one\n  <!-- proof: TestOne in pkg/a -->\n- two\n":   {"two"},
		"- one\n- two\n<!-- proof: TestOne in pkg/a -->\n":     nil,
		"| a | b |\n|---|---|\n| 1 | 2 |\n\ntext [more](a.md)": nil,
		"| a | b |\n|---|---|\n| 1 | 2 |\n":                    {"a b 1 2"},
	} {
		assert.Equal(t, want, unproven([]byte(page)), page)
	}
}
