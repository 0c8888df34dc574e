package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	configv1 "github.com/muster-sched/muster/pkg/apis/config/v1"
)

// argumentsSource is the package of the arguments' types, whose comments describe them.
const argumentsSource = "pkg/apis/config/v1"

// argumentsPage describes the arguments of the scheduler plugins.
func argumentsPage() (string, error) {
	types, err := documentedTypes(argumentsSource)
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString(generatedBy + "# Plugin arguments\n\n*Reference*\n\n" +
		"Write them into the `pluginConfig` of a profile, in `KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`).\n" +
		"`manifests/scheduler/` has complete configurations. An unknown name stops the scheduler at its start.\n")
	for _, t := range types {
		plugin, isArguments := strings.CutSuffix(t.Name, "Args")
		if !isArguments {
			continue
		}
		fmt.Fprintf(page, "\n## %s\n\n%s\n", plugin, comment(t.Doc))
		describeArguments(page, t)
	}
	example, err := defaultCoscheduling()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(page, "\nThe defaults of Coscheduling, written out:\n\n```yaml\n%s```\n", example)
	return page.String(), nil
}

func describeArguments(page *strings.Builder, t *doc.Type) {
	fields := t.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List
	header := "\n| argument | meaning |\n|---|---|\n"
	for _, field := range fields {
		if len(field.Names) == 0 {
			continue // TypeMeta
		}
		name, _, _ := strings.Cut(strings.Trim(field.Tag.Value, "`"), ",")
		name = strings.TrimPrefix(name, `json:"`)
		fmt.Fprintf(page, "%s| `%s` | %s |\n", header, name, prose(field.Doc.Text()))
		header = ""
	}
}

// defaultCoscheduling is a pluginConfig entry with all defaults.
func defaultCoscheduling() (string, error) {
	args := &configv1.CoschedulingArgs{}
	configv1.SetDefaultsCoschedulingArgs(args)
	text, err := yaml.Marshal(map[string]any{"pluginConfig": []any{map[string]any{"name": "Coscheduling", "args": args}}})
	return string(text), err
}

// documentedTypes parses the package in a directory and returns its types in the order of their names.
func documentedTypes(dir string) ([]*doc.Type, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, dir)
	if err != nil {
		return nil, fmt.Errorf("reading the comments of %s: %w", dir, err)
	}
	return pkg.Types, nil
}

// comment is a doc comment without markers for generators.
func comment(text string) string {
	text, _, _ = strings.Cut(text, "\n+")
	return prose(text)
}
