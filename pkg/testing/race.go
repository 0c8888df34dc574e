//go:build race

package testing

// raceDetector says that the tests run with the race detector, which makes them some eight times slower.
const raceDetector = true
