package explain

import (
	"fmt"
	"io"
	"strings"
)

// Page is what there is to say about an object, in the order in which people ask.
type Page struct {
	Title    string    `json:"title"`
	Sections []Section `json:"sections"`
}

// Section answers one question.
type Section struct {
	Heading string   `json:"heading"`
	Lines   []string `json:"lines"`
}

// add adds a section, if it has lines.
func (p *Page) add(heading string, lines ...string) {
	if len(lines) > 0 {
		p.Sections = append(p.Sections, Section{heading, lines})
	}
}

// Write prints the page. emphasize makes the title and the headings stand out; nil leaves them as they are.
func (p *Page) Write(out io.Writer, emphasize func(string) string) error {
	if emphasize == nil {
		emphasize = func(text string) string { return text }
	}
	text := &strings.Builder{}
	fmt.Fprintln(text, emphasize(p.Title))
	for _, section := range p.Sections {
		fmt.Fprintf(text, "\n%s\n", emphasize(section.Heading))
		for _, line := range section.Lines {
			fmt.Fprintf(text, "  %s\n", line)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// count writes a number with its noun: "1 pod", "2 pods".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ordinal writes a place: 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// first returns the first lines, and one that says how many there are beside them.
func first(n int, lines []string) []string {
	if len(lines) <= n {
		return lines
	}
	return append(append([]string{}, lines[:n]...), fmt.Sprintf("and %d more", len(lines)-n))
}
