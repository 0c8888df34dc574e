package lint

import (
	"regexp"
	"strings"
)

// otherSpellings are fields as Volcano's design documents write them, with the fields that its API has.
var otherSpellings = map[string]string{
	"claim": "volumeClaim", "priorityClass": "priorityClassName", "taskSpecs": "tasks", "taskSpec": "tasks", "minAvaliable": "minAvailable",
}

// hint adds to a finding of the schema what was probably meant.
func hint(p problem) problem {
	_, last, _ := cutLast(p.field, ".")
	meant, known := otherSpellings[last]
	switch {
	case known && strings.HasPrefix(p.message, "unknown field"):
		p.message += ". Volcano's design documents write it so; the field is " + meant
	case strings.HasPrefix(last, "containers") && strings.Contains(p.message, "must be of type array"):
		p.message += ". Write a list: a dash before the first field of each container"
	}
	return p
}

// cutLast cuts a text around the last separator. Without one, all of it is after.
func cutLast(text, separator string) (before, after string, found bool) {
	if at := strings.LastIndex(text, separator); at >= 0 {
		return text[:at], text[at+len(separator):], true
	}
	return "", text, false
}

// bareStar is a value that YAML takes for a reference to another one.
var bareStar = regexp.MustCompile(`(?m)^[\s-]*[A-Za-z]+:\s*\*\s*(?:#.*)?$|\[\s*\*\s*[,\]]|^\s*-\s*\*\s*$`)

// hintOfYAML says what is probably wrong with a document that is no YAML.
func hintOfYAML(document []byte) string {
	if bareStar.Match(document) {
		return `: write "*" in quotes, a * alone refers to another value`
	}
	return ""
}
