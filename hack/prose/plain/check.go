package plain

import (
	"fmt"
	"strings"
)

// Check returns what is wrong with a file, each with its place.
func Check(name, content string) ([]string, error) {
	var found []string
	pieces, err := piecesOf(name, content)
	for _, p := range pieces {
		place := fmt.Sprintf("%s:%d: ", name, p.line)
		if p.ends == nil {
			for _, f := range refused(p.text, rules) {
				found = append(found, place+f.String())
			}
			continue
		}
		for _, sentence := range sentences(p.text, p.ends) {
			for _, f := range wrong(sentence) {
				found = append(found, place+f.String())
			}
			if count := len(strings.Fields(sentence)); count > maxWords {
				found = append(found, place+tooLong(sentence, count).String())
			}
		}
	}
	return found, err
}

func tooLong(sentence string, count int) finding {
	return finding{firstWords(sentence), fmt.Sprintf("%d words are too many for a sentence: split it, %d are the most", count, maxWords)}
}

// LongComments returns the sentences of a source file's comments that have too many words, each with its place.
func LongComments(name, content string) ([]string, error) {
	var found []string
	pieces, err := commentsOf(name, content)
	for _, p := range pieces {
		for _, sentence := range sentences(p.text, commentEnd) {
			if count := len(strings.Fields(sentence)); count > maxWords {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, p.line, tooLong(sentence, count)))
			}
		}
	}
	return found, err
}

func piecesOf(name, content string) ([]piece, error) {
	switch {
	case strings.HasSuffix(name, ".md"):
		return ofMarkdown(content), nil
	case strings.HasSuffix(name, ".yaml"):
		return ofYAML(content), nil
	default:
		return ofGo(name, content)
	}
}
