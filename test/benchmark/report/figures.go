package report

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Figure is one measurement beside its goal.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Goal  float64 `json:"goal"`
	// Least says that the goal is the least that is to be reached. Otherwise it is the most that is allowed.
	Least bool   `json:"least,omitempty"`
	Unit  string `json:"unit"`
}

// AtMost is a figure that must not be above its goal.
func AtMost(name string, value, goal float64, unit string) Figure {
	return Figure{Name: name, Value: value, Goal: goal, Unit: unit}
}

// AtLeast is a figure that must not be below its goal.
func AtLeast(name string, value, goal float64, unit string) Figure {
	return Figure{Name: name, Value: value, Goal: goal, Least: true, Unit: unit}
}

func (f Figure) isMet() bool {
	if f.Least {
		return f.Value >= f.Goal
	}
	return f.Value <= f.Goal
}

func (f Figure) goal() string {
	if f.Least {
		return fmt.Sprintf(">= %.4g", f.Goal)
	}
	return fmt.Sprintf("<= %.4g", f.Goal)
}

// ErrMissed says that a figure does not reach its goal.
var ErrMissed = errors.New("a goal is missed")

// PrintFigures prints figures beside their goals. It returns ErrMissed if one does not reach its goal.
func PrintFigures(out io.Writer, figures []Figure) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tgoal\tunit\t")
	var missed error
	for _, f := range figures {
		result := "met"
		if !f.isMet() {
			result, missed = "MISSED", ErrMissed
		}
		fmt.Fprintf(w, "%s\t%.4g\t%s\t%s\t%s\n", f.Name, f.Value, f.goal(), f.Unit, result)
	}
	return errors.Join(w.Flush(), missed)
}
