package text

import "fmt"

// Count writes a number with its noun: "1 pod", "2 pods".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Have is Count with a verb: "1 pod has", "2 pods have".
func Have(n int, noun string) string { return withVerb(n, noun, "has", "have") }

// Are is Count with a verb: "1 pod is", "2 pods are".
func Are(n int, noun string) string { return withVerb(n, noun, "is", "are") }

// Wait is Count with a verb: "1 pod waits", "2 pods wait".
func Wait(n int, noun string) string { return withVerb(n, noun, "waits", "wait") }

func withVerb(n int, noun, one, more string) string {
	if n == 1 {
		return Count(n, noun) + " " + one
	}
	return Count(n, noun) + " " + more
}
