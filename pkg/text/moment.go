package text

import "time"

// Moment writes a time in UTC with its day, as in "13:30:00 UTC on January 1". The year follows if it is not that of now.
func Moment(at, now time.Time) string {
	layout := "15:04:05 MST on January 2"
	if at.UTC().Year() != now.UTC().Year() {
		layout += ", 2006"
	}
	return at.UTC().Format(layout)
}

// Between writes a range of times, as in "between 12:45:00 and 15:00:00 UTC on January 1".
func Between(from, to, now time.Time) string {
	begin := Moment(from, now)
	if from.UTC().Format(time.DateOnly) == to.UTC().Format(time.DateOnly) {
		begin = from.UTC().Format(time.TimeOnly)
	}
	return "between " + begin + " and " + Moment(to, now)
}
