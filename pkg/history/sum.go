package history

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// mostRows is how many rows a report has. Users are labels that anyone may write, so their number has no other bound.
const mostRows = 10_000

// others is the name of the row that has the sums of all that have no row.
const others = "(others)"

// Sums adds up records by user, queue or namespace.
type Sums struct {
	by   string
	key  func(*historyv1alpha1.Record) string
	rows map[string]*historyv1alpha1.ReportRow
}

// SumBy makes empty sums. The error says what by may be.
func SumBy(by string) (*Sums, error) {
	s := &Sums{by: by, rows: map[string]*historyv1alpha1.ReportRow{}}
	switch by {
	case historyv1alpha1.ByUser:
		s.key = func(r *historyv1alpha1.Record) string { return r.User }
	case historyv1alpha1.ByQueue:
		s.key = func(r *historyv1alpha1.Record) string { return r.Queue }
	case historyv1alpha1.ByNamespace:
		s.key = func(r *historyv1alpha1.Record) string { return r.Namespace }
	default:
		return nil, fmt.Errorf("by: %q is none of user, queue and namespace", by)
	}
	return s, nil
}

// Add adds a record.
func (s *Sums) Add(record *historyv1alpha1.Record) {
	row := s.row(s.key(record))
	row.Jobs++
	if Succeeded(record.Phase) {
		row.Succeeded++
	}
	row.WaitSeconds += record.WaitSeconds
	row.RunSeconds += record.RunSeconds
	row.Evictions += int64(record.Evictions)
	for name, amount := range record.ResourceSeconds {
		if row.ResourceSeconds == nil {
			row.ResourceSeconds = map[corev1.ResourceName]float64{}
		}
		row.ResourceSeconds[name] += amount
	}
}

func (s *Sums) row(name string) *historyv1alpha1.ReportRow {
	if row := s.rows[name]; row != nil {
		return row
	}
	if len(s.rows) >= mostRows {
		name = others
	}
	if s.rows[name] == nil {
		s.rows[name] = &historyv1alpha1.ReportRow{Name: name}
	}
	return s.rows[name]
}

// Report returns the sums. The row with the most CPU time is the first.
func (s *Sums) Report() *historyv1alpha1.JobReport {
	report := &historyv1alpha1.JobReport{By: s.by, Rows: make([]historyv1alpha1.ReportRow, 0, len(s.rows))}
	for _, row := range s.rows {
		report.Rows = append(report.Rows, *row)
	}
	slices.SortFunc(report.Rows, func(a, b historyv1alpha1.ReportRow) int {
		return cmp.Or(cmp.Compare(b.ResourceSeconds[corev1.ResourceCPU], a.ResourceSeconds[corev1.ResourceCPU]),
			cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
	return report
}

// Succeeded says whether a phase of a Job or a PhJob is its success.
func Succeeded(phase string) bool { return phase == "Completed" || phase == "Succeeded" }
