package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// buildPrograms builds a small program under the name of each program of the image.
func buildPrograms(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range programNames {
		target := filepath.Join(folder, program)
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", target, "./testdata/program")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
		output, err := build.CombinedOutput()
		require.NoError(t, err, string(output))
	}
	return folder
}

func buildOptions(t *testing.T) options {
	return options{
		name: "example.com/muster:v1", programs: buildPrograms(t), out: t.TempDir(),
		version: "v1", commit: "abc", created: "1700000000",
	}
}

// readTarball reads the image that run wrote as a tarball.
func readTarball(t *testing.T, folder, tag string) v1.Image {
	t.Helper()
	reference, err := name.NewTag(tag)
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(filepath.Join(folder, "muster.tar"), &reference)
	require.NoError(t, err)
	return image
}

// contents returns the headers and contents of all entries of an image by their paths.
func contents(t *testing.T, image v1.Image) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	stream := mutate.Extract(image)
	defer stream.Close()
	headers, texts := map[string]*tar.Header{}, map[string]string{}
	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, texts
		}
		require.NoError(t, err)
		text, err := io.ReadAll(reader)
		require.NoError(t, err)
		path := "/" + strings.TrimSuffix(header.Name, "/")
		headers[path], texts[path] = header, string(text)
	}
}

