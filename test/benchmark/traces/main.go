// Command traces replays workloads through the real scheduler in virtual time, by several rules of who may start before whom. It prints how
// long jobs waited and how much of the cluster was used.
//
//	go run ./test/benchmark/traces --quick
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/test/simulation"
)

// workload is jobs on a cluster. Stretched ones are replayed at each load.
type workload struct {
	name        string
	cluster     Cluster
	jobs        func(n int) ([]Job, error)
	many, quick int // how many jobs at the load of the goals, and else or with --quick. Both are 0 if they are not stretched
}

// hours is the tick of a scheduler whose jobs take hours.
const hours = 10 * time.Second

var (
	//go:embed data/philly-part.csv
	thinnedPhilly string
	//go:embed data/philly-whole.csv
	wholePhilly string
)

var workloads = []workload{
	{"eight nodes", Cluster{Nodes: 8, Each: 1}, func(int) ([]Job, error) { return EightNodes(), nil }, 0, 0},
	{"lublin", Cluster{Nodes: 32, Each: 8}, func(n int) ([]Job, error) { return Lublin(1, n, 256), nil }, 1000, 400},
	{"philly, one-GPU jobs thinned", Cluster{Nodes: 16, Each: 8}, firstOf(thinnedPhilly), 1000, 400},
	{"philly, as it is", Cluster{Nodes: 16, Each: 8}, firstOf(wholePhilly), 6000, 0},
}

// firstOf returns what reads the first jobs of a table.
func firstOf(table string) func(n int) ([]Job, error) {
	return func(n int) ([]Job, error) {
		jobs, err := parseTrace(strings.NewReader(table))
		return between(jobs, 0, n), err
	}
}

// EightNodes is a story: eight jobs end one after another. A gang waits for all nodes, and a stream of short jobs waits behind it.
func EightNodes() []Job {
	var jobs []Job
	for i := range 8 {
		jobs = append(jobs, Job{Run: time.Duration(i+1) * 25 * time.Second, Members: 1, Each: 1})
	}
	jobs = append(jobs, Job{Submit: time.Second, Run: time.Minute, Members: 8, Each: 1})
	for i := range 160 {
		jobs = append(jobs, Job{Submit: time.Duration(2000+1250*i) * time.Millisecond, Run: 10 * time.Second, Members: 1, Each: 1})
	}
	return jobs
}

// Row is a line of the table.
type Row struct {
	Workload string
	Load     float64 `json:",omitempty"` // 0 for a workload whose times are its own
	Rule     string
	Jobs     int
	Figures
	Expected
	Took time.Duration // of real time
}

type options struct {
	jobs  int // 0 for as many as a workload has
	quick bool
	loads []float64
	trace string
	nodes Cluster
	thin  int           // of --trace
	from  time.Duration // of --trace
	json  string
	svg   string

	workload string // the beginning of its name
	rule     string // a part of its name
}

// main runs as a test does: only a test may have a bubble in which time is virtual.
func main() {
	debug.SetGCPercent(400) // a replay keeps little, and makes much garbage
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	simulation.Prepare(func(err error, msg string) { fmt.Fprintln(os.Stderr, "traces:", msg, err) })
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
	os.Args = os.Args[:1] // the flags are not those of tests
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "traces", F: func(t *testing.T) {
		if err := run(t, o); err != nil {
			t.Error(err)
		}
	}}}, nil, nil)
}

