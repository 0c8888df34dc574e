package monitoring

import (
	"cmp"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// update writes the pictures of the dashboards anew.
var update = flag.Bool("update", false, "write docs/dashboards")

// pictures is the folder of the pictures.
const pictures = "../../docs/dashboards"

// The size of a unit of Grafana's grid, which has 24 columns, and the space around what a panel shows. In pixels.
const (
	unitWidth, unitHeight = 40, 22
	left, right           = 48, 14
	above, below          = 34, 44
	// mostSeries is how many series a panel shows: those with the largest values.
	mostSeries = 6
)

var colors = []string{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"}

// TestPicturesOfTheDashboards draws each dashboard with the recorded samples, and compares it with the picture in the documentation. After a
// change run `go -C test/monitoring test . -run Pictures -update`.
func TestPicturesOfTheDashboards(t *testing.T) {
	samples := readStore(t, samplesFile, recordedInterval)
	for file, board := range readDashboards(t) {
		drawn := drawBoard(t, samples, board)
		path := filepath.Join(pictures, strings.TrimSuffix(file, ".json")+".svg")
		if *update {
			require.NoError(t, os.MkdirAll(pictures, 0o755))
			require.NoError(t, os.WriteFile(path, []byte(drawn), 0o644))
		}
		saved, err := os.ReadFile(path)
		require.NoError(t, err, "run the test with -update")
		assert.Equal(t, drawn, string(saved), "%s is not what the dashboard shows: run the test with -update", path)
	}
}

// drawBoard draws the panels of a dashboard where its grid has them.
func drawBoard(t *testing.T, samples *store, board dashboard) string {
	t.Helper()
	rows := 0
	for _, p := range board.Panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="system-ui, sans-serif" font-size="11" role="img" aria-labelledby="t">`+"\n",
		24*unitWidth, rows*unitHeight)
	fmt.Fprintf(b, "<title id=\"t\">%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", html.EscapeString(board.Title))
	for _, p := range board.Panels {
		x, y := p.GridPos.X*unitWidth, p.GridPos.Y*unitHeight
		width, height := p.GridPos.W*unitWidth-6, p.GridPos.H*unitHeight-6
		fmt.Fprintf(b, "<g transform=\"translate(%d %d)\">\n<rect width=\"%d\" height=\"%d\" rx=\"4\" fill=\"none\" stroke=\"#bbb\"/>\n", x+3, y+3, width, height)
		fmt.Fprintf(b, "<text x=\"10\" y=\"18\" font-weight=\"600\">%s</text>\n", html.EscapeString(p.Title))
		shown := linesOf(t, samples, p)
		switch p.Type {
		case "stat":
			drawNumber(b, shown, p.FieldConfig.Defaults.Unit, width, height)
		case "table":
			drawRows(b, shown)
		default:
			drawLines(b, shown, p.FieldConfig.Defaults.Unit, width, height)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// line is a series as a panel shows it.
type line struct {
	name   string
	points []point
	last   float64
}

// point is a value, and when it was measured as a part of the whole time.
type point struct{ at, value float64 }

var labelOf = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// linesOf evaluates the queries of a panel.
func linesOf(t *testing.T, samples *store, p panel) []line {
	t.Helper()
	var lines []line
	for _, target := range p.Targets {
		result, err := samples.query(variables.Replace(target.Expr), origin, samples.end, recordedInterval)
		require.NoError(t, err)
		for _, s := range result {
			name := labelOf.ReplaceAllStringFunc(target.LegendFormat, func(label string) string {
				return s.Metric.Get(labelOf.FindStringSubmatch(label)[1])
			})
			one := line{name: name}
			for _, f := range s.Floats {
				if !math.IsNaN(f.F) && !math.IsInf(f.F, 0) {
					one.points = append(one.points, point{float64(f.T) / float64(samples.end.UnixMilli()), f.F})
					one.last = f.F
				}
			}
			if len(one.points) > 0 {
				lines = append(lines, one)
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
	return lines
}

// highest is the largest value of a line.
func highest(l line) float64 {
	return slices.MaxFunc(l.points, func(a, b point) int { return cmp.Compare(a.value, b.value) }).value
}

// drawNumber draws the last value.
func drawNumber(b *strings.Builder, lines []line, unit string, width, height int) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" font-size=\"30\" text-anchor=\"middle\">%s</text>\n", width/2, height/2+18, amount(lines[0].last, unit))
	}
}

// drawRows draws a row for each line.
func drawRows(b *strings.Builder, lines []line) {
	for i, l := range lines {
		fmt.Fprintf(b, "<text x=\"10\" y=\"%d\">%s</text>\n", above+8+i*16, html.EscapeString(l.name))
	}
}

// drawLines draws a graph from 0 to the largest value, and the names of its lines below.
func drawLines(b *strings.Builder, lines []line, unit string, width, height int) {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(highest(b), highest(a)) })
	lines = lines[:min(len(lines), mostSeries)]
	top := 0.0
	for _, l := range lines {
		top = max(top, highest(l))
	}
	if top == 0 {
		top = 1
	}
	bottom, wide, high := height-below, width-left-right, height-above-below
	fmt.Fprintf(b, "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"#999\"/>\n", left, above, bottom, left+wide)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
		left-4, above+8, amount(top, unit), left-4, bottom)
	for i, l := range lines {
		var points []string
		for _, p := range l.points {
			points = append(points, fmt.Sprintf("%d,%d", left+int(p.at*float64(wide)), bottom-int(max(p.value, 0)/top*float64(high))))
		}
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", strings.Join(points, " "), colors[i])
		x, y := left+i%3*wide/3, bottom+18+i/3*15
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"9\" height=\"9\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
			x, y-9, colors[i], x+13, y, html.EscapeString(short(l.name)))
	}
}

// short cuts a name to the room that it has.
func short(name string) string {
	if len(name) > 24 {
		return name[:23] + "…"
	}
	return name
}

// amount writes a value with its unit as Grafana does.
func amount(value float64, unit string) string {
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch {
	case unit == "percentunit":
		return strconv.FormatFloat(100*value, 'f', 0, 64) + "%"
	case unit == "bytes":
		return strconv.FormatFloat(value/(1<<20), 'f', 0, 64) + " MiB"
	case unit == "s" && value < 1:
		return strconv.FormatFloat(1000*value, 'f', 0, 64) + " ms"
	case unit == "s":
		return text(value) + " s"
	case unit == "ops":
		return text(value) + "/s"
	default:
		return text(value)
	}
}
