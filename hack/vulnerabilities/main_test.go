package main

import (
	"bytes"
	"strings"
	"testing"
)

// output has a module that is required, and a symbol that is linked and is in Go itself, too. It has one of Go alone.
const output = `{"config": {"scanner_name": "govulncheck"}}
{"osv": {"id": "GO-1"}}
{"finding": {"osv": "GO-1", "trace": [{"module": "example.com/required", "version": "v1.0.0"}]}}
{"finding": {"osv": "GO-2", "fixed_version": "v1.1.0", "trace": [{"module": "example.com/linked", "version": "v1.0.0", "package": "p", "function": "F"}]}}
{"finding": {"osv": "GO-3", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8", "package": "p", "function": "F"}]}}
{"finding": {"osv": "GO-2", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8", "package": "p", "function": "F"}]}}
`

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct{ known, refuses, tells string }{
		"unknown":          {"", "GO-2: example.com/linked v1.0.0, mended in v1.1.0: raise the module", "build with a newer Go release: GO-3"},
		"known":            {"GO-2 it waits", "", "known: GO-2: example.com/linked v1.0.0, mended in v1.1.0: it waits"},
		"not there":        {"GO-2 it waits\nGO-1 was linked once", "GO-1 is in no program any more", "known: GO-2"},
		"without a reason": {"GO-2", "GO-2 has no reason", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]finding{}
			if err := collect(strings.NewReader(output), found); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			accepted, err := parseKnown("# a comment\n\n" + c.known)
			if err == nil {
				err = judge(&log, found, accepted)
			}
			if c.refuses == "" && err != nil || c.refuses != "" && (err == nil || !strings.Contains(err.Error(), c.refuses)) {
				t.Errorf("got %v, want %q", err, c.refuses)
			}
			if !strings.Contains(log.String(), c.tells) {
				t.Errorf("tells %q, want %q", log.String(), c.tells)
			}
		})
	}
}

func TestEachKnownOneHasAReason(t *testing.T) {
	if _, err := parseKnown(knownText); err != nil {
		t.Error(err)
	}
}
