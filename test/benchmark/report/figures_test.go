package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/test/benchmark/report"
)

func TestFiguresArePrintedBesideTheirGoals(t *testing.T) {
	most, least := report.AtMost("plan", 0.1, 0.1, "s"), report.AtLeast("ratio", 0.97, 0.97, "")
	var out strings.Builder
	require.NoError(t, report.PrintFigures(&out, []report.Figure{most, least}), "a goal is met by its own value")
	assert.Equal(t, 2, strings.Count(out.String(), "met\n"))
	assert.Contains(t, out.String(), "<= 0.1")
	assert.Contains(t, out.String(), ">= 0.97")

	for _, missed := range []report.Figure{report.AtMost("plan", 0.11, 0.1, "s"), report.AtLeast("ratio", 0.96, 0.97, "")} {
		out.Reset()
		require.ErrorIs(t, report.PrintFigures(&out, []report.Figure{missed, most}), report.ErrMissed)
		assert.Equal(t, 1, strings.Count(out.String(), "MISSED"))
	}
}
