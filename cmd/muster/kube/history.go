package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

// HistoryQuery says which records of the history a command reads.
type HistoryQuery struct {
	AllNamespaces            bool
	Name, User, Queue, Phase string
	Since, Until             string
}

// AddFlags adds the flags that choose records.
func (q *HistoryQuery) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&q.AllNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	flags.StringVar(&q.User, "user", "", "Jobs of this user only")
	flags.StringVarP(&q.Queue, "queue", "q", "", "Jobs of this queue only")
	flags.StringVar(&q.Phase, "phase", "", "Jobs that ended in this phase only, for example Failed")
	flags.StringVar(&q.Since, "since", q.Since, "Jobs that ended since then: a time span such as 12h or 30d, a date, or a time like 2026-01-31T12:00:00Z")
	flags.StringVar(&q.Until, "until", "", "Jobs that ended before then, written in the same way")
}

// endPhases are the phases in which records end.
var endPhases = []string{"Completed", "Failed", "Terminated", "Succeeded", "Cancelled", "Unknown", historyv1alpha1.PhaseDeleted}

// EndPhases are the phases in which Jobs and PhJobs end.
func EndPhases() []string { return endPhases }

// endPhase is a phase in which Jobs end, as the API writes it; "" stays "".
func endPhase(written string) (string, error) {
	at := slices.IndexFunc(endPhases, func(phase string) bool { return strings.EqualFold(phase, written) })
	switch {
	case written == "":
		return "", nil
	case at < 0:
		return "", fmt.Errorf("--phase %s: no Job ends in such a phase; it is one of %s", written, strings.Join(endPhases, ", "))
	}
	return endPhases[at], nil
}

// errNoHistory says that the cluster serves no history.
var errNoHistory = errors.New("this cluster keeps no history of Jobs: start muster-controller with --history-dir, and apply manifests/history (docs/history.md)")

// Records reads at most limit records of Jobs that have ended, the latest first; 0 for all. It says whether there are more.
func (c *Clients) Records(ctx context.Context, q *HistoryQuery, limit int64) (*historyv1alpha1.JobRecordList, error) {
	records := &historyv1alpha1.JobRecordList{}
	return records, c.readHistory(ctx, q, map[string]string{"limit": strconv.FormatInt(limit, 10)}, records)
}

// Report reads the sums of records by user, queue or namespace.
func (c *Clients) Report(ctx context.Context, q *HistoryQuery, by string) (*historyv1alpha1.JobReport, error) {
	report := &historyv1alpha1.JobReport{}
	return report, c.readHistory(ctx, q, map[string]string{historyv1alpha1.ParameterBy: by}, report)
}

func (c *Clients) readHistory(ctx context.Context, q *HistoryQuery, parameters map[string]string, into any) error {
	phase, err := endPhase(q.Phase)
	if err != nil {
		return err
	}
	in := ""
	if !q.AllNamespaces {
		in = path.Join("namespaces", c.Namespace)
	}
	request := c.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", historyv1alpha1.SchemeGroupVersion.String(), in, historyv1alpha1.Resource).
		Param("fieldSelector", Fields("record.name", q.Name, "record.user", q.User, "record.queue", q.Queue, "record.phase", phase))
	for name, value := range parameters {
		request.Param(name, value)
	}
	now := time.Now()
	for name, text := range map[string]string{historyv1alpha1.ParameterSince: q.Since, historyv1alpha1.ParameterUntil: q.Until} {
		if text == "" {
			continue
		}
		at, err := moment(text, now)
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		request.Param(name, at.UTC().Format(time.RFC3339))
	}
	result := request.Do(ctx)
	err = result.Error() // reads what the API server says
	switch {
	case apierrors.IsNotFound(err):
		return errNoHistory
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("muster-controller does not answer for the history: see kubectl get apiservice v1alpha1.history.muster.sh: %w", err)
	case err != nil:
		return err
	}
	answer, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		return fmt.Errorf("reading the answer of the history: %w", err)
	}
	return nil
}

// moment reads a time: a span before now, a date of this place, or a time of RFC 3339.
func moment(text string, now time.Time) (time.Time, error) {
	if n := len(text) - 1; n > 0 && (text[n] == 'd' || text[n] == 'w') {
		days, err := strconv.Atoi(text[:n])
		if text[n] == 'w' {
			days *= 7
		}
		if err == nil && days >= 0 {
			return now.AddDate(0, 0, -days), nil
		}
	}
	if span, err := time.ParseDuration(text); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: give a span such as 12h or 30d, a date such as 2026-01-31, or a time like 2026-01-31T12:00:00Z", text)
}

const gibibyte = 1 << 30

// Hours are seconds of a resource as hours: of cores, of GiB for memory and storage, and of pieces.
func Hours(name corev1.ResourceName, seconds float64) float64 {
	hours := seconds / time.Hour.Seconds()
	if isBytes(name) {
		return hours / gibibyte
	}
	return hours
}

func isBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// HoursColumn is the heading of a column with [Hours].
func HoursColumn(name corev1.ResourceName) string {
	if isBytes(name) {
		return strings.ToUpper(string(name)) + "-GIB-HOURS"
	}
	return strings.ToUpper(string(name)) + "-HOURS"
}

// HoursInWords are the hours of all resources, for people.
func HoursInWords(seconds map[corev1.ResourceName]float64) []string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(seconds)) {
		unit := string(name)
		if isBytes(name) {
			unit = "GiB " + unit
		}
		said = append(said, fmt.Sprintf("%.2f %s", Hours(name, seconds[name]), unit))
	}
	return said
}
