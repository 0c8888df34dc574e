package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a killed process may take to be gone.
const stopTimeout = 10 * time.Second

// supervisor is the parent of a cluster's components. It records in DIR/state.json what becomes
// of each.
type supervisor struct {
	dir  string
	lock *os.File

	// parent runs functions on the one thread that starts all components. The kernel kills a
	// child when the thread that made it ends, so that thread must last.
	parent chan func()

	stopOnce sync.Once
	stopErr  error

	mu       sync.Mutex
	state    State
	children map[string]*child // component name -> its latest process
}

// child is one process of a component.
type child struct {
	component Component
	process   *os.Process
	ended     chan struct{} // closed when the process is gone and recorded
	stopping  bool          // guarded by supervisor.mu: its end is expected
}

// newSupervisor takes the folder for itself and writes the first state.
func newSupervisor(options Options, detached bool) (*supervisor, error) {
	lock, err := takeLock(options.Dir)
	if err != nil {
		return nil, err
	}
	s := &supervisor{
		dir:      options.Dir,
		lock:     lock,
		parent:   make(chan func()),
		state:    State{Supervisor: os.Getpid(), Detached: detached, Options: options},
		children: map[string]*child{},
	}
	if err := writeState(s.dir, s.state); err != nil {
		lock.Close()
		return nil, err
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for do := range s.parent {
			do()
		}
	}()
	return s, nil
}

// start runs a component that is not running.
func (s *supervisor) start(component Component) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.children[component.Name]; old != nil && !isClosed(old.ended) {
		return nil, fmt.Errorf("component %s is running already", component.Name)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, logsName), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	log, err := os.OpenFile(logPath(s.dir, component.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", component.Name, err)
	}
	defer log.Close()

	// Its life is bound to the supervisor's, not to that of the call that starts it.
	command := exec.CommandContext(context.Background(), component.Binary, component.Args...)
	command.Dir = filepath.Join(s.dir, internalName)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = childAttributes(component.OwnNamespaces)
	started := make(chan error)
	s.parent <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", component.Name, err)
	}

	c := &child{component: component, process: command.Process, ended: make(chan struct{})}
	s.children[component.Name] = c
	s.record(Process{Name: component.Name, PID: command.Process.Pid, URL: component.URL, Started: time.Now()})
	go s.await(c, command)
	return c, nil
}

// await records the end of a process.
func (s *supervisor) await(c *child, command *exec.Cmd) {
	outcome := "exit status 0"
	if err := command.Wait(); err != nil {
		outcome = err.Error()
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(c.ended)
	for _, process := range s.state.Processes {
		if process.PID == c.process.Pid && process.Name == c.component.Name {
			process.Ended, process.Outcome, process.Expected = &now, outcome, c.stopping
			s.record(process)
		}
	}
}

// record puts one process into the state. Called with mu held. A state that cannot be written
// (a full disk, a removed folder) must not stop the components. Status then shows the old one.
func (s *supervisor) record(process Process) {
	i := slices.IndexFunc(s.state.Processes, func(p Process) bool { return p.Name == process.Name })
	if i < 0 {
		s.state.Processes = append(s.state.Processes, process)
	} else {
		s.state.Processes[i] = process
	}
	if err := writeState(s.dir, s.state); err != nil {
		fmt.Fprintln(os.Stderr, "muster local cluster:", err)
	}
}

// snapshot copies the state.
func (s *supervisor) snapshot() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Processes = slices.Clone(state.Processes)
	return state
}

func (s *supervisor) child(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[name]
}

// stop ends one process: politely for as long as its component may take, then by force.
func (s *supervisor) stop(c *child) error {
	s.mu.Lock()
	c.stopping = true
	s.mu.Unlock()
	if c.component.Grace > 0 {
		_ = c.process.Signal(syscall.SIGTERM) // it may be gone already
		if waitClosed(c.ended, c.component.Grace) {
			return nil
		}
	}
	_ = c.process.Kill()
	if !waitClosed(c.ended, stopTimeout) {
		return fmt.Errorf("stopping %s: process %d does not end", c.component.Name, c.process.Pid)
	}
	return nil
}

// stopAll ends all processes, beginning with the last started, and gives the folder back. Calling it again does nothing more.
func (s *supervisor) stopAll() error {
	s.stopOnce.Do(func() {
		var errs []error
		for _, process := range slices.Backward(s.snapshot().Processes) {
			if c := s.child(process.Name); !isClosed(c.ended) {
				errs = append(errs, s.stop(c))
			}
		}
		close(s.parent)
		s.lock.Close()
		s.stopErr = errors.Join(errs...)
	})
	return s.stopErr
}

// awaitReady waits until the component serves. It fails at once if its process ends.
func (c *child) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := c.component.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		case <-ticker.C:
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func waitClosed(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
