package kube

import "fmt"

// Reported is an error that the user has been told of already. It is the exit code.
type Reported int

// Error is for the log of a developer; users do not see it.
func (r Reported) Error() string { return fmt.Sprintf("reported, exit code %d", int(r)) }

// ExitCode of the program.
func (r Reported) ExitCode() int { return int(r) }
