package main

import (
	"fmt"
	"regexp"
	"strings"
)

// replaced are words that we had, with the plain ones.
var replaced = map[string]string{
	"agenda": "pending actions", "announce": "event sink, record", "asleep": "unschedulable, off-queue", "aside": "reservation", "cast": "problem",
	"crowd": "", "deed": "action", "doomed": "to reject", "happening": "occurrence", "hooks": "upstream", "labour": "",
	"milestone": "", "overtake": "bypass", "overtaken": "bypassed", "overtaking": "bypassing", "parked": "unschedulable",
	"promise": "assumed", "rehearsal": "dry run", "rehearse": "dry run", "retell": "", "roster": "termination tracker", "round": "scheduling attempt",
	"sacrifice": "", "saved": "reserved", "scene": "cluster view", "stray": "", "tally": "counts", "untold": "outcome unknown", "vouch": "observed admission",
	"nobody": "no pod, no gang", "somebody": "a user, another component", "whoever": "the caller", "news": "event, change", "yield": "",
}

// phrases are such words of more than one word.
var phrases = map[string]string{"let go": "rolled back", "lets go": "rolls back", "letting go": "rollback"}

// names are words that mean something else in a sentence, but which no identifier has any more.
var names = map[string]string{
	"line": "wait list", "savedfor": "quota reservation", "due": "starving", "ties": "inter-pod constraints", "shape": "demand class", "way": "strategy",
	"together": "search", "net": "", "letgo": "rollback", "deeds": "actions", "happened": "dispatch of events", "notes": "sync state",
}

// exceptions are pieces of text that have such words with a reason.
var exceptions = []struct{ text, reason string }{
	{"maxOvertakeTime", "a field of the plugin's arguments, which users have in their configurations"},
	{"MaxOvertakeTime", "the same in Go"},
	{"maxOvertakes", "a field of the plugin's arguments, which users have in their configurations"},
	{"MaxOvertakes", "the same in Go"},
	{"--max-overtake-time", "a flag of muster-controller"},
	{".Round(", "a method of time.Duration"},
	{"math.Round", "a function of the standard library"},
	{"round trip", "a term of networks"},
}

var (
	word  = regexp.MustCompile(`[A-Z]+(?:[^A-Za-z]|$)|[A-Z]?[a-z]+|[A-Z]+`)
	ident = regexp.MustCompile(`\b(?:func (?:\([^)]*\) )?|type |var |const )([A-Za-z]+)`)
)

// wordsIn lists the words of sources that we do not use.
func wordsIn(sources []source) (found []string) {
	for _, s := range sources {
		found = append(found, wordsOfText(s.path, s.text, true)...)
	}
	return found
}

// wordsOfText lists the words of a text that we do not use, with their lines.
func wordsOfText(path, text string, isCode bool) (found []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, e := range exceptions {
			line = strings.ReplaceAll(line, e.text, "")
		}
		report := func(what, plain string) {
			if plain != "" {
				plain = " (say: " + plain + ")"
			}
			found = append(found, fmt.Sprintf("%s:%d: %s%s", path, i+1, what, plain))
		}
		for _, w := range word.FindAllString(line, -1) {
			if plain, ok := lookUp(strings.ToLower(strings.Trim(w, "0123456789_ .,;:()[]{}\"'`*&|"))); ok {
				report(w, plain)
			}
		}
		for phrase, plain := range phrases {
			if strings.Contains(strings.ToLower(line), phrase) {
				report(phrase, plain)
			}
		}
		if !isCode {
			continue
		}
		for _, match := range ident.FindAllStringSubmatch(line, -1) {
			if plain, ok := names[strings.ToLower(match[1])]; ok {
				report(match[1], plain)
			}
		}
	}
	return found
}

// lookUp finds a word in one of its forms.
func lookUp(w string) (plain string, ok bool) {
	for _, form := range []string{w, strings.TrimSuffix(w, "s"), strings.TrimSuffix(w, "ed"), strings.TrimSuffix(w, "d"), strings.TrimSuffix(w, "ing")} {
		if plain, ok := replaced[form]; ok {
			return plain, true
		}
	}
	return "", false
}
