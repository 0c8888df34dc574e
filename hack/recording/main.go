// Command recording draws what `muster demo` printed as a moving picture of a terminal. The lines come as fast as they came, but for long
// pauses. `make recording` writes docs/demo.svg with it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The size of the picture, in lines and columns of text, and in pixels of a line.
const (
	rows, columns         = 26, 112
	lineHeight, lineWidth = 18, 820
	margin                = 12
)

// How long a line stands before the next one comes, and the last one before the picture begins again.
const (
	shortest, longest, atTheEnd = 150 * time.Millisecond, 1500 * time.Millisecond, 8 * time.Second
)

func main() {
	out := flag.String("out", "docs/demo.svg", "the picture")
	flag.Parse()
	if err := run(os.Stdin, *out); err != nil {
		fmt.Fprintf(os.Stderr, "recording: %v\n", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out string) error {
	var lines []line
	for scanner := bufio.NewScanner(in); scanner.Scan(); {
		fmt.Println(scanner.Text())
		lines = append(lines, wrap(scanner.Text())...)
	}
	if len(lines) == 0 {
		return fmt.Errorf("nothing was printed: run `muster demo | go run ./hack/recording`")
	}
	return os.WriteFile(out, []byte(draw(lines)), 0o644)
}

// line is a line of the terminal.
type line struct {
	text string
	// at is when it was printed, as it says itself; negative if it does not.
	at time.Duration
}

// stamp matches the time with which a line of the demo begins.
var stamp = regexp.MustCompile(`^ *(\d+\.\d)s  `)

// wrap cuts a line that is too wide. The rest of it is as far to the right as its text.
func wrap(text string) []line {
	at := time.Duration(-1)
	indent := len(text) - len(strings.TrimLeft(text, " "))
	if match := stamp.FindStringSubmatch(text); match != nil {
		seconds, err := strconv.ParseFloat(match[1], 64)
		if err == nil {
			at = time.Duration(seconds * float64(time.Second))
		}
		indent = len(match[0])
	}
	var lines []line
	for runes := []rune(text); ; {
		if len(runes) <= columns {
			return append(lines, line{string(runes), at})
		}
		end := columns
		if blank := strings.LastIndex(string(runes[:columns]), " "); blank > indent {
			end = len([]rune(string(runes[:columns])[:blank]))
		}
		lines = append(lines, line{string(runes[:end]), at})
		runes = append([]rune(strings.Repeat(" ", indent)), []rune(strings.TrimLeft(string(runes[end:]), " "))...)
		at = -1
	}
}

// moments returns when each line comes in the picture, and how long the picture takes. All lines before the first act are there at once.
func moments(lines []line) (times []time.Duration, all time.Duration) {
	var now, last time.Duration
	begun := false
	for _, l := range lines {
		begun = begun || strings.HasPrefix(l.text, "1. ")
		pause := shortest
		if !begun {
			pause = 0
		}
		if begun && l.at >= 0 {
			pause, last = min(max(l.at-last, shortest), longest), l.at
		}
		now += pause
		times = append(times, now)
	}
	return times, now + atTheEnd
}

// draw returns the picture. All lines stand in one group, which moves up when a line comes. Without movement it shows the end.
func draw(lines []line) string {
	width, height := 2*margin+lineWidth, 2*margin+rows*lineHeight
	times, all := moments(lines)
	b := &strings.Builder{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="t">`+"\n", width, height)
	b.WriteString("<title id=\"t\">A recording of muster demo</title>\n<!-- Made by hack/recording (make recording). -->\n<style>\n")
	b.WriteString("text{font:12px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}.h{fill:#fff;font-weight:bold}.c{fill:#79c0ff}.y{fill:#7ee787}\n")
	fmt.Fprintf(b, "#l{transform:translateY(%dpx);animation:m %.1fs step-end infinite}\n@keyframes m{", offset(len(lines)), all.Seconds())
	for i, at := range times {
		if i+1 < len(times) && times[i+1] == at {
			continue // The next line comes at the same time.
		}
		fmt.Fprintf(b, "%.2f%%{transform:translateY(%dpx)}", 100*at.Seconds()/all.Seconds(), offset(i+1))
	}
	b.WriteString("}\n@media (prefers-reduced-motion:reduce){#l{animation:none}}\n</style>\n")
	fmt.Fprintf(b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d"><g id="l">`+"\n", margin, margin, width-2*margin, rows*lineHeight)
	for i, l := range lines {
		if l.text != "" {
			fmt.Fprintf(b, "<text y=\"%d\"%s>%s</text>\n", i*lineHeight+13, class(l.text), html.EscapeString(l.text))
		}
	}
	b.WriteString("</g></svg>\n</svg>\n")
	return b.String()
}

// offset is how far the lines are moved when so many have come. The last one is at the bottom.
func offset(lines int) int { return (rows - lines) * lineHeight }

var (
	heading = regexp.MustCompile(`^(\d+\. |Muster: |A cluster|In the whole record|Every claim held)`)
	command = regexp.MustCompile(`^( *\d+\.\d+s  )?\$ `)
	claim   = regexp.MustCompile(`^ *\d+\.\d+s  ✓ `)
)

// class colors a line.
func class(text string) string {
	switch {
	case heading.MatchString(text):
		return ` class="h"`
	case command.MatchString(text):
		return ` class="c"`
	case claim.MatchString(text):
		return ` class="y"`
	default:
		return ""
	}
}