// regularFiles returns the paths of the files, without folders.
func regularFiles(headers map[string]*tar.Header) []string {
	var files []string
	for path, header := range headers {
		if header.Typeflag == tar.TypeReg {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

// Two builds, programs included, in different folders and at different times have one digest, and their tarballs the same bytes.
func TestTwoBuildsAreTheSame(t *testing.T) {
	first, second := buildOptions(t), buildOptions(t)
	past := time.Now().Add(-48 * time.Hour)
	for _, program := range programNames {
		require.NoError(t, os.Chtimes(filepath.Join(second.programs, program), past, past))
	}
	digest, err := run(first)
	require.NoError(t, err)
	again, err := run(second)
	require.NoError(t, err)
	assert.Equal(t, digest, again)
	for _, file := range []string{"muster.tar", "sbom.spdx.json", "provenance.intoto.json", "layout/index.json"} {
		a, err := os.ReadFile(filepath.Join(first.out, file))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(second.out, file))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(a, b), "%s differs", file)
	}
}

// The layout and the tarball hold one image, which go-containerregistry finds valid.
func TestBothFormsHoldTheImage(t *testing.T) {
	o := buildOptions(t)
	digest, err := run(o)
	require.NoError(t, err)
	// A second run replaces the first.
	_, err = run(o)
	require.NoError(t, err)

	index, err := layout.ImageIndexFromPath(filepath.Join(o.out, "layout"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	assert.Equal(t, digest, manifest.Manifests[0].Digest.String())
	assert.Equal(t, "v1", manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	inLayout, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)

	loaded := readTarball(t, o.out, o.name)
	require.NoError(t, validate.Image(loaded))
	want, err := inLayout.ConfigName()
	require.NoError(t, err)
	got, err := loaded.ConfigName()
	require.NoError(t, err)
	assert.Equal(t, want, got, "the configuration, which names all layers")
}

func TestTheConfigurationOfTheImage(t *testing.T) {
	o := buildOptions(t)
	_, err := run(o)
	require.NoError(t, err)
	configuration, err := readTarball(t, o.out, o.name).ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "linux", configuration.OS)
	assert.Equal(t, runtime.GOARCH, configuration.Architecture)
	assert.Equal(t, int64(1700000000), configuration.Created.Unix())
	assert.Equal(t, "v1", configuration.Config.Labels["org.opencontainers.image.version"])
	assert.Equal(t, "abc", configuration.Config.Labels["org.opencontainers.image.revision"])
	assert.Equal(t, "2023-11-14T22:13:20Z", configuration.Config.Labels["org.opencontainers.image.created"])
}

func TestFilesBelongToRootAndAllMayReadThem(t *testing.T) {
	o := buildOptions(t)
	_, err := run(o)
	require.NoError(t, err)
	headers, texts := contents(t, readTarball(t, o.out, o.name))
	for path, header := range headers {
		assert.Zero(t, header.Uid, path)
		assert.Zero(t, header.Gid, path)
		want := int64(0o755)
		if path == certificatesPath || path == sbomPath {
			want = 0o644
		}
		assert.Equal(t, want, header.Mode, path)
	}
	program, err := os.ReadFile(filepath.Join(o.programs, "muster-scheduler"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(program, []byte(texts["/usr/local/bin/muster-scheduler"])))
}

// The last stage of the Dockerfile is understood here, and makes the same image, but for the SBOM.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	o := buildOptions(t)
	_, err := run(o)
	require.NoError(t, err)
	image := readTarball(t, o.out, o.name)
	headers, _ := contents(t, image)
	configuration, err := image.ConfigFile()
	require.NoError(t, err)

	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	files, settings := lastStage(t, string(text))
	assert.ElementsMatch(t, regularFiles(headers), append(files, sbomPath))
	assert.Equal(t, settings["USER"], configuration.Config.User)
	assert.Equal(t, settings["ENTRYPOINT"], strings.Join(configuration.Config.Entrypoint, " "))
	assert.Equal(t, settings["CMD"], strings.Join(configuration.Config.Cmd, " "))
	assert.Equal(t, settings["WORKDIR"], configuration.Config.WorkingDir)
}

// lastStage returns the files that the last stage of a Dockerfile copies into an empty image, and its other instructions.
func lastStage(t *testing.T, text string) ([]string, map[string]string) {
	t.Helper()
	_, stage, found := strings.Cut(text, "\nFROM scratch\n")
	require.True(t, found, "no stage FROM scratch")
	require.NotContains(t, stage, "FROM ", "scratch is not the last stage")
	var files []string
	settings := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^[A-Z].*$`).FindAllString(stage, -1) {
		words := strings.Fields(line)
		if words[0] != "COPY" {
			require.Contains(t, []string{"USER", "ENTRYPOINT", "CMD", "WORKDIR"}, words[0], "this test does not know the instruction")
			settings[words[0]] = strings.Join(words[1:], " ")
			continue
		}
		require.Equal(t, "--from=build", words[1])
		target := words[len(words)-1]
		for _, source := range words[2 : len(words)-1] {
			if strings.HasSuffix(target, "/") {
				files = append(files, target+filepath.Base(source))
			} else {
				files = append(files, target)
			}
		}
	}
	return files, settings
}

func TestCertificatesAreRoots(t *testing.T) {
	text, err := certificates()
	require.NoError(t, err)
	count := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		assert.True(t, root.IsCA, root.Subject)
		count++
	}
	assert.Greater(t, count, 50)
}

func TestProgramsThatTheImageCannotRunAreRefused(t *testing.T) {
	build := func(settings ...string) program {
		info := &debug.BuildInfo{}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return program{name: "p", build: info}
	}
	static := build("CGO_ENABLED", "0", "GOOS", "linux", "GOARCH", "amd64")
	for message, programs := range map[string][]program{
		"p is not static: build it with CGO_ENABLED=0":       {build("CGO_ENABLED", "1", "GOOS", "linux", "GOARCH", "amd64")},
		"p is built for darwin: build it with GOOS=linux":    {build("CGO_ENABLED", "0", "GOOS", "darwin", "GOARCH", "amd64")},
		"p is built for linux/amd64, and p for linux/arm/v7": {static, build("CGO_ENABLED", "0", "GOOS", "linux", "GOARCH", "arm", "GOARM", "7")},
	} {
		_, err := platformOf(programs)
		require.EqualError(t, err, message)
	}
	platform, err := platformOf([]program{static, static})
	require.NoError(t, err)
	assert.Equal(t, "linux/amd64", platform.String())
}

// The SBOM lists each module of each program once, with the version that was linked. All its references lead somewhere.
func TestTheSBOMListsAllModules(t *testing.T) {
	replaced := &debug.Module{Path: "k8s.io/api", Version: "v0.0.0", Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.37.2"}}
	build := func(modules ...*debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Path: "example.com/muster", Version: "(devel)"}, Deps: modules}
	}
	text, err := sbom([]program{
		{name: "a", content: []byte("a"), build: build(replaced, &debug.Module{Path: "example.com/x", Version: "v1.0.0"})},
		{name: "b", content: []byte("b"), build: build(replaced)},
	}, release{version: "v1", created: time.Unix(0, 0)})
	require.NoError(t, err)
	var document spdxDocument
	require.NoError(t, json.Unmarshal(text, &document))

	var found []string
	known := map[string]bool{document.ID: true}
	for _, p := range document.Packages {
		found = append(found, p.Name+" "+p.Version)
		known[p.ID] = true
		assert.Regexp(t, `^SPDXRef-[a-zA-Z0-9.-]+$`, p.ID)
	}
	assert.Equal(t, []string{"a v1", "b v1", "example.com/muster v1", "example.com/x v1.0.0", "k8s.io/api v0.37.2", "stdlib go1.26.1"}, found)
	var contained []string
	for _, r := range document.Relationships {
		assert.True(t, known[r.From] && known[r.To], r)
		if r.Type == "CONTAINS" && r.From == "SPDXRef-program-b" {
			contained = append(contained, r.To)
		}
	}
	assert.Equal(t, []string{
		"SPDXRef-module-stdlib-go1.26.1", "SPDXRef-module-example.com-muster-v1", "SPDXRef-module-k8s.io-api-v0.37.2",
	}, contained)
}
