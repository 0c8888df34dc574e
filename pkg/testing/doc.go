// Package testing is the language of the tests: builders for objects (MakeJob, MakePod, ...) and verbs for outcomes (ExpectJobPhase, ...).
// A verb waits with a deadline and says what it saw when the deadline passes. Only tests import it.
package testing
