package localcluster

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// lineWriter hands on what is written to it line by line, and remembers the last line.
type lineWriter struct {
	write   func(line string)
	pending []byte
	last    string
}

func (w *lineWriter) Write(data []byte) (int, error) {
	w.pending = append(w.pending, data...)
	for {
		line, rest, found := bytes.Cut(w.pending, []byte("\n"))
		if !found {
			return len(data), nil
		}
		w.pending = rest
		w.emit(string(line))
	}
}

func (w *lineWriter) flush() {
	if len(w.pending) > 0 {
		w.emit(string(w.pending))
		w.pending = nil
	}
}

func (w *lineWriter) emit(line string) {
	w.last = line
	w.write(line)
}

// lastWordsLines is how much of the log of a part that ended is shown.
const lastWordsLines = 15

// lastWordsBytes is how much of a log's end is looked at: the stacks of a thousand goroutines.
const lastWordsBytes = 1 << 20

// crashLine is the first line of what a Go program says when it dies. It shows a panic, a fatal error of
// the runtime, a deadly signal, or klog's last call.
var crashLine = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: |F[0-9]{4} )`)

// lastWords returns the lines of a log that tell best how its program ended. They are the lines from its crash on, or else the last ones. A file
// that cannot be read has none.
func lastWords(path string, count int) []string {
	lines := endOf(path)
	start := max(0, len(lines)-count)
	for i, line := range slices.Backward(lines) {
		if crashLine.MatchString(line) {
			start = i
			break
		}
	}
	return lines[start:min(len(lines), start+count)]
}

// endOf returns the lines at the end of a file.
func endOf(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > lastWordsBytes {
		if _, err := file.Seek(-lastWordsBytes, io.SeekEnd); err != nil {
			return nil
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil
	}
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
