package local

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
)

func TestMistakesAreExplained(t *testing.T) {
	empty := t.TempDir()
	tests := map[string]struct {
		args []string
		want string
	}{
		"up without a folder":       {[]string{"up"}, "which cluster? Name its folder with --dir"},
		"down without a folder":     {[]string{"down"}, "which cluster?"},
		"status without a cluster":  {[]string{"status", "--dir", empty}, "no cluster in " + empty + ": start one with `muster local up --dir " + empty + "`"},
		"down without a cluster":    {[]string{"down", "--dir", empty}, "no cluster in"},
		"nodes without a number":    {[]string{"nodes", "--dir", empty}, "how many nodes?"},
		"nodes without a cluster":   {[]string{"nodes", "--dir", empty, "--add", "1"}, "no cluster in"},
		"import without a cluster":  {[]string{"import", "--dir", empty, "image.tar"}, "no cluster in"},
		"import without an image":   {[]string{"import", "--dir", empty}, "requires at least 1 arg"},
		"up with words":             {[]string{"up", empty}, "takes no arguments"},
		"up with a wrong quantity":  {[]string{"up", "--dir", empty, "--node-cpu", "many"}, `"many" is not a quantity`},
		"up with a wrong resource":  {[]string{"up", "--dir", empty, "--node-resource", "gpu"}, "must be formatted as key=value"},
		"up with too few nodes":     {[]string{"up", "--dir", empty, "--nodes", "-1"}, "nodes: -1 is not between 0 and"},
		"up with an unknown flag":   {[]string{"up", "--dir", empty, "--node", "1"}, "unknown flag: --node"},
		"supervise without a pipe":  {[]string{"supervise"}, "reading the options from standard input"},
		"supervise is for no words": {[]string{"supervise", "x"}, "takes no arguments"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(localcluster.BinDirVariable, t.TempDir())
			command := NewCommand()
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs(test.args)
			command.SetOut(io.Discard)
			command.SetErr(io.Discard)
			require.ErrorContains(t, command.ExecuteContext(t.Context()), test.want)
		})
	}
}

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := now.Add(-time.Minute)
	process := func(name string, pid int) localcluster.Process {
		return localcluster.Process{Name: name, PID: pid, Started: now.Add(-2 * time.Minute)}
	}
	serving := process("muster-controller", 13)
	serving.URL = "https://127.0.0.1:10268"
	crashed := process("muster-scheduler", 12)
	crashed.Ended, crashed.Outcome = &ended, "exit status 2"

	tests := map[string]struct {
		status localcluster.Status
		want   string
	}{
		"healthy": {
			status: localcluster.Status{
				Dir: "/m", Running: true, Nodes: 2, ReadyNodes: 2, ScrapeConfig: "/m/prometheus.yml",
				Components: []localcluster.ComponentStatus{
					{Process: process("etcd", 11), LogPath: "/m/logs/etcd.log"}, {Process: serving, LogPath: "/m/logs/c.log"},
				},
			},
			want: `COMPONENT           STATE     PID   SINCE   METRICS                           LOG
etcd                running   11    2m0s    -                                 /m/logs/etcd.log
muster-controller   running   13    2m0s    https://127.0.0.1:10268/metrics   /m/logs/c.log

2 nodes, 2 ready
Read the metrics with: prometheus --config.file=/m/prometheus.yml
`,
		},
		"crashed": {
			status: localcluster.Status{
				Dir: "/m", Running: true, APIError: errors.New("connection refused"),
				Components: []localcluster.ComponentStatus{{Process: crashed, LogPath: "/m/logs/s.log", LastWords: []string{"panic: oh"}}},
			},
			want: `COMPONENT          STATE                    PID   SINCE   METRICS   LOG
muster-scheduler   crashed: exit status 2   12    1m0s    -         /m/logs/s.log

PROBLEM: muster-scheduler (process 12) ended by itself at 03:03:05: exit status 2

PROBLEM: the API server does not answer: connection refused

From /m/logs/s.log:
  panic: oh
`,
		},
		"killed with its supervisor": {
			status: localcluster.Status{Dir: "/m", Components: []localcluster.ComponentStatus{{Process: process("etcd", 11), LogPath: "/m/logs/etcd.log"}}},
			want: `COMPONENT   STATE   PID   SINCE   METRICS   LOG
etcd        gone    -     2m0s    -         /m/logs/etcd.log

PROBLEM: the cluster in /m is stopped
Remove it with: muster local down --dir /m
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			printStatus(&out, test.status, now)
			assert.Equal(t, test.want, out.String())
		})
	}
}
