package kube

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-sched/muster/pkg/lint"
)

// ReadFiles returns the objects of files and folders; - is the input.
func ReadFiles(in io.Reader, names []string) ([]lint.Object, error) {
	var objects []lint.Object
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readFile(in, file)
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

// filesOf returns the manifests of a folder, or the name of a file itself.
func filesOf(name string) ([]string, error) {
	if isFolder(name) {
		return manifestsIn(name)
	}
	return []string{name}, nil
}

// isFolder is false for standard input, and for what does not exist: reading it says so.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return name != "-" && err == nil && info.IsDir()
}

// manifestsIn returns the manifests of a folder, at least one.
func manifestsIn(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("reading the folder %s: %w", name, err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(name, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file", name)
	}
	return files, nil
}

func readFile(in io.Reader, file string) ([]lint.Object, error) {
	if file == "-" {
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return lint.Read("stdin", text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, errors.Unwrap(err))
	}
	return lint.Read(strings.TrimPrefix(file, "./"), text)
}
