package localcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// keepWord on the lifeline makes a supervisor outlive the process that started it.
const keepWord = "keep"

// reportFD is the file descriptor on which a supervisor reports to the process that started it.
const reportFD = 3

// report is one line from a supervisor to the process that started it.
type report struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
}

// UpDetached starts a cluster whose components are children of a process of their own. This process is made by command, which must end in a
// call of [Supervise] (`muster local supervise`). That process ends with the calling one, for any reason, until [Cluster.Detach] is called.
func UpDetached(ctx context.Context, options Options, command ...string) (*Cluster, error) {
	options, err := prepare(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(options.Dir, logsName), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	supervising, err := startSupervisor(options, command)
	if err != nil {
		return nil, err
	}
	if err := supervising.awaitReady(ctx, options.Progress); err != nil {
		return nil, err
	}
	return &Cluster{dir: options.Dir, options: options, lifeline: supervising.lifeline}, nil
}

// Detach makes a cluster of [UpDetached] outlive the calling process.
func (c *Cluster) Detach() error {
	if c.lifeline == nil {
		return errors.New("detaching the cluster: this process is its supervisor, or never was tied to it")
	}
	if _, err := fmt.Fprintln(c.lifeline, keepWord); err != nil {
		return fmt.Errorf("detaching the cluster: %w", err)
	}
	err := c.lifeline.Close()
	c.lifeline = nil
	return err
}

// supervising is the starting process's side of a supervisor.
type supervising struct {
	process  *os.Process
	ended    chan struct{}
	lifeline *os.File // the supervisor stops when this closes without the word
	reports  *os.File
	logFile  string
}

func startSupervisor(options Options, command []string) (*supervising, error) {
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encoding the options: %w", err)
	}
	logFile := logPath(options.Dir, "supervisor")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()
	childEnd, lifeline, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the lifeline: %w", err)
	}
	defer childEnd.Close()
	reports, reportsEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe for reports: %w", err)
	}
	defer reportsEnd.Close()

	// The supervisor is to outlive this call; the lifeline ends it before that.
	process := exec.CommandContext(context.Background(), command[0], command[1:]...)
	process.Dir = options.Dir
	process.Stdin, process.Stdout, process.Stderr = childEnd, log, log
	process.ExtraFiles = []*os.File{reportsEnd}
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	s := &supervising{process: process.Process, ended: make(chan struct{}), lifeline: lifeline, reports: reports, logFile: logFile}
	go func() {
		_ = process.Wait() // its outcome is in its reports and its log
		close(s.ended)
	}()
	if _, err := fmt.Fprintf(lifeline, "%s\n", encoded); err != nil {
		return nil, fmt.Errorf("telling the supervisor its options: %w", err)
	}
	return s, nil
}

// awaitReady passes the supervisor's progress on until it is ready or has failed. When the
// caller gives up, so does the supervisor.
func (s *supervising) awaitReady(ctx context.Context, progress func(string)) error {
	defer s.reports.Close()
	outcome := make(chan error, 1)
	go func() { outcome <- s.readReports(progress) }()
	var err error
	select {
	case err = <-outcome:
		if err == nil {
			return nil
		}
	case <-ctx.Done():
		err = fmt.Errorf("starting the cluster: %w", ctx.Err())
	}
	s.lifeline.Close()
	if !waitClosed(s.ended, supervisorGrace) {
		_ = s.process.Kill()
	}
	return err
}

func (s *supervising) readReports(progress func(string)) error {
	lines := bufio.NewScanner(s.reports)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line report
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("reading the supervisor's report: %w", err)
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Ready:
			return nil
		default:
			progress(line.Progress)
		}
	}
	return fmt.Errorf("the supervisor ended before the cluster was ready; from %s:\n  %s",
		s.logFile, strings.Join(lastWords(s.logFile, lastWordsLines), "\n  "))
}

// Supervise is the life of a supervisor process: it reads its options from standard input and starts the cluster. It keeps the cluster
// until it gets a SIGTERM or its lifeline breaks. It returns when all components have ended.
func Supervise(ctx context.Context) error {
	// A report to a starter that is gone must not end the supervisor half way.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	lifeline := bufio.NewReader(os.Stdin)
	options, err := readOptions(lifeline)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(reportFD) // it is not for the components
	reports := os.NewFile(reportFD, "reports")
	send := func(line report) { _ = json.NewEncoder(reports).Encode(line) } // the starter may be gone
	options.Progress = func(message string) { send(report{Progress: message}) }

	tied, cut := context.WithCancel(ctx)
	defer cut()
	go watchLifeline(lifeline, cut)

	cluster, err := bringUp(tied, options, true)
	if err != nil {
		send(report{Error: err.Error()})
		if tied.Err() != nil && ctx.Err() == nil {
			return errors.Join(err, removeMade(options.Dir)) // no starter is left to read the logs
		}
		return err
	}
	send(report{Ready: true})
	reports.Close()
	<-tied.Done()
	if ctx.Err() == nil { // without a request to stop, no other process clears up
		cleaning, cancel := context.WithTimeout(context.Background(), supervisorGrace)
		defer cancel()
		return cluster.Down(cleaning)
	}
	return cluster.stop(ctx)
}

func readOptions(lifeline *bufio.Reader) (Options, error) {
	var options Options
	line, err := lifeline.ReadBytes('\n')
	if err != nil {
		return options, fmt.Errorf("reading the options from standard input: %w", err)
	}
	if err := json.Unmarshal(line, &options); err != nil {
		return options, fmt.Errorf("reading the options from standard input: %w", err)
	}
	return options, nil
}

// watchLifeline calls cut when the lifeline breaks. Once the word was said it may break.
func watchLifeline(lifeline *bufio.Reader, cut func()) {
	for {
		line, err := lifeline.ReadString('\n')
		if strings.TrimSpace(line) == keepWord {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "%s reading the lifeline: %v\n", time.Now().Format(time.RFC3339), err)
			}
			cut()
			return
		}
	}
}
