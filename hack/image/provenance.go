package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
)

// The types below are a part of an in-toto statement (v1) with SLSA provenance (v1): what this build knows.

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// resource is a ResourceDescriptor of in-toto.
type resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type provenance struct {
	Definition buildDefinition `json:"buildDefinition"`
	Run        runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	Type         string                       `json:"buildType"`
	External     map[string]string            `json:"externalParameters"`
	Internal     map[string]map[string]string `json:"internalParameters"`
	Dependencies []resource                   `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

const (
	source = "https://github.com/muster-sched/muster"
	// builder is this program. It runs on any machine, and signs nothing.
	builder = source + "/tree/main/hack/image"
)

var wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// provenanceOf says from what the image was built, and how. Each fact is from the builds of the programs. There are no times and no machine in
// it, so the same build gives the same text.
func provenanceOf(name, digest string, programs []program, from release) ([]byte, error) {
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []resource{{Name: name, Digest: map[string]string{"sha256": digest}}},
	}
	definition := &s.Predicate.Definition
	definition.Type = builder + "@v1"
	definition.External = map[string]string{"source": source, "version": from.version, "commit": from.commit, "image": name}
	definition.Internal = map[string]map[string]string{}
	s.Predicate.Run.Builder.ID = builder

	own := resource{URI: "git+" + source, Annotations: map[string]string{"commit": from.commit}}
	if wholeCommit.MatchString(from.commit) {
		own = resource{URI: "git+" + source, Digest: map[string]string{"gitCommit": from.commit}}
	}
	modules := map[string]resource{}
	for _, p := range programs {
		sum := sha256.Sum256(p.content)
		s.Subject = append(s.Subject, resource{Name: path.Join(programsFolder, p.name), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
		definition.Internal[p.name] = map[string]string{"go": p.build.GoVersion}
		for _, setting := range p.build.Settings {
			definition.Internal[p.name][setting.Key] = setting.Value
		}
		for _, module := range p.build.Deps {
			m := moduleResource(module)
			modules[m.URI] = m
		}
	}
	definition.Dependencies = []resource{own}
	for _, uri := range slices.Sorted(maps.Keys(modules)) {
		definition.Dependencies = append(definition.Dependencies, modules[uri])
	}
	return json.MarshalIndent(s, "", " ")
}

// moduleResource is a module as it was linked, with its line in go.sum.
func moduleResource(module *debug.Module) resource {
	if module.Replace != nil {
		module = module.Replace
	}
	r := resource{URI: "pkg:golang/" + module.Path + "@" + module.Version}
	if module.Sum != "" {
		r.Annotations = map[string]string{"goSum": module.Sum}
	}
	return r
}
