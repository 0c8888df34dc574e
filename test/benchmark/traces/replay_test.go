package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/test/simulation"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	simulation.Prepare(func(error, string) {})
	os.Exit(m.Run())
}

// TestEightNodes replays the story of one gang that needs all nodes. In order it starts at the earliest time there is, and nodes stand idle for it. If it may
// be bypassed for ever, it waits until the stream of small jobs ends.
func TestEightNodes(t *testing.T) {
	jobs, cluster := EightNodes(), workloads[0].cluster
	gang := 8 // after the eight jobs that run at first
	require.Equal(t, cluster.Capacity(), jobs[gang].Size())
	end := map[string]time.Duration{}
	for _, rule := range rulesFor(jobs) {
		ran, err := Replay(t, cluster, jobs, rule)
		require.NoError(t, err)
		for i, r := range ran {
			require.Equal(t, jobs[i], r.Job)
			require.GreaterOrEqual(t, r.Start, r.Submit, "job %d", i)
		}
		assertRoom(t, ran, cluster.Capacity())
		end[rule.Name] = ran[gang].Start
		switch use := Sum(ran, cluster.Capacity()).Use; {
		case rule.InOrder:
			assert.Equal(t, 200*time.Second, ran[gang].Start.Round(time.Second), "the last of the eight jobs ends then")
			assert.Less(t, use, 0.6)
		case rule.Arguments != nil:
			assert.Greater(t, use, 0.95, rule.Name)
		case rule.Estimate != nil:
			assert.GreaterOrEqual(t, use, 0.95, rule.Name)
			assert.LessOrEqual(t, ran[gang].Start, 204*time.Second, "small jobs fill the holes, and the gang is not delayed")
		}
	}
	assert.Greater(t, end["bypass for ever"], 300*time.Second)
	assert.Less(t, end["bypass, bounded"], end["bypass for ever"])
}

// TestHistorySaysHowLongJobsRun: of the first job of a kind nothing is known. With the estimates of the others, short jobs fill the hole before a
// large one.
func TestHistorySaysHowLongJobsRun(t *testing.T) {
	cluster := Cluster{Nodes: 2, Each: 1}
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	short := func(submit int) Job {
		return Job{Submit: second(submit), Run: second(10), Members: 1, Each: 1, Queue: "short"}
	}
	long := func(submit int) Job {
		return Job{Submit: second(submit), Run: second(100), Members: 1, Each: 1, Queue: "long"}
	}
	large := Job{Submit: second(202), Run: second(10), Members: 2, Each: 1, Queue: "large"}
	jobs := []Job{short(0), long(0), long(200), large, short(203), short(204), long(205)}
	for name, rule := range map[string]Rule{
		"history": {ByHistory: true, Arguments: func(args *config.CoschedulingArgs) { args.MaxOvertakes, args.MaxOvertakeTime.Duration = 0, 0 }},
		"none":    {Arguments: func(args *config.CoschedulingArgs) { args.MaxOvertakes, args.MaxOvertakeTime.Duration = 0, 0 }},
	} {
		ran, err := Replay(t, cluster, jobs, rule)
		require.NoError(t, err)
		assertRoom(t, ran, cluster.Capacity())
		assert.Less(t, ran[5].Start, second(220), "%s: both short jobs run before the large one", name)
		if rule.ByHistory {
			assert.InDelta(t, 300, ran[3].Start.Seconds(), 2, "the large one starts when the long one ends")
			assert.Greater(t, ran[6].Start, ran[3].Start, "a job that would delay it waits")
		} else {
			assert.Greater(t, ran[3].Start, ran[6].Start, "without estimates nothing is known of a delay")
		}
	}
}

// TestALoopThatIsLeftOutChangesNothing replays the same jobs with and without the loops for metrics and reports. Even two equal replays differ by a second or two where
// several goroutines are called at the same time.
func TestALoopThatIsLeftOutChangesNothing(t *testing.T) {
	cluster := Cluster{Nodes: 4, Each: 8}
	jobs := Stretch(Lublin(3, 40, cluster.Capacity()), 0.95, cluster.Capacity())
	for i := range jobs { // minutes instead of hours
		jobs[i].Submit, jobs[i].Run = jobs[i].Submit/60, max(jobs[i].Run/60, time.Second)
	}
	for _, rule := range rulesFor(jobs) {
		without, err := Replay(t, cluster, jobs, rule)
		require.NoError(t, err)
		synctest.Test(t, func(*testing.T) {
			var with []Ran
			with, _, err = replayInBubble(cluster, jobs, rule, manner{withAll: true})
			a, b := Sum(with, cluster.Capacity()), Sum(without, cluster.Capacity())
			assert.InEpsilon(t, a.Mean, b.Mean, 0.02, rule.Name)
			assert.InEpsilon(t, a.LargeMean, b.LargeMean, 0.02, rule.Name)
			assert.InEpsilon(t, a.Use, b.Use, 0.01, rule.Name)
		})
		require.NoError(t, err)
	}
}

