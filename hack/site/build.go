package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// page is a file of the site.
type page struct {
	// source is the file of the repository, with slashes, from its root.
	source string
	// target is the file of the site.
	target string
	title  string
	body   template.HTML
	// raw is the whole file, where it is no page but a picture.
	raw []byte
	// sections are what the search looks through. A page without sections is not searched.
	sections []section
	// ids are the anchors of the page.
	ids []string
	// links are the local links of the page, as they stand in the source.
	links []string
}

// section is a heading of a page and what stands below it, up to the next heading.
type section struct {
	Level     int
	ID, Title string
	text      string
}

// Title, Target and Body are what the layout shows of a page.
func (p *page) Title() string       { return p.title }
func (p *page) Target() string      { return p.target }
func (p *page) Body() template.HTML { return p.body }

// Contents are the headings that the contents of a page show.
func (p *page) Contents() []section {
	return slices.DeleteFunc(slices.Clone(p.sections), func(s section) bool { return s.Level != 2 && s.Level != 3 })
}

// build returns the pages of the repository in root. The error names all links that lead nowhere.
func build(root string) ([]*page, error) {
	sources, err := markdownFiles(root)
	if err != nil {
		return nil, err
	}
	var pages []*page
	for _, source := range sources {
		content, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			return nil, err
		}
		rendered, err := render(source, content)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", source, err)
		}
		pages = append(pages, rendered)
	}
	linked, err := linkedFiles(root, pages)
	if err != nil {
		return nil, err
	}
	pages = append(pages, linked...)
	return pages, deadLinks(pages)
}

// markdownFiles lists the pages for readers: the ones in docs, and those at the root.
func markdownFiles(root string) ([]string, error) {
	files := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		source, err := filepath.Rel(root, name)
		files = append(files, filepath.ToSlash(source))
		return err
	})
	return files, err
}

// targetOf returns the file of the site that shows a file or a folder of the repository.
func targetOf(source string) string {
	switch {
	case source == "README.md":
		return "muster.html"
	case isPicture(source):
		return "pictures/" + path.Base(source)
	case !strings.HasSuffix(source, ".md"):
		return "source/" + source + ".html"
	}
	target := strings.TrimPrefix(strings.TrimSuffix(source, ".md"), "docs/")
	if path.Base(target) == "README" {
		target = path.Join(path.Dir(target), "index")
	}
	return strings.ToLower(target) + ".html"
}

// linkedFiles returns a page for each file or folder that the pages link to and that is no page yet.
func linkedFiles(root string, pages []*page) ([]*page, error) {
	known := map[string]bool{}
	for _, p := range pages {
		known[p.source] = true
	}
	var more []*page
	for _, p := range pages {
		for _, link := range p.links {
			source, _ := resolve(p.source, link)
			if known[source] {
				continue
			}
			known[source] = true
			content, err := readAny(filepath.Join(root, source))
			if errors.Is(err, fs.ErrNotExist) {
				continue // A dead link, which deadLinks names.
			}
			if err != nil {
				return nil, err
			}
			more = append(more, pageOfFile(source, content))
		}
	}
	return more, nil
}

// pageOfFile shows a file that is no Markdown as it is: a picture as itself, all else as text.
func pageOfFile(source, content string) *page {
	if isPicture(source) {
		return &page{source: source, target: targetOf(source), raw: []byte(content)}
	}
	body := "<h1>" + template.HTMLEscapeString(source) + "</h1>\n<pre><code>" + template.HTMLEscapeString(content) + "</code></pre>\n"
	return &page{source: source, target: targetOf(source), title: source, body: template.HTML(body)} //nolint:gosec // escaped above
}

// readAny returns a file's content, or the names in a folder, one a line.
func readAny(name string) (string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		content, err := os.ReadFile(name)
		return string(content), err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, "\n"), nil
}

// isPicture says whether a file is copied as it is.
func isPicture(source string) bool { return path.Ext(source) == ".svg" }

// resolve returns the file of the repository and the anchor that a link in a page names.
func resolve(from, link string) (source, anchor string) {
	file, anchor, _ := strings.Cut(link, "#")
	if file == "" {
		return from, anchor
	}
	return path.Join(path.Dir(from), file), anchor
}

// deadLinks returns an error that names each link whose file or anchor does not exist.
func deadLinks(pages []*page) error {
	bySource := map[string]*page{}
	for _, p := range pages {
		bySource[p.source] = p
	}
	var dead []error
	for _, p := range pages {
		for _, link := range p.links {
			source, anchor := resolve(p.source, link)
			target := bySource[source]
			switch {
			case target == nil:
				dead = append(dead, fmt.Errorf("%s links to %s, which does not exist", p.source, link))
			case anchor != "" && !slices.Contains(target.ids, anchor):
				dead = append(dead, fmt.Errorf("%s links to %s, but %s has no such heading", p.source, link, source))
			}
		}
	}
	return errors.Join(dead...)
}

// write writes the pages with the navigation, the pictures and the search into out.
func write(pages []*page, groups []group, out string) error {
	layout, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}
	for _, p := range pages {
		content, err := p.html(layout, groups)
		if err != nil {
			return fmt.Errorf("writing %s: %w", p.target, err)
		}
		if err := writeFile(out, p.target, content); err != nil {
			return err
		}
	}
	if err := writeSearch(pages, out); err != nil {
		return err
	}
	if err := writeFile(out, "colors.css", colors()); err != nil {
		return err
	}
	for _, name := range []string{"style.css", "site.js"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := writeFile(out, name, content); err != nil {
			return err
		}
	}
	return nil
}

// html returns the file with the site's header and navigation around its body.
func (p *page) html(layout *template.Template, groups []group) ([]byte, error) {
	if p.raw != nil {
		return p.raw, nil
	}
	before, after := neighbours(sequence(groups), p.source)
	var html bytes.Buffer
	err := layout.Execute(&html, map[string]any{
		"Page": p, "Top": strings.Repeat("../", strings.Count(p.target, "/")), "Groups": groups, "Before": before, "After": after,
	})
	return html.Bytes(), err
}

// writeSearch writes what the search looks through as a script. A page that is opened as a file may load scripts, but no JSON.
func writeSearch(pages []*page, out string) error {
	type found struct {
		URL   string `json:"url"`
		Page  string `json:"page"`
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	var index []found
	for _, p := range pages {
		for i := range p.sections {
			s := &p.sections[i]
			index = append(index, found{URL: p.target + "#" + s.ID, Page: p.title, Title: s.Title, Text: strings.TrimSpace(s.text)})
		}
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return writeFile(out, "index.js", slices.Concat([]byte("const searchIndex = "), content, []byte(";\n")))
}

func writeFile(out, name string, content []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
