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
	without, _, _ := split(message)
	return without
}

// TimeOf is when the numbers of a message were found, if it says so.
func TimeOf(message string) (at time.Time, known bool) {
	_, at, known = split(message)
	return at, known
}

func split(message string) (without string, at time.Time, known bool) {
	end := strings.LastIndex(message, foundAt)
	if end < 0 {
		return message, at, false
	}
	moment, closed := strings.CutSuffix(message[end+len(foundAt):], ")")
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil || !closed {
		return message, time.Time{}, false
	}
	return message[:end], at, true
}
