package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/cmd/muster/root"
)

const cliIntro = `# The command line

*Reference*

All commands of ` + "`muster`" + `, with their flags. [The command line](../cli.md) shows how to use them.
`

// cliPage lists all commands, in the order in which ` + "`muster --help`" + ` has them.
func cliPage() (string, error) {
	page := &strings.Builder{}
	page.WriteString(generatedBy + cliIntro)
	for _, command := range root.New("muster").Commands() {
		describeCommand(page, command)
	}
	return page.String(), nil
}

// describeCommand describes a command and its subcommands.
func describeCommand(page *strings.Builder, command *cobra.Command) {
	if command.Hidden {
		return
	}
	command.InitDefaultHelpFlag()
	fmt.Fprintf(page, "\n## %s\n\n", command.CommandPath())
	about := command.Long
	if about == "" {
		about = command.Short + "."
	}
	fmt.Fprintf(page, "%s\n", about)
	if command.Runnable() {
		fmt.Fprintf(page, "\n```text\n%s\n```\n", command.UseLine())
	}
	if command.Example != "" {
		fmt.Fprintf(page, "\n```text\n%s\n```\n", command.Example)
	}
	if flags := command.LocalFlags().FlagUsagesWrapped(100); command.Runnable() || command.HasPersistentFlags() {
		fmt.Fprintf(page, "\n```text\n%s```\n", flags)
	}
	for _, below := range command.Commands() {
		describeCommand(page, below)
	}
}
