package kube

import (
	"fmt"

	"github.com/google/shlex"
)

// Words splits a command as a shell does.
func Words(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("command %q: %w: close the quotes", command, err)
	}
	return words, nil
}
