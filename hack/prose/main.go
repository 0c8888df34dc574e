// Command prose fails when texts are not plain technical English: pages, comments, and the messages in string literals.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/muster-sched/muster/hack/prose/plain"
)

func main() {
	complaints, err := run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prose: %v\n", err)
		os.Exit(2)
	}
	for _, complaint := range complaints {
		fmt.Println(complaint)
	}
	if len(complaints) > 0 {
		os.Exit(1)
	}
}

// run checks the files of the repository in the working directory, and returns what is wrong, a line each.
func run() ([]string, error) {
	names, err := texts()
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := plain.Check(name, string(content))
		if err != nil {
			return nil, err
		}
		complaints = append(complaints, found...)
	}
	return complaints, nil
}

// texts lists the files that people read, as git knows them. Generated clients and pages follow from other texts.
func texts() ([]string, error) {
	out, err := exec.CommandContext(context.Background(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.go", "*.yaml").Output()
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		isGenerated := strings.HasPrefix(name, "pkg/client/") || strings.HasPrefix(name, "docs/reference/")
		// The rules themselves, and their tests, name what they refuse. So does the test of the words that hack/measure counts.
		namesRefused := strings.HasPrefix(name, "hack/prose/") || name == "hack/measure/main_test.go"
		if !isGenerated && !namesRefused {
			names = append(names, name)
		}
	}
	return names, nil
}
