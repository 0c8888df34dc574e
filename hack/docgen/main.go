// Command docgen writes the reference pages that follow from the code: the fields of the API from the CRDs, and the
// plugins' arguments from their types.
//
//	docgen DIRECTORY
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "docgen: %v\n", err)
		os.Exit(1)
	}
}

// write makes all pages in a directory.
func write(dir string) error {
	for name, page := range map[string]func() (string, error){
		"api.md":              apiPage,
		"plugin-arguments.md": argumentsPage,
	} {
		text, err := page()
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// generatedBy is the first line of every page.
const generatedBy = "<!-- Made by hack/docgen (make update). Do not edit. -->\n\n"
