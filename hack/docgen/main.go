// Command docgen writes pages, and parts of pages, from the code. These are the API's fields from the CRDs, and the rules of admission from
// CRDs and policies. The plugins' arguments come from their types, and the phases of a Job from their table. The metrics come from their
// definitions, and muster's flags from its commands. The values of the Helm chart come from its schema.
//
//	docgen DOCS
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen DOCS")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "docgen: %v\n", err)
		os.Exit(1)
	}
}

// write makes all pages below the folder of the docs.
func write(dir string) error {
	for name, page := range map[string]func() (string, error){
		"reference/admission.md":         admissionPage,
		"reference/api.md":               apiPage,
		"reference/cli.md":               cliPage,
		"reference/fields.md":            fieldsPage,
		"reference/plugin-arguments.md":  argumentsPage,
		"reference/helm-values.md":       chartValuesPage,
		"reference/scheduler-metrics.md": gangMetricsPage,
	} {
		text, err := page()
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := writeChartValues(); err != nil {
		return err
	}
	if err := fillIn(dir, "reference/metrics.md", metricsPart()); err != nil {
		return err
	}
	return fillIn(dir, "lifecycle.md", phasesPart())
}
