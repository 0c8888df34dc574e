package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository makes a folder with the given files and the pages that each repository has.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"README.md": "# Muster\n", "CONTRIBUTING.md": "# Working on it\n", "CHANGELOG.md": "# Changes\n",
	} {
		require.NoError(t, writeFile(root, name, []byte(content)))
	}
	for name, content := range files {
		require.NoError(t, writeFile(root, name, []byte(content)))
	}
	return root
}

// ofThisRepository are the pages of this repository. The tests do not change them.
var ofThisRepository = sync.OnceValues(func() ([]*page, error) { return build("../..") })

func TestTheSiteOfThisRepositoryHasNoDeadLink(t *testing.T) {
	pages, err := ofThisRepository()
	require.NoError(t, err)
	assert.Greater(t, len(pages), 50)
}

// Readers do not find a page that no other page links to.
func TestEveryPageIsLinkedFromTheFirst(t *testing.T) {
	pages, err := ofThisRepository()
	require.NoError(t, err)
	bySource := map[string]*page{}
	for _, p := range pages {
		bySource[p.source] = p
	}
	reached := map[string]bool{"docs/README.md": true}
	for next := []string{"docs/README.md"}; len(next) > 0; next = next[1:] {
		for _, link := range bySource[next[0]].links {
			source, _ := resolve(next[0], link)
			if !reached[source] {
				reached[source] = true
				next = append(next, source)
			}
		}
	}
	for source := range bySource {
		assert.True(t, reached[source], "no page leads from docs/README.md to %s: link to it", source)
	}
}

// TestEveryPageSaysItsKind: below its title, and docs/README.md lists it with that kind.
func TestEveryPageSaysItsKind(t *testing.T) {
	kindOfSection := map[string]string{"Tutorials": "Tutorial", "How-to": "How-to", "Explanation": "Explanation", "Reference": "Reference"}
	listed := map[string]string{} // page -> kind of the first section that lists it
	for _, section := range strings.Split(readFile(t, "../..", "docs/README.md"), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, ":")
		require.Contains(t, kindOfSection, title)
		for _, link := range regexp.MustCompile(`\]\(([^)#]+\.md)`).FindAllStringSubmatch(section, -1) {
			if source, _ := resolve("docs/README.md", link[1]); listed[source] == "" {
				listed[source] = kindOfSection[title]
			}
		}
	}
	sources, err := markdownFiles("../..")
	require.NoError(t, err)
	kind := regexp.MustCompile(`(?m)^# .*\n\n\*(Tutorial|How-to|Explanation|Reference)[*:]`)
	for _, source := range sources {
		if !strings.HasPrefix(source, "docs/") || source == "docs/README.md" {
			continue
		}
		found := kind.FindStringSubmatch(readFile(t, "../..", source))
		if assert.NotNil(t, found, "%s: write its kind below the title, such as *How-to*", source) && listed[source] != "" {
			assert.Equal(t, listed[source], found[1], "%s is in another section of docs/README.md", source)
		}
	}
}

func TestEveryExampleIsInTheGallery(t *testing.T) {
	gallery := readFile(t, "../..", "docs/examples.md")
	examples, err := filepath.Glob("../../manifests/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		assert.Contains(t, gallery, "../manifests/examples/"+filepath.Base(example))
	}
}

func TestADeadLinkIsAnError(t *testing.T) {
	for name, link := range map[string]string{
		"file":                      "gone.md",
		"folder":                    "../gone",
		"picture":                   "gone.svg",
		"heading":                   "there.md#gone",
		"heading of the same page":  "#gone",
		"heading of a file as text": "../LICENSE#gone",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(repository(t, map[string]string{
				"docs/README.md": "# Pages\n\n[a link](" + link + ")\n",
				"docs/there.md":  "# There\n\n## A heading\n",
				"LICENSE":        "Apache\n",
			}))
			assert.ErrorContains(t, err, "docs/README.md links to "+link)
		})
	}
}