// assertRoom checks that never more ran than the cluster has.
func assertRoom(t *testing.T, ran []Ran, capacity int) {
	t.Helper()
	for _, at := range ran {
		used := 0
		for _, r := range ran {
			if r.Start <= at.Start && at.Start < r.Start+r.Run {
				used += r.Size()
			}
		}
		require.LessOrEqual(t, used, capacity, "at %s", at.Start)
	}
}

func TestLublinDrawsTheModelsJobs(t *testing.T) {
	jobs := Lublin(7, 5000, 256)
	assert.Equal(t, jobs, Lublin(7, 5000, 256), "a seed gives the same jobs")
	serial, powers, logs := 0, 0, 0.0
	for i, j := range jobs {
		require.True(t, j.Members >= 1 && j.Members <= 256 && j.Run > 0, "%+v", j)
		require.True(t, i == 0 || j.Submit >= jobs[i-1].Submit)
		switch {
		case j.Members == 1:
			serial++
			logs += math.Log(j.Run.Seconds())
		case j.Members&(j.Members-1) == 0:
			powers++
		}
	}
	assert.InDelta(t, 0.2927, float64(serial)/5000, 0.03)
	assert.Greater(t, float64(powers)/float64(5000-serial), 0.6686-0.03)
	mean := 0.6956*6.57*0.823 + 0.3044*639.1*0.0156
	assert.InDelta(t, mean, logs/float64(serial), 0.25, "of 69.56 % the run time is short, of the others long")
}

func TestStretchSetsTheLoad(t *testing.T) {
	jobs := Stretch(Lublin(1, 1000, 256), 0.9, 256)
	assert.InDelta(t, 0.9, Offered(jobs, 256), 0.001)
}

// TestWhatRunsAfterTheLastSubmissionIsNoLoad: one job of weeks is most of the work of a few hours.
func TestWhatRunsAfterTheLastSubmissionIsNoLoad(t *testing.T) {
	jobs := []Job{{Run: 1000 * time.Hour, Members: 1, Each: 1}, {Submit: time.Hour, Run: 2 * time.Hour, Members: 1, Each: 1}, {Submit: 4 * time.Hour, Run: time.Hour, Members: 1, Each: 1}}
	assert.InDelta(t, (4+2+0.0)/(2*4), Offered(jobs, 2), 0.001)
	stretched := Stretch(jobs, 0.6, 2)
	assert.InDelta(t, 0.6, Offered(stretched, 2), 0.001)
	assert.InDelta(t, 10, stretched[2].Submit.Hours(), 0.1, "(10 + 2) / (2 * 10)")
}

// TestExpectedStartsAreJudged: a gang needs both nodes, and waits for a job of an hour.
func TestExpectedStartsAreJudged(t *testing.T) {
	jobs := []Job{{Run: time.Hour, Members: 1, Each: 1}, {Submit: time.Second, Run: time.Minute, Members: 2, Each: 1}}
	truth := Rule{Name: "truth", Estimate: func(j Job) time.Duration { return j.Run }}
	_, expected, err := replayWith(t, Cluster{Nodes: 2, Each: 1}, jobs, truth, manner{expect: true})
	require.NoError(t, err)
	assert.Equal(t, 1, expected.Ranges, "it does not change, so it is written once")
	assert.Equal(t, 1, expected.Held)
	assert.Equal(t, 1, expected.Reserved)
	assert.Zero(t, expected.Moved)
	assert.InDelta(t, 12, expected.Plans, 1, "one each five minutes")
	assert.Positive(t, expected.PlanTime)

	r := &replay{ran: []Ran{{Start: time.Hour}}, said: []said{
		{0, 40 * time.Minute, 50 * time.Minute, 55 * time.Minute}, {0, 40 * time.Minute, 50 * time.Minute, 70 * time.Minute},
		{0, 0, 61 * time.Minute, 2 * time.Hour},
	}}
	assert.Equal(t, Expected{Ranges: 3, Held: 1, Width: 59. / 60}, r.judge())
}

func TestFigures(t *testing.T) {
	ran := []Ran{
		{Job{Run: 100 * time.Second, Members: 1, Each: 1}, 0},
		{Job{Run: time.Second, Members: 1, Each: 1}, 9 * time.Second},
		{Job{Submit: 50 * time.Second, Run: 100 * time.Second, Members: 2, Each: 1}, 150 * time.Second},
	}
	figures := Sum(ran, 2)
	assert.Equal(t, 109*time.Second/3, figures.Mean)
	assert.Equal(t, 9*time.Second, figures.Median)
	assert.Equal(t, 100*time.Second, figures.Longest)
	assert.Equal(t, 100*time.Second, figures.LargeMean, "the largest job waited so long")
	assert.InDelta(t, (1+1+2.0)/3, figures.Slowdown, 0.001, "a second of work and nine of waiting are no slowdown")
	assert.InDelta(t, 51.0/100, figures.Use, 0.001, "of two units in 50 s")
	assert.Equal(t, []Class{
		{Sizes: "1", Jobs: 2, Mean: 4500 * time.Millisecond, P95: 9 * time.Second, Slowdown: 1},
		{Sizes: "2 to 8", Jobs: 1, Mean: 100 * time.Second, P95: 100 * time.Second, Slowdown: 2},
	}, figures.BySize)
}

