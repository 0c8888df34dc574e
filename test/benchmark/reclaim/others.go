package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/muster-sched/muster/test/benchmark/report"
)

// queuesGoal is the least ratio of throughput with many queues to that without.
const queuesGoal = 0.97

// measureQueues has the benchmark of throughput compare Jobs in 100 queues with the same in one.
func measureQueues(ctx context.Context, o *options) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "throughput.json")
	if _, err := output(ctx, "go", "run", "./test/benchmark/throughput", "--variants", "jobs,queues", "--shapes", "80x25",
		"--rounds", strconv.Itoa(o.rounds), "--json", path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading what was measured: %w", err)
	}
	ratio, err := ratioOf(data)
	if err != nil {
		return nil, err
	}
	return []report.Figure{report.AtLeast("throughput with 100 queues on three levels, all writes counted", ratio, queuesGoal, "ratio")}, nil
}

// ratioOf is the median ratio, within each round, of the time until all is written, without queues and with queues.
func ratioOf(throughput []byte) (float64, error) {
	var results []struct {
		Variant string  `json:"variant"`
		Round   int     `json:"round"`
		Told    float64 `json:"toldSeconds"`
	}
	if err := json.Unmarshal(throughput, &results); err != nil {
		return 0, fmt.Errorf("decoding what was measured: %w", err)
	}
	without, with := map[int]float64{}, map[int]float64{}
	for _, r := range results {
		switch r.Variant {
		case "jobs":
			without[r.Round] = r.Told
		case "queues":
			with[r.Round] = r.Told
		}
	}
	var ratios []float64
	for round, told := range with {
		if without[round] > 0 && told > 0 {
			ratios = append(ratios, without[round]/told)
		}
	}
	if len(ratios) == 0 {
		return 0, errors.New("no round has both variants")
	}
	return report.Median(ratios), nil
}

// decisionsGoal is the least number of decisions a second.
const decisionsGoal = 500

// measureAdmission runs the Go benchmark of rounds of admission, and takes the slowest of its cases.
func measureAdmission(ctx context.Context, _ *options) ([]report.Figure, error) {
	text, err := output(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkAdmission$", "-benchtime", "3x", "./pkg/controllers/podgroup")
	if err != nil {
		return nil, err
	}
	rates, err := decisionsIn(text)
	if err != nil {
		return nil, err
	}
	const name = "admission with 10,000 waiting in one queue, slowest case"
	return []report.Figure{report.AtLeast(name, slices.Min(rates), decisionsGoal, "decisions/s")}, nil
}

var decisions = regexp.MustCompile(`([0-9.e+]+) decisions/s`)

// decisionsIn are the decisions a second of all cases.
func decisionsIn(text string) ([]float64, error) {
	var rates []float64
	for _, match := range decisions.FindAllStringSubmatch(text, -1) {
		rate, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", match[0], err)
		}
		rates = append(rates, rate)
	}
	if len(rates) == 0 {
		return nil, fmt.Errorf("no decisions a second in %q", text)
	}
	return rates, nil
}

// output runs a command of the repository and returns what it prints. It prints that, too.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	os.Stderr.Write(out)
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, args[0], err)
	}
	return string(out), nil
}
