package explain

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-sched/muster/pkg/text"
)

// longestText is how many characters of a message are shown.
const longestText = 600

// bare is a message without what other programs put around it, so that what was said already can be told.
func bare(message string) string {
	message = text.WithoutTime(strings.Join(strings.Fields(message), " "))
	for _, before := range []string{", reason: ", " tasks in gang unschedulable: "} {
		if _, rest, found := strings.Cut(message, before); found {
			message = rest
		}
	}
	return message
}

// joined puts a message behind what it is about.
func joined(what, message string) string {
	if message = inOneLine(message); message == "" {
		return what
	}
	return what + ": " + message
}

// inOneLine is a message in one line, cut where it is very long.
func inOneLine(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), longestText)
}

// short writes a duration as kubectl does.
func short(d time.Duration) string { return duration.HumanDuration(max(0, d)) }