func run(t *testing.T, o *options) error {
	rows, err := measure(t, o)
	if err != nil {
		return err
	}
	if o.json != "" {
		data, err := json.MarshalIndent(rows, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the figures: %w", err)
		}
		if err := os.WriteFile(o.json, data, 0o644); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	if o.svg != "" && len(panels(rows)) > 0 {
		if err := os.WriteFile(o.svg, []byte(picture(rows)), 0o644); err != nil {
			return fmt.Errorf("writing the picture: %w", err)
		}
	}
	if err := printRows(os.Stdout, rows); err != nil {
		return err
	}
	fmt.Println()
	if err := printExpected(os.Stdout, rows); err != nil {
		return err
	}
	fmt.Println()
	if err := printGoals(os.Stdout, rows); err != nil {
		return err
	}
	fmt.Println()
	return printSizes(os.Stdout, rows)
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("traces", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one load, and fewer jobs")
	flags.IntVar(&o.jobs, "jobs", 0, "jobs of each trace, instead of its own number")
	flags.StringVar(&o.trace, "trace", "", "a compressed table to replay instead, with the columns submit_s, run_s, gang_size, pod_gpu, queue, and maybe limit_s")
	flags.IntVar(&o.thin, "thin", 1, "keep one of so many jobs of one CPU or GPU of --trace")
	flags.DurationVar(&o.from, "from", 0, "leave out the jobs of --trace that were submitted before")
	flags.IntVar(&o.nodes.Nodes, "nodes", 32, "nodes for --trace")
	flags.IntVar(&o.nodes.Each, "each", 8, "CPUs or GPUs of each node for --trace")
	workload := flags.String("workload", "", "replay only the workloads whose names begin so")
	flags.StringVar(&o.rule, "rule", "", "replay only by the rules whose names have this in them")
	flags.StringVar(&o.json, "json", "", "file to write the figures to")
	flags.StringVar(&o.svg, "picture", "", "file to draw the waits at a load of 0.9 into, by size of the job (SVG)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.loads, o.workload = []float64{0.8, 0.9, 0.95}, *workload
	if o.quick {
		o.loads = []float64{0.9}
	}
	if o.thin < 1 {
		return nil, errors.New("--thin must be at least 1")
	}
	if o.jobs < 10 && o.jobs != 0 || o.nodes.Nodes < 1 || o.nodes.Each < 1 {
		return nil, errors.New("--jobs must be at least 10, --nodes and --each at least 1")
	}
	return o, nil
}

// measure replays each workload at each load by each rule, as many at a time as there are processors.
func measure(t *testing.T, o *options) ([]Row, error) {
	runs, err := runsOf(o)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(runs))
	t.Run("replay", func(t *testing.T) {
		for i := range runs {
			t.Run(fmt.Sprint(runs[i].Workload, " ", runs[i].Load, " ", runs[i].Rule), func(t *testing.T) {
				t.Parallel()
				errs[i] = runs[i].measure(t)
				fmt.Fprintf(os.Stderr, "%s took %.0f s: use %.3f, mean wait %s\n", t.Name(), runs[i].Took.Seconds(), runs[i].Use, short(runs[i].Mean))
			})
		}
	})
	rows := make([]Row, len(runs))
	for i := range runs {
		rows[i] = runs[i].Row
	}
	return rows, errors.Join(errs...)
}

// oneRun is a row with what makes it.
type oneRun struct {
	Row
	cluster Cluster
	jobs    []Job
	rule    Rule
	how     manner
}

func (r *oneRun) measure(t *testing.T) error {
	began := time.Now()
	ran, expected, err := replayWith(t, r.cluster, r.jobs, r.rule, r.how)
	if err != nil {
		return fmt.Errorf("%s at %.2f, %s: %w", r.Workload, r.Load, r.Rule, err)
	}
	r.Figures, r.Expected, r.Took = Sum(ran, r.cluster.Capacity()), expected, time.Since(began)
	return nil
}

func runsOf(o *options) ([]oneRun, error) {
	chosen := workloads
	if o.trace != "" {
		chosen = []workload{{o.trace, o.nodes, func(n int) ([]Job, error) {
			jobs, err := ReadTrace(o.trace)
			return between(Thin(jobs, o.thin), o.from, n), err
		}, 300, 200}}
	}
	var runs []oneRun
	for _, w := range chosen {
		if !strings.HasPrefix(w.name, o.workload) {
			continue
		}
		loads := o.loads
		tick := hours
		if w.many == 0 {
			loads, tick = []float64{0}, 0
		}
		for _, load := range loads {
			stretched, err := w.at(load, o)
			if err != nil {
				return nil, err
			}
			if len(stretched) == 0 {
				continue
			}
			for _, rule := range rulesFor(stretched) {
				if !strings.Contains(rule.Name, o.rule) || w.many > 0 && load != pictureLoad && !rule.isDrawn() {
					continue
				}
				how := manner{tick: tick, expect: rule.HasEstimates()}
				runs = append(runs, oneRun{Row{Workload: w.name, Load: load, Rule: rule.Name, Jobs: len(stretched)}, w.cluster, stretched, rule, how})
			}
		}
	}
	return runs, nil
}

// at are the jobs at a load. There are none if the workload is not replayed at it.
func (w *workload) at(load float64, o *options) ([]Job, error) {
	n := w.quick
	if load == pictureLoad && !o.quick {
		n = w.many
	}
	jobs, err := w.jobs(cmp.Or(o.jobs, n))
	if err != nil || load == 0 || len(jobs) == 0 {
		return jobs, err
	}
	// A job that is larger than the cluster never starts.
	jobs = slices.DeleteFunc(jobs, func(j Job) bool { return j.Size() > w.cluster.Capacity() || j.Each > w.cluster.Each })
	return Stretch(jobs, load, w.cluster.Capacity()), nil
}

func printRows(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKLOAD\tLOAD\tRULE\tUSE\tMEAN\tMEDIAN\tP95\tLONGEST\tLARGEST 3 %: MEAN\tMEDIAN\tP95\tLONGEST\tSLOWDOWN")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%.2f\t%s\t%.3f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\n", r.Workload, r.Load, r.Rule, r.Use,
			short(r.Mean), short(r.Median), short(r.P95), short(r.Longest),
			short(r.LargeMean), short(r.LargeMedian), short(r.LargeP95), short(r.LargestMax), r.Slowdown)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}

// printExpected prints how right the scheduler was about starts, of the rows with estimates.
func printExpected(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKLOAD\tLOAD\tRULE\tRESERVATIONS\tMOVED TO LATER\tEXPECTED RANGES\tHELD\tWIDTH\tPLANS\tEACH")
	for _, r := range rows {
		if r.Plans > 0 {
			fmt.Fprintf(table, "%s\t%.2f\t%s\t%d\t%d\t%d\t%.0f %%\t%.1f\t%d\t%.1f ms\n", r.Workload, r.Load, r.Rule, r.Reserved, r.Moved,
				r.Ranges, 100*r.held(), r.Width, r.Plans, r.PlanTime.Seconds()*1000/float64(r.Plans))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the expected starts: %w", err)
	}
	return nil
}

// printSizes prints the waits by size of the job.
func printSizes(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKLOAD\tLOAD\tSIZE\tJOBS\tRULE\tMEAN\tP95\tSLOWDOWN")
	for _, r := range rows {
		for _, c := range r.BySize {
			fmt.Fprintf(table, "%s\t%.2f\t%s\t%d\t%s\t%s\t%s\t%.1f\n", r.Workload, r.Load, c.Sizes, c.Jobs, r.Rule, short(c.Mean), short(c.P95), c.Slowdown)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the waits by size: %w", err)
	}
	return nil
}

// short writes a wait in seconds, or in minutes where it is long.
func short(d time.Duration) string {
	if d < 10*time.Minute {
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
	return fmt.Sprintf("%.0fm", d.Minutes())
}
