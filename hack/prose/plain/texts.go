package plain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// piece is a text that a reader reads in one go, and the line where it begins.
type piece struct {
	line int
	text string
}

var (
	// linkToTitle is a link whose text is a title or a question, which stands for itself.
	linkToTitle = regexp.MustCompile(`\[(?:What|Who) [^\]]*\]\([^)]*\)`)

	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	tableRule = regexp.MustCompile(`^\s*\|[-:| ]+\|?\s*$`)
	listItem  = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s`)
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// ofMarkdown returns the paragraphs, list items and cells of a page. Blocks of code are left out.
func ofMarkdown(content string) []piece {
	content = comment.ReplaceAllStringFunc(content, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	var pieces []piece
	var paragraph piece
	end := func() {
		if strings.TrimSpace(paragraph.text) != "" {
			pieces = append(pieces, paragraph)
		}
		paragraph = piece{}
	}
	inCode := false
	for i, line := range strings.Split(content, "\n") {
		trimmed := strings.TrimLeft(line, " >")
		line = strings.ReplaceAll(link.ReplaceAllString(linkToTitle.ReplaceAllString(trimmed, "PAGE"), "$1"), "**", "")
		switch {
		case strings.HasPrefix(trimmed, "```"):
			end()
			inCode = !inCode
		case inCode, tableRule.MatchString(line):
		case strings.HasPrefix(trimmed, "|"):
			end()
			for _, cell := range strings.Split(line, "|") {
				pieces = append(pieces, piece{i + 1, strings.TrimSpace(cell)})
			}
		case strings.HasPrefix(trimmed, "#"), trimmed == "":
			end()
		default:
			if listItem.MatchString(line) {
				end()
				line = listItem.ReplaceAllString(line, "")
			}
			if paragraph.line == 0 {
				paragraph.line = i + 1
			}
			paragraph.text += line + " "
		}
	}
	end()
	return pieces
}

// ofGo returns the comments of a source file, and the string literals that read like messages.
func ofGo(name, content string) ([]piece, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	pieces := comments(files, file)
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err == nil && isMessage(text) {
			pieces = append(pieces, piece{files.Position(literal.Pos()).Line, text})
		}
		return true
	})
	return pieces, nil
}

// commentsOf returns the comments of a source file.
func commentsOf(name, content string) ([]piece, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	return comments(files, file), nil
}

func comments(files *token.FileSet, file *ast.File) (pieces []piece) {
	for _, group := range file.Comments {
		pieces = append(pieces, ofComment(files.Position(group.Pos()).Line, group.Text())...)
	}
	return pieces
}

// ofComment cuts a comment into paragraphs and list items, and leaves code out.
func ofComment(line int, text string) []piece {
	var pieces []piece
	for i, paragraph := range strings.Split(text, "\n") {
		isCode := strings.HasPrefix(paragraph, "\t") || strings.HasPrefix(paragraph, "+")
		starts := i == 0 || paragraph == "" || listItem.MatchString(paragraph) || isCode
		if starts || len(pieces) == 0 {
			pieces = append(pieces, piece{line: line + i})
		}
		if !isCode {
			last := &pieces[len(pieces)-1]
			last.text += listItem.ReplaceAllString(paragraph, "") + " "
		}
	}
	return pieces
}

// isMessage tells a sentence from a name, a path, a template or a manifest.
func isMessage(text string) bool {
	return len(strings.Fields(text)) >= 3 && !strings.ContainsAny(text, "\n{}<>=")
}
