package kube

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// None has a command take no arguments.
func None(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: leave out %q, or see %s --help", command.CommandPath(), args[0], command.CommandPath())
	}
	return nil
}

// ExactlyOne has a command take the name of one object of a kind.
func ExactlyOne(kind string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("name the %s: %s NAME", kind, command.CommandPath())
		case len(args) > 1:
			return fmt.Errorf("%s takes one %s: leave out %q", command.CommandPath(), kind, args[1])
		}
		return nil
	}
}

// AtLeastOne has a command take the names of objects of a kind.
func AtLeastOne(kind string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("name at least one %s, as in %s NAME [NAME...]", kind, command.CommandPath())
		}
		return nil
	}
}

// differingLetters is the largest edit distance between a mistyped command and a suggested one. For short commands it is half their length.
const differingLetters = 2

// UnknownCommand says that a command has none of a name below it, and which ones the user may mean.
func UnknownCommand(command *cobra.Command, name string) error {
	command.SuggestionsMinimumDistance = min(differingLetters, len(name)/2)
	said := fmt.Sprintf("unknown command %q for %q", name, command.CommandPath())
	if similar := command.SuggestionsFor(name); len(similar) > 0 {
		return errors.New(said + ": did you mean " + strings.Join(similar, " or ") + "?")
	}
	return fmt.Errorf("%s: see %s --help", said, command.CommandPath())
}
