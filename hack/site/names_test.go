package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sourcesIn returns the Go files of the product, by their names in the repository.
func sourcesIn(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, folder := range []string{"cmd", "pkg", "test", "hack"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") {
				return err
			}
			content, err := os.ReadFile(name)
			where, _ := filepath.Rel("../..", name)
			sources[filepath.ToSlash(where)] = string(content)
			return err
		}))
	}
	return sources
}

// filesNamed are the files that a name in a page means: a file, or all files of a folder. Folders without pkg are in pkg/scheduler.
func filesNamed(sources map[string]string, name string) (found []string) {
	for file := range sources {
		for _, full := range []string{name, "pkg/scheduler/" + name} {
			if file == full || strings.HasPrefix(file, full+"/") {
				found = append(found, file)
			}
		}
		if strings.HasSuffix(name, ".go") && strings.HasSuffix(file, "/"+name) {
			found = append(found, file)
		}
	}
	return found
}

// declaration finds a function, a type, a field or a value of that name in a source.
func declaration(name string) *regexp.Regexp {
	name = regexp.QuoteMeta(name)
	return regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\b|^type ` + name + `\b|^(var |const )?\t*([\w, ]+, )?` + name + `\b|\.` + name + `$|\b` + name + ` :?= `)
}

// TestTheFilesOfThePageForContributorsHaveWhatItSays: each row of the tables names files, and functions and types in these.
func TestTheFilesOfThePageForContributorsHaveWhatItSays(t *testing.T) {
	sources := sourcesIn(t)
	page := readFile(t, "../..", "CONTRIBUTING.md")
	_, page, found := strings.Cut(page, "## The two ledgers")
	require.True(t, found)
	quoted := regexp.MustCompile("`([^`]+)`")
	isFile, isName := regexp.MustCompile(`^[\w/-]+(\.go|/[\w-]+)$`), regexp.MustCompile(`^(?:\w+\.)*([A-Za-z]{3,})$`)
	isRoom := regexp.MustCompile("^\\| `([a-z]+)` \\|")
	rows := 0
	for line := range strings.Lines(page) {
		room := isRoom.FindStringSubmatch(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| `") && room == nil {
			continue
		}
		var files, names []string
		if room != nil {
			line, files = line[len(room[0]):], filesNamed(sources, room[1])
			assert.NotEmpty(t, files, "no folder is %s: %s", room[1], line)
		}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			if isFile.MatchString(match[1]) {
				named := filesNamed(sources, match[1])
				if strings.HasSuffix(match[1], ".go") {
					assert.NotEmpty(t, named, "no file is %s: %s", match[1], line)
				}
				files = append(files, named...)
			} else if name := isName.FindStringSubmatch(match[1]); name != nil && !strings.HasPrefix(match[1], "status.") {
				names = append(names, name[1])
			}
		}
		if len(files) == 0 {
			continue
		}
		rows++
		for _, name := range names {
			declares := declaration(name)
			isThere := slices.ContainsFunc(files, func(file string) bool {
				// Most sources do not have the name at all, which is sooner seen.
				return strings.Contains(sources[file], name) && declares.MatchString(sources[file])
			})
			assert.True(t, isThere, "%s is in none of the files of its row: %s", name, line)
		}
	}
	require.Greater(t, rows, 60)
}
