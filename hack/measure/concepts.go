package main

import "strings"

// lists are the headings of CONTRIBUTING.md whose tables have a row for each concept. goal is how many there may be.
var lists = []struct {
	heading string
	goal    int
}{
	{"## The concepts of gang admission", 30},
	{"## The concepts of how a victim is chosen", 15},
	{"## The concepts of a policy of Jobs", 15},
}

// conceptsOf counts the concepts of a page. A subject without a list has none, which is no way to meet its goal.
func conceptsOf(page string) (measures []measure) {
	for _, l := range lists {
		m := measure{name: "concepts: " + strings.TrimPrefix(l.heading, "## The concepts of "), goal: l.goal}
		_, section, found := strings.Cut(page, l.heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "|") {
				m.value++
			}
		}
		m.value -= 2 * strings.Count(section, "\n|---") // the rule of a table, and its head
		if !found || m.value == 0 {
			m.value, m.where = m.goal+1, []string{"CONTRIBUTING.md has no table below: " + l.heading}
		}
		measures = append(measures, m)
	}
	return measures
}
