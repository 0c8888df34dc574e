package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// Job is one gang of a trace: members that are alike, start together and end together.
type Job struct {
	Submit  time.Duration // since the trace began
	Run     time.Duration // how long it really runs
	Limit   time.Duration // how long it may run, as its user said; 0 for no word
	Members int
	Each    int    // how much of the cluster's resource a member asks for
	Queue   string // "" for the only one
}

// Size is how much of the cluster's resource the job uses while it runs.
func (j Job) Size() int { return j.Members * j.Each }

// Work is the job's size times its run time, in seconds.
func (j Job) Work() float64 { return float64(j.Size()) * j.Run.Seconds() }

// ReadTrace reads the jobs of a compressed table with the columns submit_s, run_s, gang_size, pod_gpu and queue. Column limit_s may be missing, or
// be empty for some jobs. Others are not needed. A job without GPUs asks for one CPU a member.
func ReadTrace(path string) ([]Job, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the trace: %w", err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("decompressing %s: %w", path, err)
	}
	return parseTrace(plain)
}

func parseTrace(from io.Reader) ([]Job, error) {
	rows := csv.NewReader(from)
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the names of the columns: %w", err)
	}
	var jobs []Job
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading row %d: %w", len(jobs)+2, err)
		}
		job, err := parseJob(header, row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(jobs)+2, err)
		}
		jobs = append(jobs, job)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return int(a.Submit - b.Submit) })
	return jobs, nil
}

func parseJob(header, row []string) (Job, error) {
	var errs []error
	cell := func(column string) string {
		at := slices.Index(header, column)
		if at < 0 {
			errs = append(errs, fmt.Errorf("there is no column %s", column))
			return ""
		}
		return row[at]
	}
	number := func(column string) float64 {
		value, err := strconv.ParseFloat(cell(column), 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("column %s: %w", column, err))
		}
		return value
	}
	job := Job{
		Submit:  time.Duration(number("submit_s") * float64(time.Second)),
		Run:     time.Duration(number("run_s") * float64(time.Second)),
		Members: int(number("gang_size")),
		Each:    max(int(number("pod_gpu")), 1),
		Queue:   cell("queue"),
	}
	if at := slices.Index(header, "limit_s"); at >= 0 && row[at] != "" {
		job.Limit = time.Duration(number("limit_s") * float64(time.Second))
	}
	return job, errors.Join(errs...)
}

// between returns the jobs that were submitted from one time on, at most n. Their trace begins with the first.
func between(jobs []Job, from time.Duration, n int) []Job {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.Submit < from })
	jobs = jobs[:min(n, len(jobs))]
	if len(jobs) > 0 {
		begin := jobs[0].Submit
		for i := range jobs {
			jobs[i].Submit -= begin
		}
	}
	return jobs
}

// Thin keeps each job that is larger than one, and one of so many others.
func Thin(jobs []Job, oneOf int) []Job {
	singles := 0
	return slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool {
		if j.Size() > 1 {
			return false
		}
		singles++
		return singles%oneOf != 0
	})
}

// Stretch moves the times of submission. Afterwards the offered load is a share of what the cluster can do.
func Stretch(jobs []Job, load float64, capacity int) []Job {
	if jobs[len(jobs)-1].Submit == 0 {
		return jobs
	}
	stretched := func(factor float64) []Job {
		jobs := slices.Clone(jobs)
		for i := range jobs {
			jobs[i].Submit = time.Duration(float64(jobs[i].Submit) * factor)
		}
		return jobs
	}
	low, high := 0.0, 1.0 // the longer the time, the less is offered
	for Offered(stretched(high), capacity) > load {
		low, high = high, high*2
	}
	for range 40 {
		if middle := (low + high) / 2; Offered(stretched(middle), capacity) > load {
			low = middle
		} else {
			high = middle
		}
	}
	return stretched(high)
}

// Offered is the share of a cluster that jobs would use until the last submission if each began at once. The rest of a job is left out: a few long jobs
// may be most of the work.
func Offered(jobs []Job, capacity int) float64 {
	ran := make([]Ran, len(jobs))
	for i, job := range jobs {
		ran[i] = Ran{job, job.Submit}
	}
	return use(ran, capacity)
}
