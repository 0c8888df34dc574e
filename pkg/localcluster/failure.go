package localcluster

import (
	"errors"
	"fmt"
	"strings"
)

// componentError is the failure of one component, with what its log says about it.
type componentError struct {
	name      string
	err       error
	logFile   string
	lastWords []string
}

func (e *componentError) Error() string {
	return fmt.Sprintf("starting %s: %v; from %s:\n  %s", e.name, e.err, e.logFile, strings.Join(e.lastWords, "\n  "))
}

func (e *componentError) Unwrap() error { return e.err }

// portTaken says whether an error comes from a port that another program took after we released it.
func portTaken(err error) bool {
	var failed *componentError
	return errors.As(err, &failed) && strings.Contains(strings.Join(failed.lastWords, "\n"), "address already in use")
}
