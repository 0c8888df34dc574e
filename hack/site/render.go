package main

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// markdown knows GitHub's tables, and gives headings the anchors that GitHub gives them.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// render makes a page of a Markdown file.
func render(source string, content []byte) (*page, error) {
	content = []byte(transitionsAsTable(string(content)))
	p := &page{source: source, target: targetOf(source), title: source}
	document := markdown.Parser().Parse(text.NewReader(content))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.visit(node, content)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, content, document); err != nil {
		return nil, err
	}
	p.body = template.HTML(html.String()) //nolint:gosec // made of our own pages; goldmark leaves out HTML that stands in them
	p.text = plainText(document, content)
	return p, nil
}

// visit records the title, the anchors and the links. It makes links lead to the site, and labels the cells of tables.
func (p *page) visit(node ast.Node, content []byte) {
	switch node := node.(type) {
	case *ast.Heading:
		if node.Level == 1 {
			p.title = plainText(node, content)
		}
		if id, ok := node.AttributeString("id"); ok {
			p.ids = append(p.ids, string(id.([]byte)))
		}
	case *ast.Link:
		node.Destination = p.siteLink(node.Destination)
	case *ast.Image:
		node.Destination = p.siteLink(node.Destination)
	case *extensionast.Table:
		labelCells(node, content)
	}
}

// siteLink returns where a link of the page leads to on the site.
func (p *page) siteLink(destination []byte) []byte {
	link := string(destination)
	if strings.Contains(link, ":") {
		return destination
	}
	p.links = append(p.links, link)
	source, anchor := resolve(p.source, link)
	relative, err := filepath.Rel(path.Dir(p.target), targetOf(source))
	if err != nil {
		return destination
	}
	if anchor != "" {
		relative += "#" + anchor
	}
	return []byte(filepath.ToSlash(relative))
}

// labelCells gives each cell of a table its column's name, which narrow screens show in front of the cell.
func labelCells(table *extensionast.Table, content []byte) {
	var labels []string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		_, isHeader := row.(*extensionast.TableHeader)
		column := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if isHeader {
				labels = append(labels, plainText(cell, content))
			} else if column < len(labels) {
				cell.SetAttributeString("data-label", []byte(labels[column]))
			}
			column++
		}
	}
}

// plainText returns the text below a node, without markup.
func plainText(node ast.Node, content []byte) string {
	var words strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				words.Write(n.Segment.Value(content))
				if n.SoftLineBreak() {
					words.WriteByte(' ')
				}
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			if entering {
				words.Write(n.Lines().Value(content))
			}
		}
		if n.Type() == ast.TypeBlock && !entering {
			words.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(words.String()), " ")
}

var (
	stateDiagram = regexp.MustCompile("(?s)```mermaid\nstateDiagram-v2\n(.*?)```")
	transition   = regexp.MustCompile(`(?m)^\s*(\S+) --> ([^:\n]+?)(?:: (.*))?$`)
)

// transitionsAsTable writes Mermaid's state diagrams as tables, since the site has no program that draws them.
func transitionsAsTable(content string) string {
	return stateDiagram.ReplaceAllStringFunc(content, func(diagram string) string {
		table := "| from | to | when |\n|---|---|---|\n"
		for _, part := range transition.FindAllStringSubmatch(diagram, -1) {
			from, to := strings.ReplaceAll(part[1], "[*]", "(start)"), strings.ReplaceAll(part[2], "[*]", "(end)")
			table += fmt.Sprintf("| %s | %s | %s |\n", from, to, part[3])
		}
		return table
	})
}
