package kube

import (
	"bytes"
	"errors"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOutput(t *testing.T) {
	value := struct {
		Name string `json:"name"`
		Pods int    `json:"pods"`
	}{"a", 2}
	for format, want := range map[string]string{
		"":     "in words\n",
		"text": "in words\n",
		"json": "{\n  \"name\": \"a\",\n  \"pods\": 2\n}\n",
		"yaml": "name: a\npods: 2\n",
	} {
		var out bytes.Buffer
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		output := AddOutput(flags)
		if format != "" {
			require.NoError(t, flags.Parse([]string{"-o", format}))
		}
		require.NoError(t, output.Print(&out, value, func() error { out.WriteString("in words\n"); return nil }))
		assert.Equal(t, want, out.String(), format)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	output := AddOutput(flags)
	require.ErrorContains(t, flags.Parse([]string{"-o", "xml"}), "give text, json or yaml")
	failure := errors.New("no more paper")
	require.ErrorIs(t, output.Print(nil, value, func() error { return failure }), failure)
	require.NoError(t, flags.Parse([]string{"-o", "json"}))
	require.ErrorContains(t, output.Print(nil, func() {}, nil), "encoding the answer")
}
