package text

import (
	"strings"
	"time"
)

const foundAt = " (found at "

// FoundAt is a message that says when its numbers were found.
func FoundAt(message string, at time.Time) string {
	return message + foundAt + at.UTC().Format(time.RFC3339) + ")"
}

// WithoutTime is the message that FoundAt was given; any other message is returned as it is.
func WithoutTime(message string) string {
	at := strings.LastIndex(message, foundAt)
	if at < 0 {
		return message
	}
	moment, closed := strings.CutSuffix(message[at+len(foundAt):], ")")
	if _, err := time.Parse(time.RFC3339, moment); err != nil || !closed {
		return message
	}
	return message[:at]
}
