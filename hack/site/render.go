package main

import (
	"bytes"
	"html/template"
	"path"
	"path/filepath"
	"strings"

	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// markdown knows GitHub's tables, and gives headings the anchors that GitHub gives them. Code has the colors of colors.css.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, highlighting.NewHighlighting(highlighting.WithFormatOptions(chromahtml.WithClasses(true)))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// render makes a page of a Markdown file.
func render(source string, content []byte) (*page, error) {
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
	p.sections = sectionsOf(document, content)
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

// sectionsOf divides a page at its headings.
func sectionsOf(document ast.Node, content []byte) []section {
	var sections []section
	for block := document.FirstChild(); block != nil; block = block.NextSibling() {
		if heading, is := block.(*ast.Heading); is {
			id, _ := heading.AttributeString("id")
			name, _ := id.([]byte)
			sections = append(sections, section{Level: heading.Level, ID: string(name), Title: plainText(heading, content)})
		} else if len(sections) > 0 {
			last := &sections[len(sections)-1]
			last.text += plainText(block, content) + " "
		}
	}
	return sections
}

// colors are the styles of code, for light and dark screens.
func colors() []byte {
	var css bytes.Buffer
	formatter := chromahtml.New(chromahtml.WithClasses(true))
	write := func(style, open, end string) {
		css.WriteString(open)
		// A buffer takes everything.
		_ = formatter.WriteCSS(&css, styles.Get(style))
		css.WriteString(end)
	}
	write("github", "", "")
	write("github-dark", "@media (prefers-color-scheme: dark) {\n", "}\n")
	return css.Bytes()
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
