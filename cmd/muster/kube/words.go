package kube

import (
	"fmt"
	"strings"

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

// ShellWords is a command as a shell reads it. A single word is a line for the shell already.
func ShellWords(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]#~=%!{}\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
