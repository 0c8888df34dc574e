package localcluster

import (
	"bytes"
	"io"
	"os"
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

// tailBytes is how much of a log's end is looked at.
const tailBytes = 16 << 10

// tail returns the last lines of a file, oldest first. A file that cannot be read has none.
func tail(path string, lines int) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
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
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-lines):]
}
