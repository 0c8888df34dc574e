// Command verifyimports fails when a package of the project imports another that it must not know. Tests are free:
// only what is compiled into programs counts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// listed is the part of "go list -json" that matters here.
type listed struct {
	ImportPath string
	Imports    []string
}

func main() {
	wrong, err := check(context.Background())
	if err != nil {
		fmt.Fprintf(os.Stderr, "verifyimports: %v\n", err)
		os.Exit(2)
	}
	for _, objection := range wrong {
		fmt.Println(objection)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

// check returns the objections to all packages of the module in the working directory.
func check(ctx context.Context) ([]string, error) {
	// -e: the compiler reports code that does not compile.
	list := exec.CommandContext(ctx, "go", "list", "-e", "-json=ImportPath,Imports", "./...")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := list.Start(); err != nil {
		return nil, fmt.Errorf("running go list: %w", err)
	}
	var wrong []string
	for decoder := json.NewDecoder(out); ; {
		var pkg listed
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		wrong = append(wrong, objections(pkg.ImportPath, pkg.Imports)...)
	}
	if err := list.Wait(); err != nil {
		return nil, fmt.Errorf("running go list: %w", err)
	}
	return wrong, nil
}
