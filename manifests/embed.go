// Package manifests holds every YAML file that Muster ships: its API (crds), its permissions (rbac), what the API server refuses of its
// objects (admission), what it may also refuse where users do not trust each other (tenancy), its scheduler configurations (scheduler),
// its deployment (deploy), its monitoring (monitoring), the life of simulated nodes and pods (stages, simulation) and its examples. The
// local cluster and the tests read the very files that users apply.
package manifests

import "embed"

// FS has one folder for each kind of manifest, each with plain YAML files in it (deploy: with a folder for each way to deploy). A file's
// name orders it where order matters, as in rbac, whose namespace comes first.
//
//go:embed */*.yaml deploy/*/*.yaml
var FS embed.FS
