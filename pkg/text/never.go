package text

import "regexp"

// The scheduler and muster-controller write these parts of messages when waiting alone does not help. Pages about a wait look for them.
const (
	// NeverFits begins the message of a request above a whole limit.
	NeverFits = "can never fit "
	// NotIfEmpty is of a gang that asks for more than its nodes have.
	NotIfEmpty = "it would not fit into an empty cluster either"
	// AboveCapability is of a gang that asks for more than a whole capability.
	AboveCapability = "it asks for more than the whole capability"
	// NoClusterHas is of amounts that are no mistake for the API server only.
	NoClusterHas = "which no cluster has"
	// NotIfEnded is of a gang that would not fit if all pods had ended that it may wait for. Other pods may still end.
	NotIfEnded = "it would not fit either if everything of its priority and below had ended"
)

var rulesOut = regexp.MustCompile(`(^|\W)(` + NeverFits + `|` + NotIfEmpty + `|` + AboveCapability + `|` + NoClusterHas + `)|, more than [0-9.]+ times the `)

// RulesOut says whether a message says that waiting alone never helps.
func RulesOut(message string) bool { return rulesOut.MatchString(message) }
