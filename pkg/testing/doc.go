// Package testing is the language of the tests: builders for objects (MakeJob, MakePod, ...) and verbs for outcomes
// (ExpectJobPhase, ...), which wait with a deadline and say what they saw when it passes. Only tests import it.
package testing
