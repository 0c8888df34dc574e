package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unsaid is what cannot be said without a part.
var unsaid = map[Part]string{
	PartQueues:      "nothing is said about quota",
	PartGroups:      "Jobs of other namespaces are not named",
	PartPriorities:  "nothing is said about the order in which Jobs start",
	PartNodes:       "nothing is said about room on nodes",
	PartPods:        "nothing is said about room on nodes",
	PartTopology:    "nothing is said about domains of the network",
	PartEvents:      "little is said about what happened",
	PartPhSchedules: "nothing is said about its schedule",
	PartPhJobs:      "nothing is said about the order in which Jobs start",
}

// Sentence says which right is missing, and what is not said for that.
func (p Part) Sentence() string { return fmt.Sprintf("You may not list %s: %s.", string(p), unsaid[p]) }

// Lacking is an error that says which of some parts could not be read; nil if all could be.
func (f *Facts) Lacking(parts ...Part) error {
	var sentences []string
	for _, part := range f.lacking(parts...) {
		sentences = append(sentences, part.Sentence())
	}
	if len(sentences) == 0 {
		return nil
	}
	return errors.New(strings.Join(sentences, " "))
}

// Lacks says whether one of some parts could not be read. Then no answer may be made of them: an empty list is no fact.
func (f *Facts) Lacks(parts ...Part) bool { return len(f.lacking(parts...)) > 0 }

// lacking are those of some parts that could not be read.
func (f *Facts) lacking(parts ...Part) []Part {
	return slices.DeleteFunc(slices.Clone(parts), func(part Part) bool { return !slices.Contains(f.Unread, part) })
}

// missing has a sentence for each part that could not be read.
func (f *Facts) missing() []string {
	var lines []string
	for _, part := range f.Unread {
		lines = append(lines, part.Sentence())
	}
	return lines
}
