package root

import (
	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// refuseUnknown has each command that only holds others refuse a name that none of them has. Cobra would print its help and succeed.
func refuseUnknown(command *cobra.Command) {
	for _, below := range command.Commands() {
		refuseUnknown(below)
	}
	if command.Runnable() || !command.HasSubCommands() {
		return
	}
	command.DisableFlagsInUseLine = true
	command.Args = cobra.ArbitraryArgs // for the root, too, of which cobra would say it in three lines
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return command.Help()
		}
		return kube.UnknownCommand(command, args[0])
	}
}
