// Package testing is the language of the tests: builders for objects (MakeJob, MakePod, ...). Only tests import it. It imports no client, as
// each test program that imports it would have to link that.
package testing

import "time"

// Timeout is how long an outcome may take that is expected. It is generous, because test machines are slow and shared; speed is measured
// from the record.
const Timeout = 90 * time.Second

// ShortWhile is how long an outcome is looked out for that is not expected.
const ShortWhile = 2 * time.Second
