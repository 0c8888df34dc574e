// Package plain finds what is not plain technical English in pages, comments and messages.
package plain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxWords is how long a sentence may be.
const maxWords = 20

// finding is what is wrong with a piece of text.
type finding struct {
	// word is what stands in the text.
	word string
	// remedy says what to write instead.
	remedy string
}

func (f finding) String() string { return fmt.Sprintf("%q: %s", f.word, f.remedy) }

// rule refuses what its pattern matches.
type rule struct {
	pattern *regexp.Regexp
	remedy  string
}

// words refuses any of the given words, which are separated by "|".
func words(alternatives, remedy string) rule {
	return rule{regexp.MustCompile(`(?i)\b(?:` + alternatives + `)\b`), remedy}
}

// rules are the words and constructions that plain technical English does not use.
var rules = []rule{
	words(`nobody|somebody|whoever|everybody`, `name it: the user, the scheduler, the controller, no pod`),
	words(`verdicts?`, `say "decision" or "result"`),
	words(`scenes?|tall(?:y|ies)`, `say "state", "test" or "count"`),
	words(`parked`, `say "waiting" or "unschedulable"`),
	words(`in vain`, `say "without effect" or "fails"`),
	words(`strays?|crowds?|deeds?`, `say what it is: pods, requests, actions`),
	words(`yields?|yielded|yielding`, `say "returns", "waits" or "lets ... go first"`),
	words(`news`, `say "event", "change" or "update"`),
	words(`let go`, `say "released" or "deleted"`),
	words(`gone by`, `say "passed" or "expired"`),
	words(`for the sake of`, `say "for" or "because of"`),
	words(`in thought`, `say "simulates"`),
	words(`those who|those whom`, `name them: users, administrators, pods`),
	words(`of those that|that which`, `name it and begin with the subject`),
}

// construction refuses sentences that begin with a relative clause. The name of a test may be one.
var construction = rule{regexp.MustCompile(`^(?:What|Who|Whom) [^?]*$`), `begin with the subject: "The controller ...", "Pods that ..."`}

// wrong returns the words and constructions of a sentence that are not plain.
func wrong(sentence string) []finding {
	return refused(sentence, append(slices.Clone(rules), construction))
}

// refused returns what some rules refuse of a text.
func refused(text string, rules []rule) []finding {
	var found []finding
	for _, r := range rules {
		if match := r.pattern.FindString(text); match != "" {
			found = append(found, finding{firstWords(match), r.remedy})
		}
	}
	return found
}

func firstWords(text string) string {
	all := strings.Fields(text)
	return strings.Join(all[:min(len(all), 4)], " ")
}

var (
	code   = regexp.MustCompile("`[^`]*`")
	quoted = regexp.MustCompile(`"[^"]*"|“[^”]*”`)

	// Sentences of comments end at a full stop only. In pages a colon ends one, too, as a list may follow. Messages are joined by semicolons.
	commentEnd = regexp.MustCompile(`[.!?](?:\s+|$)`)
	pageEnd    = regexp.MustCompile(`[.!?:](?:\s+|$)`)
	messageEnd = regexp.MustCompile(`[.!?:;](?:\s+|$)`)
)

// sentences cuts a text into sentences. Code in backquotes and quotations stand for themselves, as one word each.
func sentences(text string, ends *regexp.Regexp) []string {
	text = quoted.ReplaceAllString(code.ReplaceAllString(text, "CODE"), "QUOTE")
	var all []string
	for {
		end := ends.FindStringIndex(text)
		if end == nil {
			break
		}
		all = append(all, strings.TrimSpace(text[:end[0]+1]))
		text = text[end[1]:]
	}
	if text = strings.TrimSpace(text); text != "" {
		all = append(all, text)
	}
	return all
}
