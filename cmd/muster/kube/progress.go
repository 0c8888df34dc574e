package kube

import (
	"fmt"
	"io"

	"k8s.io/kubectl/pkg/util/term"
)

// Progress prints a line that says how far something is. On a terminal the line is overwritten; elsewhere each change is a new line.
type Progress struct {
	out      io.Writer
	terminal bool
	last     string
}

// NewProgress prints to a terminal or a file.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, terminal: term.TTY{Out: out}.IsTerminalOut()}
}

// Say prints a line if it differs from the one before.
func (p *Progress) Say(line string) {
	if line == p.last {
		return
	}
	p.last = line
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// End closes the line.
func (p *Progress) End() {
	if p.terminal && p.last != "" {
		fmt.Fprintln(p.out)
	}
}
