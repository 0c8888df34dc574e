package lint_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/cmd/muster/lint"
)

const (
	good      = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
	bad       = good + "spec: {weight: -1}\n"
	namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: here}\n"
)

// run calls the command, and returns what it writes and the exit code of the program.
func run(t *testing.T, stdin string, args ...string) (out string, code int, err error) {
	t.Helper()
	command := lint.NewCommand()
	command.SilenceErrors, command.SilenceUsage = true, true
	var text bytes.Buffer
	command.SetOut(&text)
	command.SetIn(strings.NewReader(stdin))
	command.SetArgs(args)
	err = command.ExecuteContext(t.Context())
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &coded):
		code = coded.ExitCode()
	case err != nil:
		code = 1
	}
	return text.String(), code, err
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good.yaml": good, "bad.yml": bad, "broken.yaml": "a: [", "namespace.yaml": namespace, "empty/x.txt": ""} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	for name, c := range map[string]struct {
		args  string
		stdin string
		code  int
		says  string // part of the output or of the error
	}{
		"nothing to say":              {"good.yaml", "", 0, "1 object checked, 0 findings"},
		"findings":                    {"good.yaml bad.yml", "", 1, "bad.yml:4: Queue q: spec.weight: Invalid value: -1"},
		"findings, counted":           {"bad.yml", "", 1, "findings: 1"},
		"standard input":              {"-", bad, 1, "stdin:4: Queue q: spec.weight"},
		"JSON":                        {"-o json bad.yml", "", 1, `"line": 4`},
		"SARIF":                       {"-o sarif bad.yml", "", 1, `"startLine": 4`},
		"a namespace":                 {"--namespace namespace.yaml good.yaml", "", 0, "0 findings"},
		"nothing as it was":           {"--old - good.yaml", "", 0, "1 object checked, 0 findings\n"},
		"no file":                     {"", "", 2, "name at least one file, or - for standard input"},
		"a file that is not there":    {"none.yaml", "", 2, "reading none.yaml: no such file"},
		"a file that is no YAML":      {"good.yaml broken.yaml", "", 2, "broken.yaml: the document from line 1 on is no YAML"},
		"a folder without manifests":  {"empty", "", 2, "empty has no .yaml, .yml or .json file"},
		"an unknown flag":             {"--wrong good.yaml", "", 2, "unknown flag: --wrong"},
		"an unknown output":           {"-o xml good.yaml", "", 2, "--output xml: use text, json or sarif"},
		"a namespace that is none":    {"--namespace good.yaml good.yaml", "", 2, "--namespace good.yaml: Queue q is no namespace"},
		"queues that are not there":   {"--queues none.yaml good.yaml", "", 2, "reading none.yaml"},
		"an old file that is no YAML": {"--old broken.yaml good.yaml", "", 2, "broken.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, err := run(t, c.stdin, strings.Fields(c.args)...)
			assert.Equal(t, c.code, code)
			if err != nil {
				out += err.Error()
			}
			assert.Contains(t, out, c.says)
		})
	}
}

func TestAFolderStandsForItsManifests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": bad, "b.yml": bad, "c.json": `{"apiVersion": "v1", "kind": "ConfigMap"}`, "d.txt": bad} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out, code, _ := run(t, "", dir)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "2 objects checked, 2 findings; passed over: ConfigMap 1")
}
