// Package report keeps the runs of a benchmark and compares the variants of a workload by ratios within a round. All that runs
// within one round met the same moods of the machine.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Run is one variant of a workload, run once.
type Run struct {
	Workload string `json:"workload"`
	Variant  string `json:"variant"`
	Round    int    `json:"round"`
	// Pods is how many pods were bound.
	Pods int `json:"pods"`
	// Seconds is the time from the first pod created to the last one bound.
	Seconds float64 `json:"seconds"`
	// PodsPerSecond is Pods divided by Seconds.
	PodsPerSecond float64 `json:"podsPerSecond"`
	// CPUSeconds is the processor time that the measured program took in that time, where it is known.
	CPUSeconds float64 `json:"cpuSeconds,omitempty"`
	// TimedOut says that not all pods were bound within the limit; the figures are about the bound pods.
	TimedOut bool `json:"timedOut,omitempty"`
}

// Runs are the runs of a benchmark.
type Runs []Run

// Load reads runs that Save wrote. There are none if there is no file.
func Load(path string) (Runs, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	var runs Runs
	if err := json.Unmarshal(data, &runs); err != nil {
		return nil, fmt.Errorf("decoding earlier results: %w", err)
	}
	return runs, nil
}

// Save writes the runs as JSON. The file is never half written.
func (r Runs) Save(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// Find returns the run of a variant in a round.
func (r Runs) Find(workload, variant string, round int) (Run, bool) {
	i := slices.IndexFunc(r, func(run Run) bool {
		return run.Workload == workload && run.Variant == variant && run.Round == round
	})
	if i < 0 {
		return Run{}, false
	}
	return r[i], true
}

// Of returns all runs of a variant.
func (r Runs) Of(workload, variant string) Runs {
	var own Runs
	for _, run := range r {
		if run.Workload == workload && run.Variant == variant {
			own = append(own, run)
		}
	}
	return own
}

// Ratios compares a variant with a base, round by round. Rounds in which the base did not run have none.
func (r Runs) Ratios(workload, variant, base string, compare func(own, base Run) float64) []float64 {
	var ratios []float64
	for _, own := range r.Of(workload, variant) {
		if other, ok := r.Find(workload, base, own.Round); ok {
			ratios = append(ratios, compare(own, other))
		}
	}
	return ratios
}

// Speed compares pods a second.
func Speed(own, base Run) float64 { return own.PodsPerSecond / base.PodsPerSecond }

// CPU compares the processor time for a pod.
func CPU(own, base Run) float64 {
	return own.CPUSeconds / float64(own.Pods) / (base.CPUSeconds / float64(base.Pods))
}

// Speeds are the pods a second of each run.
func (r Runs) Speeds() []float64 {
	speeds := make([]float64, 0, len(r))
	for _, run := range r {
		speeds = append(speeds, run.PodsPerSecond)
	}
	return speeds
}

// Median is the value in the middle, or the mean of the two that are. There must be one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
