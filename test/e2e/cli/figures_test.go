package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// figures are what the surfaces say of a queue, as `muster top` writes it.
type figures struct{ used, reserved, share, guarantee, borrowed, running, waiting string }

// TestAllSurfacesShowTheSameFigures (issue 44, 3): `kubectl get queues`, `muster top`, `muster queue tree` and `muster explain queue`, of queues
// with Jobs that run, start, wait and borrow.
func TestAllSurfacesShowTheSameFigures(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	parent, borrower, other := s.Namespace, s.Namespace+"-a", s.Namespace+"-b"
	s.CreateQueue(mustertesting.MakeQueue(parent).Capability("cpu", "20"))
	s.CreateQueue(mustertesting.MakeQueue(borrower).Parent(parent).Deserved("cpu", "4").Guarantee("cpu", "1"))
	s.CreateQueue(mustertesting.MakeQueue(other).Parent(parent).Deserved("cpu", "6").Capability("cpu", "7"))
	job := func(name, queue string, replicas int32) *mustertesting.JobWrapper {
		return mustertesting.MakeJob(name).Queue(queue).MinAvailable(replicas).Task(mustertesting.MakeTask("worker", replicas).Requests("cpu", "1"))
	}
	s.JobPhase(s.CreateJob(job("borrows", borrower, 5)), batchv1alpha1.Running)
	s.CreateJob(job("starts", other, 6)) // the node has three cores left
	s.Soon("it is admitted", func() bool { return s.Queue(other).Status.Inqueue == 1 }, func() any { return s.Queue(other).Status })
	s.JobReason(s.CreateJob(job("waits", other, 3)), "QuotaExceeded")

	want := map[string]figures{
		borrower: {"5 cpu", "-", "4 cpu", "1 cpu", "1 cpu", "1", "0"},
		other:    {"-", "6 cpu", "6 cpu", "-", "-", "0", "2"},
		parent:   {"5 cpu", "6 cpu", "", "-", "-", "1", "2"}, // its share follows from the whole cluster
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		top, tree := cellsOf(muster(s, "top")), cellsOf(muster(s, "queue", "tree"))
		kubectl := cellsOf(muster(s, "queue", "get", parent, borrower, other))
		for name, want := range want {
			got := top[name].figures()
			if want.share == "" {
				want.share = got.share
			}
			assert.Equal(c, want, got, "top: %s", name)
			assert.Equal(c, want, tree[name].figures(), "tree: %s", name)
			assert.Equal(c, want, kubectl[name].ofKubectl(), "kubectl: %s", name)
			page := muster(s, "explain", "queue", name)
			for _, line := range want.onThePage() {
				assert.Contains(c, page, line, name)
			}
		}
	}, mustertesting.Timeout, mustertesting.Timeout/30)

	// Clients of Volcano find what Volcano writes. These are amounts of the queue with its children, and numbers by phase of the queue
	// itself.
	status := s.Queue(parent).Status
	assert.EqualValues(t, 5, status.Allocated.Cpu().Value())
	assert.EqualValues(t, 6, status.Reservation.Resource.Cpu().Value())
	assert.Zero(t, status.Running)
	assert.EqualValues(t, 1, s.Queue(other).Status.Inqueue)
	assert.EqualValues(t, 1, s.Queue(other).Status.Pending)
}

// cells are those of a row by the heading of their column.
type cells map[string]string

// cellsOf reads a table whose cells may be empty: each column begins where its heading does. A blank line ends the table.
func cellsOf(out string) map[string]cells {
	lines := strings.Split(out, "\n")
	headings := strings.Fields(lines[0])
	rows := map[string]cells{}
	for _, line := range lines[1:] {
		if strings.TrimSpace(line) == "" {
			break
		}
		row := cells{}
		for i, heading := range headings {
			from, to := strings.Index(lines[0], heading), len(line)
			if i+1 < len(headings) {
				to = strings.Index(lines[0], headings[i+1])
			}
			row[heading] = strings.TrimSpace(line[min(from, len(line)):min(to, len(line))])
		}
		rows[row[headings[0]]] = row
	}
	return rows
}

func (c cells) figures() figures {
	return figures{c["USED"], c["RESERVED"], c["SHARE"], c["GUARANTEE"], c["BORROWED"], c["RUNNING"], c["WAITING"]}
}

// ofKubectl writes "cpu 5/20" as "5 cpu", and the other amounts with the resource, too.
func (c cells) ofKubectl() figures {
	resource, used, _ := strings.Cut(c["USED/CAPABILITY"], " ")
	used, _, _ = strings.Cut(used, "/")
	amount := func(written string) string {
		if written == "" || written == "0" {
			return "-"
		}
		return written + " " + resource
	}
	return figures{amount(used), amount(c["RESERVED"]), amount(c["SHARE"]), amount(c["GUARANTEE"]), amount(c["BORROWED"]), c["RUNNING"], c["WAITING"]}
}

// onThePage are the parts of the lines about cpu, and the line about Jobs.
func (f figures) onThePage() []string {
	number := func(amount string) string { return strings.TrimSuffix(amount, " cpu") }
	lines := []string{fmt.Sprintf("Jobs, with those of queues below it: %s running, %s waiting.", f.running, f.waiting), "share " + number(f.share)}
	for format, amount := range map[string]string{
		": %s cpu used": f.used, "%s reserved for Jobs that start": f.reserved, "guaranteed %s": f.guarantee, ", %s borrowed": f.borrowed,
	} {
		if amount != "-" && (format != ": %s cpu used" || f.guarantee != "-") {
			lines = append(lines, fmt.Sprintf(format, number(amount)))
		}
	}
	return lines
}
