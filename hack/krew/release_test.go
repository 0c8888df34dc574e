package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// testRelease has programs for two platforms.
func testRelease(t *testing.T) *release {
	t.Helper()
	programs := t.TempDir()
	for _, platform := range []string{"linux-amd64", "darwin-arm64"} {
		require.NoError(t, os.Mkdir(filepath.Join(programs, platform), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(programs, platform, "muster"), []byte("program for "+platform), 0o600))
	}
	return &release{version: "v1.2.0", url: "https://example.com/releases/{version}", programs: programs, license: "../../LICENSE", out: t.TempDir()}
}

// TestTheManifestIsValid asks krew's own program about it, which also finds platforms that overlap or that krew does not know.
func TestTheManifestIsValid(t *testing.T) {
	r := testRelease(t)
	require.NoError(t, r.write())
	manifest := filepath.Join(r.out, "muster.yaml")
	check := func() ([]byte, error) {
		return exec.CommandContext(t.Context(), "go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", manifest).CombinedOutput()
	}
	out, err := check()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "structural validation OK")

	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manifest, bytes.ReplaceAll(text, []byte("v1.2.0"), []byte("1.2.0")), 0o600))
	out, err = check()
	require.Error(t, err)
	assert.Contains(t, string(out), "version", "the program refuses a manifest that is wrong")
}

func TestTheManifestNamesTheArchives(t *testing.T) {
	r := testRelease(t)
	require.NoError(t, r.write())
	text, err := os.ReadFile(filepath.Join(r.out, "muster.yaml"))
	require.NoError(t, err)
	var plugin index.Plugin
	require.NoError(t, yaml.UnmarshalStrict(text, &plugin))
	require.Len(t, plugin.Spec.Platforms, 2)
	for _, platform := range plugin.Spec.Platforms {
		name := platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"]
		assert.Equal(t, "https://example.com/releases/v1.2.0/kubectl-muster-"+name+".tar.gz", platform.URI)
		archive, err := os.ReadFile(filepath.Join(r.out, path.Base(platform.URI)))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(archive)), platform.Sha256)

		files := filesOf(t, archive)
		assert.Equal(t, "program for "+name, files[platform.Bin])
		assert.Contains(t, files["LICENSE"], "Apache License")
	}
	again := *r
	again.out = t.TempDir()
	require.NoError(t, again.write())
	second, err := os.ReadFile(filepath.Join(again.out, "muster.yaml"))
	require.NoError(t, err)
	assert.Equal(t, string(text), string(second), "the same programs make the same archives")
}

// filesOf returns the files of an archive by name. The program must be executable.
func filesOf(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	files := map[string]string{}
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		files[header.Name] = string(content)
		assert.Equal(t, header.Name == binName, header.Mode&0o111 != 0, header.Name)
	}
}

func TestAReleaseThatCannotBePublished(t *testing.T) {
	for want, change := range map[string]func(*release){
		`version "dirty": write one like v1.2.0`: func(r *release) { r.version = "dirty" },
		`version "1.2.0"`:                        func(r *release) { r.version = "1.2.0" },
		`URL "": write one like https`:           func(r *release) { r.url = "" },
		`URL "http://example.com"`:               func(r *release) { r.url = "http://example.com" },
		"there is no program <os>-<arch>/muster": func(r *release) { r.programs = t.TempDir() },
		"no such file":                           func(r *release) { r.license = "missing" },
	} {
		r := testRelease(t)
		change(r)
		assert.ErrorContains(t, r.write(), want)
	}
}