func TestGoalsAreComparedWithTodaysRule(t *testing.T) {
	row := func(rule string, use float64, mean time.Duration) Row {
		return Row{Workload: "lublin", Load: 0.9, Rule: rule, Figures: Figures{Use: use, Mean: mean}, Expected: Expected{Ranges: 10, Held: 9}}
	}
	var out strings.Builder
	rows := []Row{row("EASY by history", 0.85, 50*time.Second), row(today, 0.5, 100*time.Second), row("first in, first out", 0.1, time.Hour)}
	require.NoError(t, printGoals(&out, rows))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5)
	assert.Regexp(t, "use +at least 0.84 +EASY by history +0.85 *$", lines[1])
	assert.Regexp(t, "at most 0.30 +EASY by history +0.50 +missed$", lines[2])
	assert.Regexp(t, "at least 0.75 +EASY by history +0.90 *$", lines[3])
	assert.Regexp(t, "at most 0.85 +EASY by history +0.90 +missed$", lines[4])
	out.Reset()
	require.NoError(t, printGoals(&out, rows[:1]))
	assert.Equal(t, 1, strings.Count(out.String(), "\n"), "there is nothing to compare with")
}

func TestThePictureHasABarForEachClassAndRule(t *testing.T) {
	figures := Figures{BySize: []Class{{Sizes: "1", Mean: time.Minute}, {Sizes: "2 to 8", Mean: 2 * time.Hour}}}
	drawn := picture([]Row{
		{Workload: "w", Load: pictureLoad, Rule: "bypass, bounded", Figures: figures},
		{Workload: "w", Load: pictureLoad, Rule: "EASY by history", Figures: figures},
		{Workload: "w", Load: pictureLoad, Rule: "first in, first out", Figures: figures},
		{Workload: "w", Load: 0.8, Rule: "EASY by history", Figures: figures},
	})
	assert.Equal(t, 4, strings.Count(drawn, `height="13"`), "two classes by two rules; others are not drawn")
	assert.Equal(t, 2, strings.Count(drawn, ">120m<"))
	assert.Contains(t, drawn, "2 to 8")
	require.NoError(t, xml.Unmarshal([]byte(drawn), new(struct{})))
}

// TestLimitsOfUsersAreEstimates: only a trace that has limits is replayed by them.
func TestLimitsOfUsersAreEstimates(t *testing.T) {
	const table = "submit_s,run_s,gang_size,pod_gpu,queue,limit_s\n0,40,1,1,long,60\n1,10,2,1,large,20\n2,10,1,1,fits,50\n3,10,1,1,%s\n"
	jobs, err := parseTrace(strings.NewReader(fmt.Sprintf(table, "long,70")))
	require.NoError(t, err)
	assert.Equal(t, time.Minute, jobs[0].Limit)
	at := slices.IndexFunc(rulesFor(jobs), func(r Rule) bool { return r.ByLimits })
	require.GreaterOrEqual(t, at, 0)
	ran, err := Replay(t, Cluster{Nodes: 2, Each: 1}, jobs, rulesFor(jobs)[at])
	require.NoError(t, err)
	assert.Less(t, ran[2].Start, 10*time.Second, "by its limit it ends before the start of the large one")
	assert.InDelta(t, 40, ran[1].Start.Seconds(), 3, "when the long one ends")
	assert.Greater(t, ran[3].Start, ran[1].Start, "by its limit it would delay the large one, by its run time it would not")

	jobs, err = parseTrace(strings.NewReader(fmt.Sprintf(table, "unknown,")))
	require.NoError(t, err)
	assert.Zero(t, jobs[3].Limit, "some jobs may have none")
	_, err = parseTrace(strings.NewReader(fmt.Sprintf(table, "wrong,x")))
	require.ErrorContains(t, err, "row 5: column limit_s")
	for _, rule := range rulesFor(EightNodes()) {
		assert.False(t, rule.ByLimits, "none of its jobs has a limit")
	}
}

func TestATraceIsReadAndThinned(t *testing.T) {
	const table = "job,submit_s,run_s,gang_size,pod_gpu,queue\na,7,60,2,8,blue\nb,3,10,1,1,red\nc,4,10,1,1,red\n"
	jobs, err := parseTrace(strings.NewReader(table))
	require.NoError(t, err)
	assert.Equal(t, Job{Submit: 3 * time.Second, Run: 10 * time.Second, Members: 1, Each: 1, Queue: "red"}, jobs[0], "in the order of submission")
	assert.Equal(t, 16, jobs[2].Size())
	assert.Len(t, Thin(jobs, 2), 2)
	assert.Equal(t, time.Second, between(jobs, 3*time.Second, 2)[1].Submit)

	_, err = parseTrace(strings.NewReader("submit_s,run_s\n1,x\n"))
	require.ErrorContains(t, err, "row 2: column run_s")
	for table, n := range map[string]int{thinnedPhilly: 4000, wholePhilly: 6000} {
		part, err := firstOf(table)(n)
		require.NoError(t, err)
		assert.Len(t, part, n)
	}
}
