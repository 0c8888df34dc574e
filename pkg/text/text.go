// Package text bounds what is repeated of other people's words.
package text

import "unicode/utf8"

// MaxReason and MaxMessage are the largest lengths of a reason and a message, in bytes, in statuses and events. They are the bounds of
// events.k8s.io, so that both say the same.
const (
	MaxReason  = 128
	MaxMessage = 1024
)

const mark = "..."

// Cut returns s if it has at most n bytes. Otherwise it returns the beginning of s with "..." behind it, n bytes in all. It splits no
// character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := max(n-len(mark), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark[:max(min(n, len(mark)), 0)]
}
