package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// State is what the supervisor knows of a cluster, as DIR/state.json has it.
type State struct {
	// Supervisor is the process that is the parent of all components.
	Supervisor int `json:"supervisor"`
	// Detached tells that the supervisor is a process of its own, so that any process may stop it.
	Detached bool `json:"detached"`
	// Options are the options that the cluster was made with.
	Options Options `json:"options"`
	// Processes are the components, in the order of their start.
	Processes []Process `json:"processes"`
}

// Process is one component, running or ended.
type Process struct {
	// Name is the component's.
	Name string `json:"name"`
	// PID is that of its latest process.
	PID int `json:"pid"`
	// URL is where it serves its metrics, "" if it has none for us.
	URL string `json:"url,omitempty"`
	// Started is when that process was started.
	Started time.Time `json:"started"`
	// Ended is when it ended; nil while it runs.
	Ended *time.Time `json:"ended,omitempty"`
	// Outcome says how it ended, for example "exit status 1" or "signal: killed".
	Outcome string `json:"outcome,omitempty"`
	// Expected tells that it ended because the supervisor stopped it.
	Expected bool `json:"expected,omitempty"`
}

// Crashed tells whether the process ended unasked.
func (p Process) Crashed() bool { return p.Ended != nil && !p.Expected }

// writeState replaces the state as a whole, so that readers never see half of it.
func writeState(dir string, state State) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's state: %w", err)
	}
	path := filepath.Join(dir, stateName)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

func readState(dir string) (State, error) {
	var state State
	data, err := os.ReadFile(filepath.Join(dir, stateName))
	if errors.Is(err, os.ErrNotExist) {
		return state, fmt.Errorf("no cluster in %s: start one with `muster local up --dir %s`", dir, dir)
	}
	if err != nil {
		return state, fmt.Errorf("reading the cluster's state: %w", err)
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("reading the cluster's state from %s: %w", filepath.Join(dir, stateName), err)
	}
	return state, nil
}

// A process that only looks at a cluster holds its lock for a moment: taking it is tried for longer.
const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// takeLock takes the lock of a folder. The kernel gives it back when the process ends, so it
// tells for certain whether the supervisor lives.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the cluster's lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for try := 1; errors.Is(err, syscall.EWOULDBLOCK) && try < lockTries; try++ {
		time.Sleep(lockPause)
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another program is using the cluster in %s", dir)
		}
		return nil, fmt.Errorf("locking the cluster's folder: %w", err)
	}
	return file, nil
}

// lockHeld tells whether a supervisor lives in the folder.
func lockHeld(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the cluster's lock: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("testing the cluster's lock: %w", err)
	}
	return false, nil
}
