package main

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// shade is the colour of a rule in the picture. Rules without one are not drawn.
var shade = map[string]string{"bypass, bounded": "#9aa0a6", "EASY by history": "#1a73e8", "EASY, true run times": "#34a853"}

// isDrawn says whether the rule is in the picture. At other loads than that of the picture, only these rules are replayed.
func (r Rule) isDrawn() bool { return shade[r.Name] != "" }

// pictureLoad is the load that is drawn.
const pictureLoad = 0.9

// The picture in pixels.
const (
	pictureWidth, barsFrom, barsWidth = 760, 110, 560
	barHeight, lineHeight             = 13, 16
)

// picture draws the mean waits by size of the job, for each workload that was stretched.
func picture(rows []Row) string {
	var body strings.Builder
	y := 24
	text := func(x, y int, attributes, words string) {
		fmt.Fprintf(&body, "  <text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, attributes, html.EscapeString(words))
	}
	y = legend(rows, y, &body, text)
	for _, panel := range panels(rows) {
		y += 22
		text(10, y, ` font-weight="bold"`, fmt.Sprintf("%s, load %.2f", panel[0].Workload, panel[0].Load))
		y += 8
		longest := longestMean(panel)
		for i, class := range panel[0].BySize {
			text(10, y+(len(panel)*lineHeight+barHeight)/2, "", class.Sizes)
			for _, row := range panel {
				wait := row.BySize[i].Mean
				width := int(float64(barsWidth) * wait.Seconds() / max(longest, 1))
				fmt.Fprintf(&body, "  <rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", barsFrom, y, max(width, 1), barHeight, shade[row.Rule])
				text(barsFrom+max(width, 1)+5, y+barHeight-2, ` font-size="11"`, short(wait))
				y += lineHeight
			}
			y += 8
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="t">
  <title id="t">Mean waits by size of the job, by three rules</title>
  <!-- Made by: make bench-traces -->
  <rect width="%[1]d" height="%[2]d" fill="#fff"/>
%[3]s</svg>
`, pictureWidth, y+10, body.String())
}

// legend names the colours, and returns where the picture goes on.
func legend(rows []Row, y int, body *strings.Builder, text func(x, y int, attributes, words string)) int {
	text(10, y, "", "mean wait by CPUs or GPUs of the job")
	x := 270
	for _, rule := range rules {
		if shade[rule.Name] == "" || !slices.ContainsFunc(rows, func(r Row) bool { return r.Rule == rule.Name }) {
			continue
		}
		fmt.Fprintf(body, "  <rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y-11, shade[rule.Name])
		text(x+18, y, "", rule.Name)
		x += 160
	}
	return y
}

// panels are the rows that are drawn, by workload.
func panels(rows []Row) (out [][]Row) {
	drawn := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Load != pictureLoad || shade[r.Rule] == "" })
	slices.SortStableFunc(drawn, func(a, b Row) int { return cmp.Compare(a.Workload, b.Workload) })
	for i, row := range drawn {
		if i == 0 || row.Workload != drawn[i-1].Workload {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], row)
	}
	return out
}

// longestMean is the longest mean wait of a panel, in seconds.
func longestMean(panel []Row) (longest float64) {
	for _, row := range panel {
		for _, class := range row.BySize {
			longest = max(longest, class.Mean.Seconds())
		}
	}
	return longest
}
