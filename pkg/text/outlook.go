package text

import "strings"

// StartsAbout begins a text about an expected start. NoStart begins one that says why none is known.
const (
	StartsAbout = "expected to start about "
	NoStart     = "no start is known"
)

// WithOutlook is a message that also says when the wait is expected to end. The outlook begins with StartsAbout or NoStart.
func WithOutlook(message, outlook string) string {
	if message == "" || outlook == "" {
		return message + outlook
	}
	return message + "; " + outlook
}

// WithoutOutlook is the message that WithOutlook was given; any other message is returned as it is.
func WithoutOutlook(message string) string {
	for _, beginning := range []string{StartsAbout, NoStart} {
		if end := strings.LastIndex(message, "; "+beginning); end >= 0 {
			return message[:end]
		}
	}
	return message
}