func TestALinkLeadsToThePageOfTheSite(t *testing.T) {
	root := repository(t, map[string]string{
		"docs/README.md":        "# Pages\n\n[one](sub/one.md#a-heading) [two](../LICENSE) [three](https://example.com) [four](../manifests)\n",
		"docs/sub/one.md":       "# One\n\n## A heading\n\n![picture](picture.svg) [up](../README.md) [readme](../../README.md)\n",
		"docs/sub/picture.svg":  "<svg/>",
		"LICENSE":               "Apache & more\n",
		"manifests/queues.yaml": "kind: Queue\n",
	})
	out := t.TempDir()
	_, err := site(root, out)
	require.NoError(t, err)

	index := readFile(t, out, "index.html")
	for _, link := range []string{"sub/one.html#a-heading", "source/LICENSE.html", "https://example.com", "source/manifests.html"} {
		assert.Contains(t, index, `href="`+link+`"`)
	}
	one := readFile(t, out, "sub/one.html")
	assert.Contains(t, one, `src="../pictures/picture.svg"`)
	assert.Contains(t, one, `href="../index.html"`)
	assert.Contains(t, one, `href="../muster.html"`)
	assert.Contains(t, one, `id="a-heading"`)
	assert.Equal(t, "<svg/>", readFile(t, out, "pictures/picture.svg"))
	assert.Contains(t, readFile(t, out, "source/LICENSE.html"), "Apache &amp; more")
	assert.Contains(t, readFile(t, out, "source/manifests.html"), "queues.yaml")
	assert.Contains(t, readFile(t, out, "index.js"), `"title":"One"`)
}

func TestACellOfATableNamesItsColumn(t *testing.T) {
	p, err := render("docs/a.md", []byte("# A\n\n| reason | `do` |\n|---|---|\n| full | wait |\n"))
	require.NoError(t, err)
	assert.Contains(t, string(p.body), `<td data-label="reason">full</td>`)
	assert.Contains(t, string(p.body), `<td data-label="do">wait</td>`)
}

// searches are words that users look for, and a page that has to be found.
var searches = map[string]string{"gang minimum": "Gangs", "job stuck": "Troubleshooting", "mpirun": "mpi"}

// TestSearchesFindPages in the text of sections, as site.js does.
func TestSearchesFindPages(t *testing.T) {
	pages, err := ofThisRepository()
	require.NoError(t, err)
	for words, title := range searches {
		found := slices.ContainsFunc(pages, func(p *page) bool {
			return p.title == title && slices.ContainsFunc(p.sections, func(s section) bool {
				text := strings.ToLower(p.title + " " + s.Title + " " + s.text)
				return !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(text, word) })
			})
		})
		assert.True(t, found, "no section of %q has all words of %q", title, words)
	}
}

func TestNavigationLeadsFromPageToPage(t *testing.T) {
	out := t.TempDir()
	_, err := site(repository(t, map[string]string{
		"docs/README.md":     "# Pages\n\n[before all](b.md)\n\n## First: one\n\n[a](a.md) [sub](sub/README.md)\n\n## Second\n\n[b](b.md#part)\n",
		"docs/a.md":          "# The A\n\n## Part\n\ntext\n\n### Detail\n\n```yaml\na: 1\n```\n",
		"docs/b.md":          "# The B\n\n## part\n",
		"docs/sub/README.md": "# The sub\n\n[one](one.md) [a](../a.md)\n",
		"docs/sub/one.md":    "# The one\n",
	}), out)
	require.NoError(t, err)
	one := readFile(t, out, "sub/one.html")
	assert.Contains(t, one, `<h2>First: one</h2>`)
	assert.Contains(t, one, `<a href="../sub/one.html" aria-current="page">The one</a>`)
	assert.Contains(t, one, `<a rel="prev" href="../sub/index.html">← The sub</a>`)
	assert.Contains(t, one, `<a rel="next" href="../b.html">The B →</a>`)
	assert.NotContains(t, one, "On this page", "it has no headings")
	a := readFile(t, out, "a.html")
	assert.Contains(t, a, `<li class="level2"><a href="#part">Part</a></li>`)
	assert.Contains(t, a, `<li class="level3"><a href="#detail">Detail</a></li>`)
	assert.Contains(t, a, `<span class="nt">a</span>`, "code has colors")
	assert.Contains(t, readFile(t, out, "colors.css"), ".chroma .nt")
	assert.Contains(t, readFile(t, out, "index.js"), `{"url":"a.html#detail","page":"The A","title":"Detail","text":"a: 1"}`)
}

func readFile(t *testing.T, folder, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(content)
}
