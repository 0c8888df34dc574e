// Program vulnerabilities compares the known vulnerabilities of Go modules with what is linked into programs:
//
//	go -C hack/vulnerabilities run . PROGRAM...
//
// It fails for a vulnerability whose code is in a program and that known.txt does not list. The database is a pinned Go module, so it is as old
// as that. Set its version anew with each release. Those of Go itself are only told, because the machine that builds chooses the Go release.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

// The database, and the checksum of the module that it is in.
const (
	database    = "golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018"
	databaseSum = "h1:mfngRv0Yoh0VApsXKEN82CjD99kl7mtparN3bs3JnqI="
)

//go:embed known.txt
var knownText string

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, programs []string) error {
	accepted, err := parseKnown(knownText)
	if err != nil {
		return err
	}
	folder, err := download(ctx)
	if err != nil {
		return err
	}
	found := map[string]finding{}
	for _, program := range programs {
		command := scan.Command(ctx, "-db", "file://"+filepath.Join(folder, "data", "osv"), "-mode", "binary", "-format", "json", program)
		var output, complaints bytes.Buffer
		command.Stdout, command.Stderr = &output, &complaints
		if err := errors.Join(command.Start(), command.Wait()); err != nil {
			return fmt.Errorf("scanning %s: %w\n%s", program, err, complaints.String())
		}
		if err := collect(&output, found); err != nil {
			return fmt.Errorf("reading what is known of %s: %w", program, err)
		}
	}
	return judge(os.Stdout, found, accepted)
}

// download fetches the database as any other Go module, and returns its folder.
func download(ctx context.Context) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", database)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", database, err)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(text, &module); err != nil {
		return "", fmt.Errorf("reading where %s is: %w", database, err)
	}
	if module.Sum != databaseSum {
		return "", fmt.Errorf("%s has the checksum %s and not %s", database, module.Sum, databaseSum)
	}
	return module.Dir, nil
}

// finding is a vulnerability whose code is in a program.
type finding struct{ module, version, fixed string }

// stdlib is how the scanner calls Go's own packages.
const stdlib = "stdlib"

// collect reads the messages of a scan. Findings in modules and packages whose code is not in the program are left out. If a vulnerability is
// in a module and in Go itself, the module counts.
func collect(output io.Reader, found map[string]finding) error {
	for decoder := json.NewDecoder(output); ; {
		var message struct {
			Finding *struct {
				OSV   string `json:"osv"`
				Fixed string `json:"fixed_version"`
				Trace []struct{ Module, Version, Function string }
			}
		}
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		if other, isFound := found[f.OSV]; !isFound || other.module == stdlib {
			found[f.OSV] = finding{f.Trace[0].Module, f.Trace[0].Version, f.Fixed}
		}
	}
}

// parseKnown reads lines like "GO-2026-1234 why it does not matter, or what it waits for".
func parseKnown(text string) (map[string]string, error) {
	known := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if reason == "" {
			return nil, fmt.Errorf("known.txt: %s has no reason: write it behind the name", id)
		}
		known[id] = reason
	}
	return known, nil
}

// judge tells what was found. Its error names what is not accepted, and what is accepted and was not found.
func judge(log io.Writer, found map[string]finding, accepted map[string]string) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(found)) {
		f := found[id]
		text := fmt.Sprintf("%s: %s %s", id, f.module, f.version)
		if f.fixed != "" {
			text += ", mended in " + f.fixed
		}
		switch reason, isAccepted := accepted[id]; {
		case f.module == stdlib:
			_, _ = fmt.Fprintln(log, "of Go itself: build with a newer Go release:", text)
		case isAccepted:
			_, _ = fmt.Fprintf(log, "known: %s: %s\n", text, reason)
		default:
			errs = append(errs, fmt.Errorf("%s: raise the module, or say in known.txt why that must wait", text))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if _, isFound := found[id]; !isFound {
			errs = append(errs, fmt.Errorf("%s is in no program any more: remove it from known.txt", id))
		}
	}
	return errors.Join(errs...)
}
