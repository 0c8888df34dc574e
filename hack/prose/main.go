// Command prose fails when texts are not plain technical English: pages, comments, and the messages in string literals.
//
// Older texts that are not mended yet are counted in hack/prose/known.txt: how many refused words, and how many sentences of
// more than 20 words, each file has. A file may have no more than that, and a file that is not listed has none.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// knownFile lists the files that are not mended yet, a line each: the count of refused words, that of long sentences, the file.
const knownFile = "hack/prose/known.txt"

// counted is how much of a kind a file has, or may have.
type counted struct{ words, long int }

// report is what is wrong with a file, a line each.
type report struct{ words, long []string }

func main() {
	update := flag.Bool("update", false, "lower the counts in "+knownFile+" to what the files have; it raises none")
	flag.Parse()
	complaints, err := run(*update)
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

// run checks the files of the repository in the working directory.
func run(update bool) ([]string, error) {
	names, err := texts()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(knownFile)
	if err != nil {
		return nil, err
	}
	known, err := readKnown(string(content))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", knownFile, err)
	}
	reports := map[string]report{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if reports[name], err = check(name, string(content)); err != nil {
			return nil, err
		}
	}
	if update {
		return nil, os.WriteFile(knownFile, []byte(lowered(known, reports)), 0o644)
	}
	return compare(known, reports), nil
}

// texts lists the files that people read, as git knows them. Generated clients and pages follow from other texts.
func texts() ([]string, error) {
	out, err := exec.CommandContext(context.Background(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		isGenerated := strings.HasPrefix(name, "pkg/client/") || strings.HasPrefix(name, "docs/reference/")
		// The rules themselves, and their tests, name what they refuse.
		if !isGenerated && !strings.HasPrefix(name, "hack/prose/") {
			names = append(names, name)
		}
	}
	return names, nil
}

// check returns what is wrong with a file, each with its place.
func check(name, content string) (report, error) {
	var found report
	pieces, err := piecesOf(name, content)
	for _, p := range pieces {
		place := fmt.Sprintf("%s:%d: ", name, p.line)
		for _, sentence := range sentences(p.text) {
			for _, f := range wrong(sentence) {
				found.words = append(found.words, place+f.String())
			}
			if count := len(strings.Fields(sentence)); count > maxWords {
				long := finding{firstWords(sentence), fmt.Sprintf("%d words are too many for a sentence: split it, %d are the most", count, maxWords)}
				found.long = append(found.long, place+long.String())
			}
		}
	}
	return found, err
}

func piecesOf(name, content string) ([]piece, error) {
	if strings.HasSuffix(name, ".md") {
		return ofMarkdown(content), nil
	}
	return ofGo(name, content)
}

// readKnown reads the content of knownFile.
func readKnown(content string) (map[string]counted, error) {
	known := map[string]counted{}
	for line := range strings.Lines(content) {
		var count counted
		var name string
		if _, err := fmt.Sscanf(line, "%d %d %s", &count.words, &count.long, &name); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		known[name] = count
	}
	return known, nil
}

// compare complains of all that is wrong with the files that have more of it than is known.
func compare(known map[string]counted, reports map[string]report) []string {
	var complaints []string
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		found := reports[name]
		complaints = append(complaints, beyond(name, "refused words", found.words, known[name].words)...)
		complaints = append(complaints, beyond(name, "long sentences", found.long, known[name].long)...)
	}
	return complaints
}

// beyond returns what was found, if it is more than was known.
func beyond(name, kind string, found []string, known int) []string {
	if len(found) <= known {
		return nil
	}
	if known == 0 {
		return found
	}
	return append(found, fmt.Sprintf("%s: it has %d %s and had %d: mend the new ones, or one of the old ones", name, len(found), kind, known))
}

// lowered returns the new content of knownFile.
func lowered(known map[string]counted, reports map[string]report) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(known)) {
		found := reports[name]
		count := counted{min(known[name].words, len(found.words)), min(known[name].long, len(found.long))}
		if count != (counted{}) {
			fmt.Fprintf(&lines, "%d %d %s\n", count.words, count.long, name)
		}
	}
	return lines.String()
}
