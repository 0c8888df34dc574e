package explain

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each reason in the docs has a row, and each row is about a reason in the docs.
func TestEveryReasonHasARow(t *testing.T) {
	assert.ElementsMatch(t, reasonsOf(t, "../../docs/reference/reasons.md", "a Job waits for while", "Why it went where it is"), slices.Collect(maps.Keys(jobCauses)))
	assert.ElementsMatch(t, reasonsOf(t, "../../docs/why-pending.md", "## What the pods say", "Cluster autoscalers"), slices.Collect(maps.Keys(podCauses)))
}

// Each row says what is in the way. Where amounts do not decide, it says what helps, too.
func TestEveryRowIsComplete(t *testing.T) {
	for _, rows := range []map[string]cause{jobCauses, podCauses} {
		for reason, row := range rows {
			assert.NotEmpty(t, row.means, reason)
			assert.Equal(t, row.ever == notRuledOut, row.frees == "", reason)
			assert.NotEmpty(t, inWords[row.ever], reason)
		}
	}
}

// reasonsOf reads the first column of the table between two texts of a page.
func reasonsOf(t *testing.T, file, from, to string) []string {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	_, page2, found := strings.Cut(string(page), from)
	require.True(t, found, "%s has no %q", file, from)
	part, _, found := strings.Cut(page2, to)
	require.True(t, found, "%s has no %q", file, to)
	var reasons []string
	for line := range strings.Lines(part) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.Contains(cells[1], "---") || strings.TrimSpace(cells[1]) == "reason" || strings.Contains(cells[1], "(") {
			continue
		}
		for reason := range strings.SplitSeq(cells[1], ",") {
			reasons = append(reasons, strings.TrimSpace(reason))
		}
	}
	require.NotEmpty(t, reasons)
	return reasons
}
