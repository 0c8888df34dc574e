package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Formats of an Output.
const (
	formatText = "text"
	formatJSON = "json"
	formatYAML = "yaml"
)

// Output is how a command prints what is no object of the API. It is a pflag.Value.
type Output struct {
	format  string
	formats []string
}

// AddOutput adds the flag -o. Text is what a command prints without it. There may be more formats than text, json and yaml, which are text
// for Print.
func AddOutput(flags *pflag.FlagSet, more ...string) *Output {
	o := &Output{format: formatText, formats: slices.Concat([]string{formatText}, more, []string{formatJSON, formatYAML})}
	flags.VarP(o, "output", "o", o.choice())
	return o
}

// choice lists the formats.
func (o *Output) choice() string {
	last := len(o.formats) - 1
	return strings.Join(o.formats[:last], ", ") + " or " + o.formats[last]
}

// String is the format.
func (o *Output) String() string { return o.format }

// Type is what the help says of the flag's value.
func (*Output) Type() string { return "string" }

// Set takes what the user wrote.
func (o *Output) Set(format string) error {
	if !slices.Contains(o.formats, format) {
		return errors.New("give " + o.choice())
	}
	o.format = format
	return nil
}

// Print prints a value as JSON or YAML, or has text print it.
func (o *Output) Print(out io.Writer, value any, text func() error) error {
	var printed []byte
	var err error
	switch o.format {
	case formatJSON:
		printed, err = json.MarshalIndent(value, "", "  ")
		printed = append(printed, '\n')
	case formatYAML:
		printed, err = yaml.Marshal(value)
	default:
		return text()
	}
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	_, err = out.Write(printed)
	return err
}
