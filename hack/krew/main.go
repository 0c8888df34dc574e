// Command krew packs `muster` as the kubectl plugin "muster" and writes its krew manifest. A release publishes the archives at the URL,
// and the manifest in krew's index or in its own. `make krew` builds the programs and runs it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release, such as v1.2.0")
	flag.StringVar(&r.url, "url", "", "URL of the folder with the archives; {version} stands for the version")
	flag.StringVar(&r.programs, "programs", "", "folder with a folder <os>-<arch> for each platform, which has the program muster")
	flag.StringVar(&r.license, "license", "LICENSE", "file with the license, which goes into each archive")
	flag.StringVar(&r.out, "out", "", "folder for the archives and the manifest")
	flag.Parse()
	if err := r.write(); err != nil {
		fmt.Fprintf(os.Stderr, "krew: %v\n", err)
		os.Exit(1)
	}
}
