package main

import (
	"fmt"
	"slices"
	"time"
)

// Class is jobs of about the same size.
type Class struct {
	Sizes string
	Jobs  int
	// Mean and P95 of the waits.
	Mean, P95 time.Duration
	// Slowdown is the mean bounded slowdown.
	Slowdown float64
}

// classes are the largest sizes of the classes, without the last one.
var classes = []int{1, 8, 32}

// bySize divides jobs into classes. One without jobs is left out.
func bySize(ran []Ran) (out []Class) {
	least := 1
	for _, most := range append(slices.Clone(classes), 0) {
		some := slices.DeleteFunc(slices.Clone(ran), func(r Ran) bool { return r.Size() < least || most > 0 && r.Size() > most })
		if len(some) > 0 {
			all := waits(some)
			out = append(out, Class{Sizes: sizes(least, most), Jobs: len(some), Mean: mean(all), P95: quantile(all, 0.95), Slowdown: slowdown(some)})
		}
		least = most + 1
	}
	return out
}

func sizes(least, most int) string {
	switch most {
	case 0:
		return fmt.Sprintf("%d or more", least)
	case least:
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
