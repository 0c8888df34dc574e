package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"time"
)

// program is a Go program of the image and what its build says of itself.
type program struct {
	name    string
	content []byte
	build   *debug.BuildInfo
}

// The types below are the part of SPDX 2.3 that an SBOM of Go programs needs.

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID               string          `json:"SPDXID"`
	Name             string          `json:"name"`
	Version          string          `json:"versionInfo,omitempty"`
	Purpose          string          `json:"primaryPackagePurpose,omitempty"`
	DownloadLocation string          `json:"downloadLocation"`
	FilesAnalyzed    bool            `json:"filesAnalyzed"`
	LicenseConcluded string          `json:"licenseConcluded"`
	LicenseDeclared  string          `json:"licenseDeclared"`
	Copyright        string          `json:"copyrightText"`
	Checksums        []spdxChecksum  `json:"checksums,omitempty"`
	References       []spdxReference `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sbom lists the programs, the Go release that built them and the modules in them, as SPDX 2.3 in JSON.
func sbom(programs []program, from release) ([]byte, error) {
	document := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "muster",
		Creation: spdxCreation{Created: from.created.UTC().Format(time.RFC3339), Creators: []string{"Tool: muster-hack-image"}},
	}
	modules := map[string]spdxPackage{}
	digest := sha256.New()
	for _, p := range programs {
		sum := sha256.Sum256(p.content)
		digest.Write(sum[:])
		binary := spdxPackage{ID: spdxID("program", p.name), Name: p.name, Version: from.version, Purpose: "APPLICATION"}
		binary.Checksums = []spdxChecksum{{Algorithm: "SHA256", Value: hex.EncodeToString(sum[:])}}
		document.Packages = append(document.Packages, unknownLicense(binary))
		document.relate(document.ID, "DESCRIBES", binary.ID)
		for _, module := range append([]spdxPackage{goRelease(p.build.GoVersion)}, modulesOf(p.build, from)...) {
			modules[module.ID] = module
			document.relate(binary.ID, "CONTAINS", module.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		document.Packages = append(document.Packages, modules[id])
	}
	// A namespace has to differ between documents; this one follows from the programs.
	document.Namespace = fmt.Sprintf("https://github.com/muster-sched/muster/spdx/%x", digest.Sum(nil))
	return json.MarshalIndent(document, "", " ")
}

func (d *spdxDocument) relate(from, kind, to string) {
	d.Relationships = append(d.Relationships, spdxRelationship{From: from, Type: kind, To: to})
}

// modulesOf returns the modules that were linked into a program, its own first.
func modulesOf(build *debug.BuildInfo, from release) []spdxPackage {
	own := build.Main
	own.Version = from.version
	packages := []spdxPackage{modulePackage(&own)}
	for _, module := range build.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		packages = append(packages, modulePackage(module))
	}
	return packages
}

func modulePackage(module *debug.Module) spdxPackage {
	return goPackage(module.Path, module.Version, "pkg:golang/"+module.Path+"@"+module.Version)
}

func goRelease(version string) spdxPackage {
	return goPackage("stdlib", version, "pkg:golang/stdlib@"+version)
}

func goPackage(name, version, url string) spdxPackage {
	return unknownLicense(spdxPackage{
		ID: spdxID("module", name+"-"+version), Name: name, Version: version, Purpose: "LIBRARY",
		References: []spdxReference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: url}},
	})
}

// unknownLicense fills in the fields that SPDX requires and that a build does not know.
func unknownLicense(p spdxPackage) spdxPackage {
	const unknown = "NOASSERTION"
	p.DownloadLocation, p.LicenseConcluded, p.LicenseDeclared, p.Copyright = unknown, unknown, unknown, unknown
	return p
}

var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// spdxID returns an identifier, which may have letters, digits, dots and dashes only.
func spdxID(kind, name string) string {
	return "SPDXRef-" + kind + "-" + notInID.ReplaceAllString(name, "-")
}
