package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheProvenanceIsOfThisImage reads the statement beside an image as a verifier does: with all its fields, and no other.
func TestTheProvenanceIsOfThisImage(t *testing.T) {
	o := buildOptions(t)
	o.commit = strings.Repeat("0a", 20)
	digest, err := run(o)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(o.out, "provenance.intoto.json"))
	require.NoError(t, err)
	var s statement
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&s))

	assert.Equal(t, "https://in-toto.io/Statement/v1", s.Type)
	assert.Equal(t, "https://slsa.dev/provenance/v1", s.PredicateType)
	require.Len(t, s.Subject, 1+len(programNames))
	assert.Equal(t, resource{Name: o.name, Digest: map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}}, s.Subject[0])
	for i, name := range programNames {
		content, err := os.ReadFile(filepath.Join(o.programs, name))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		assert.Equal(t, resource{Name: "/usr/local/bin/" + name, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}, s.Subject[i+1])
		assert.Equal(t, "0", s.Predicate.Definition.Internal[name]["CGO_ENABLED"])
		assert.Regexp(t, "^go1", s.Predicate.Definition.Internal[name]["go"])
	}
	assert.NotEmpty(t, s.Predicate.Run.Builder.ID)
	assert.NotEmpty(t, s.Predicate.Definition.Type)
	assert.Equal(t, "v1", s.Predicate.Definition.External["version"])
	assert.Equal(t, map[string]string{"gitCommit": o.commit}, s.Predicate.Definition.Dependencies[0].Digest)
}

// TestTheProvenanceListsAllModules as the linker took them, with their checksums.
func TestTheProvenanceListsAllModules(t *testing.T) {
	replaced := &debug.Module{Path: "k8s.io/api", Version: "v0.0.0", Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.37.2", Sum: "h1:a="}}
	build := func(modules ...*debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.1", Deps: modules}
	}
	text, err := provenanceOf("muster:v1", "00", []program{
		{name: "a", build: build(replaced, &debug.Module{Path: "example.com/x", Version: "v1.0.0", Sum: "h1:b="})},
		{name: "b", build: build(replaced)},
	}, release{version: "v1", commit: "abc"})
	require.NoError(t, err)
	var s statement
	require.NoError(t, json.Unmarshal(text, &s))
	assert.Equal(t, []resource{
		{URI: "git+https://github.com/muster-sched/muster", Annotations: map[string]string{"commit": "abc"}}, // not whole, so no digest
		{URI: "pkg:golang/example.com/x@v1.0.0", Annotations: map[string]string{"goSum": "h1:b="}},
		{URI: "pkg:golang/k8s.io/api@v0.37.2", Annotations: map[string]string{"goSum": "h1:a="}},
	}, s.Predicate.Definition.Dependencies)
}
