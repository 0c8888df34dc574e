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
	// ends are the ends of its sentences; nil for a name, which is no sentence.
	ends *regexp.Regexp
}

var (
	// linkToTitle is a link whose text is a title or a question, which stands for itself.
	linkToTitle = regexp.MustCompile(`\[(?:What|Who) [^\]]*\]\([^)]*\)`)

	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	tableRule = regexp.MustCompile(`^\s*\|[-:| ]+\|?\s*$`)
	listItem  = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s`)
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	camel     = regexp.MustCompile(`[A-Z][a-z0-9]*`)
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
		paragraph = piece{ends: pageEnd}
	}
	end()
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
				pieces = append(pieces, piece{i + 1, strings.TrimSpace(cell), pageEnd})
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

// ofYAML returns the comments of a manifest that are on lines of their own.
func ofYAML(content string) []piece {
	var pieces []piece
	var comment []string
	for i, line := range append(strings.Split(content, "\n"), "") {
		text, isComment := strings.CutPrefix(strings.TrimSpace(line), "#")
		if isComment {
			comment = append(comment, strings.TrimPrefix(text, " "))
			continue
		}
		if len(comment) > 0 {
			pieces = append(pieces, ofComment(i+1-len(comment), strings.Join(comment, "\n"))...)
		}
		comment = nil
	}
	return pieces
}

// ofGo returns the comments of a source file, the string literals that read like messages, and the names of tests.
func ofGo(name, content string) ([]piece, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	pieces := comments(files, file)
	for _, declared := range file.Decls {
		if test, ok := declared.(*ast.FuncDecl); ok && strings.HasPrefix(test.Name.Name, "Test") {
			pieces = append(pieces, piece{line: files.Position(test.Pos()).Line, text: camel.ReplaceAllString(test.Name.Name, " $0")})
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err == nil && isMessage(text) {
			pieces = append(pieces, piece{files.Position(literal.Pos()).Line, text, messageEnd})
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
			pieces = append(pieces, piece{line: line + i, ends: commentEnd})
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
