package main

import (
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// start is the page that lists all others, by kind.
const start = "docs/README.md"

// group is a part of the navigation: a heading of the start page and the pages below it.
type group struct {
	Title   string
	Entries []entry
}

// entry is a page in the navigation.
type entry struct {
	source        string
	Title, Target string
	// Sub are the pages of a folder whose README the entry is.
	Sub []entry
}

// navigation returns the groups of the start page, in its order. Each page is in it once, where it is linked first. Below the
// README of a folder are the pages of that folder, in the order of its links.
func navigation(root string, pages []*page) ([]group, error) {
	bySource := map[string]*page{}
	for _, p := range pages {
		bySource[p.source] = p
	}
	seen := map[string]bool{start: true}
	take := func(from string, links []string, accepts func(source string) bool) []entry {
		var entries []entry
		for _, link := range links {
			source, _ := resolve(from, link)
			if p := bySource[source]; p != nil && !seen[source] && strings.HasSuffix(source, ".md") && accepts(source) {
				seen[source] = true
				entries = append(entries, entry{source: source, Title: p.title, Target: p.target})
			}
		}
		return entries
	}
	content, err := readAny(path.Join(root, start))
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, part := range partsOf([]byte(content)) {
		groups = append(groups, group{part.title, take(start, part.links, func(string) bool { return true })})
	}
	for _, g := range groups {
		for i := range g.Entries {
			e := &g.Entries[i]
			if folder := path.Dir(e.source); path.Base(e.source) == "README.md" && folder != "." {
				e.Sub = take(e.source, bySource[e.source].links, func(source string) bool { return path.Dir(source) == folder })
			}
		}
	}
	return groups, nil
}

// part is a heading of the second level, with the links below it.
type part struct {
	title string
	links []string
}

// partsOf returns the parts of a page. Links before the first heading of the second level are in none.
func partsOf(content []byte) []part {
	var parts []part
	document := markdown.Parser().Parse(text.NewReader(content))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := node.(type) {
		case *ast.Heading:
			if entering && node.Level == 2 {
				parts = append(parts, part{title: plainText(node, content)})
			}
		case *ast.Link:
			if entering && len(parts) > 0 {
				last := &parts[len(parts)-1]
				last.links = append(last.links, string(node.Destination))
			}
		}
		return ast.WalkContinue, nil
	})
	return parts
}

// sequence lists the pages in the order of the navigation, the start page first.
func sequence(groups []group) []entry {
	all := []entry{{source: start, Title: "Documentation", Target: targetOf(start)}}
	for _, g := range groups {
		for _, e := range g.Entries {
			all = append(append(all, e), e.Sub...)
		}
	}
	return all
}

// neighbours returns the pages before and after a page; nil where there is none.
func neighbours(all []entry, source string) (before, after *entry) {
	for i := range all {
		if all[i].source != source {
			continue
		}
		if i > 0 {
			before = &all[i-1]
		}
		if i+1 < len(all) {
			after = &all[i+1]
		}
	}
	return before, after
}
