// Program image builds the container image of Muster from static programs, without a container engine. It writes an OCI layout, a tarball
// that `docker load` and `ctr images import` read, the SBOM and the provenance:
//
//	go -C hack/image run . --name muster:dev --programs ../../bin/image/programs --out ../../bin/image
package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// programNames are the programs of the image; the Dockerfile has the same.
var programNames = []string{"muster-controller", "muster-scheduler"}

// options are the flags of this program.
type options struct {
	name, programs, out, version, commit, created string
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "muster:dev", "name of the image, with its tag")
	flag.StringVar(&o.programs, "programs", "", "folder with the static programs")
	flag.StringVar(&o.out, "out", "", "folder to write layout/, muster.tar, sbom.spdx.json and provenance.intoto.json to")
	flag.StringVar(&o.version, "version", "unknown", "version of Muster")
	flag.StringVar(&o.commit, "commit", "unknown", "commit that the programs were built from")
	flag.StringVar(&o.created, "created", "0", "time of that commit, in seconds since 1970")
	flag.Parse()
	digest, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Printf("built %s, %s, in %s\n", o.name, digest, o.out)
}

// run builds the image and writes it. It returns the digest of its manifest.
func run(o options) (string, error) {
	tag, err := name.NewTag(o.name)
	if err != nil {
		return "", fmt.Errorf("--name: %w", err)
	}
	seconds, err := strconv.ParseInt(o.created, 10, 64)
	if err != nil {
		return "", fmt.Errorf("--created: %w", err)
	}
	from := release{version: o.version, commit: o.commit, created: time.Unix(seconds, 0).UTC()}
	programs, err := readPrograms(o.programs, programNames)
	if err != nil {
		return "", err
	}
	platform, err := platformOf(programs)
	if err != nil {
		return "", err
	}
	files, err := imageFiles(programs, from)
	if err != nil {
		return "", err
	}
	image, err := buildImage(files, platform, from)
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the image's digest: %w", err)
	}
	origin, err := provenanceOf(o.name, digest.Hex, programs, from)
	if err != nil {
		return "", fmt.Errorf("writing the provenance: %w", err)
	}
	beside := map[string][]byte{"sbom.spdx.json": files[sbomPath].content, "provenance.intoto.json": origin}
	return digest.String(), write(o.out, tag, image, platform, beside)
}

// readPrograms reads the programs and what their builds say of themselves.
func readPrograms(folder string, names []string) ([]program, error) {
	var programs []program
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		build, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("reading how %s was built: %w", name, err)
		}
		programs = append(programs, program{name: name, content: content, build: build})
	}
	return programs, nil
}

// platformOf returns the platform that all programs were built for. The image has no C library, so a program that needs one is an error.
func platformOf(programs []program) (v1.Platform, error) {
	var common v1.Platform
	for i, p := range programs {
		if setting(p.build, "CGO_ENABLED") != "0" {
			return common, fmt.Errorf("%s is not static: build it with CGO_ENABLED=0", p.name)
		}
		platform := v1.Platform{OS: setting(p.build, "GOOS"), Architecture: setting(p.build, "GOARCH")}
		if platform.Architecture == "arm" {
			platform.Variant = "v" + setting(p.build, "GOARM")
		}
		if platform.OS != "linux" {
			return common, fmt.Errorf("%s is built for %s: build it with GOOS=linux", p.name, platform.OS)
		}
		if i > 0 && !platform.Equals(common) {
			return common, fmt.Errorf("%s is built for %s, and %s for %s", programs[0].name, common, p.name, platform)
		}
		common = platform
	}
	return common, nil
}

// setting returns a setting of a build, or nothing if the build does not say.
func setting(build *debug.BuildInfo, key string) string {
	for _, s := range build.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// imageFiles returns all files of the image by their paths.
func imageFiles(programs []program, from release) (map[string]file, error) {
	roots, err := certificates()
	if err != nil {
		return nil, fmt.Errorf("collecting the certificates: %w", err)
	}
	list, err := sbom(programs, from)
	if err != nil {
		return nil, fmt.Errorf("writing the SBOM: %w", err)
	}
	files := map[string]file{certificatesPath: {content: roots, mode: 0o644}, sbomPath: {content: list, mode: 0o644}}
	for _, p := range programs {
		files[path.Join(programsFolder, p.name)] = file{content: p.content, mode: 0o755}
	}
	return files, nil
}

// write writes the image in both forms, and the files beside them.
func write(folder string, tag name.Tag, image v1.Image, platform v1.Platform, beside map[string][]byte) error {
	if folder == "" {
		return errors.New("--out: name a folder")
	}
	layoutFolder := filepath.Join(folder, "layout")
	// Files of an earlier build would stay in the layout for ever.
	if err := os.RemoveAll(layoutFolder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	index, err := layout.Write(layoutFolder, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag.TagStr()})
	if err := index.AppendImage(image, named, layout.WithPlatform(platform)); err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	if err := tarball.WriteToFile(filepath.Join(folder, "muster.tar"), tag, image); err != nil {
		return fmt.Errorf("writing the tarball: %w", err)
	}
	for name, content := range beside {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
