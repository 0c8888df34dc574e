package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Formats are the forms that a report can be written in.
var Formats = map[string]func(Report, io.Writer) error{"text": Report.writeText, "json": Report.writeJSON, "sarif": Report.writeSARIF}

// writeText writes one line for each finding, and then what was not looked at.
func (r Report) writeText(out io.Writer) error {
	var text strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "%s:%d: %s: %s\n", f.File, f.Line, f.object(), f.text())
	}
	for _, f := range r.Warnings {
		fmt.Fprintf(&text, "%s:%d: warning: %s: %s\n", f.File, f.Line, f.object(), f.text())
	}
	fmt.Fprintf(&text, "%s checked, %s", count(r.Checked, "object"), count(len(r.Findings), "finding"))
	if len(r.Warnings) > 0 {
		fmt.Fprintf(&text, ", %s", count(len(r.Warnings), "warning"))
	}
	if len(r.PassedOver) > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(r.PassedOver)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, r.PassedOver[kind]))
		}
		fmt.Fprintf(&text, "; passed over: %s", strings.Join(kinds, ", "))
	}
	text.WriteString("\n")
	for _, u := range r.NotChecked {
		rule := u.Rule
		if u.Part {
			rule = "a part of " + rule
		}
		fmt.Fprintf(&text, "not checked for %s: %s, which needs %s\n", count(u.Objects, "object"), rule, u.Needs)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// object names the object of a finding.
func (f Finding) object() string {
	return strings.TrimSpace(f.Kind + " " + strings.TrimPrefix(f.Namespace+"/"+f.Name, "/"))
}

// text is what a finding says.
func (f Finding) text() string {
	if f.Field == "" || strings.HasPrefix(f.Message, f.Field) {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

func (r Report) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// fields is a JSON object.
type fields map[string]any

// writeSARIF writes the form that code hosts show beside the lines of a change: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
func (r Report) writeSARIF(out io.Writer) error {
	rules, results, notes := []fields{}, []fields{}, []fields{}
	known := map[string]bool{}
	for i, f := range slices.Concat(r.Findings, r.Warnings) {
		level := "error"
		if i >= len(r.Findings) {
			level = "warning"
		}
		if !known[f.Rule] {
			known[f.Rule] = true
			rules = append(rules, fields{"id": f.Rule})
		}
		results = append(results, fields{
			"ruleId": f.Rule, "level": level, "message": fields{"text": f.object() + ": " + f.text()},
			"locations": []fields{{
				"physicalLocation": fields{
					"artifactLocation": fields{"uri": filepath.ToSlash(f.File)}, "region": fields{"startLine": f.Line}},
				"logicalLocations": []fields{{"fullyQualifiedName": f.Field}},
			}},
		})
	}
	for _, u := range r.NotChecked {
		notes = append(notes, fields{"level": "note", "message": fields{
			"text": fmt.Sprintf("Not checked for %s: %s, which needs %s.", count(u.Objects, "object"), u.Rule, u.Needs)}})
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(fields{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []fields{{
			"tool":        fields{"driver": fields{"name": "muster lint", "rules": rules}},
			"results":     results,
			"invocations": []fields{{"executionSuccessful": true, "toolExecutionNotifications": notes}},
		}},
	})
}
