// Command site writes the documentation as a static site. It has a page for each Markdown file, the files that pages link to,
// and a search without a server.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	out := flag.String("out", ".cache/site", "folder that the site is written into; it is made if it does not exist")
	flag.Parse()
	pages, err := site(*root, *out)
	if err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s: open %s/index.html\n", len(pages), *out, *out)
}

// site writes the site of the repository in root into out, and returns its pages.
func site(root, out string) ([]*page, error) {
	pages, err := build(root)
	if err != nil {
		return nil, err
	}
	groups, err := navigation(root, pages)
	if err != nil {
		return nil, err
	}
	return pages, write(pages, groups, out)
}
