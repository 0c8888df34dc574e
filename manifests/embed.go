// Package manifests holds every YAML file that Muster ships. Its folders are the API (crds), the permissions (rbac) and the rules of
// admission (admission). Stricter rules are for users who do not trust each other (tenancy). Then there are the scheduler configurations
// (scheduler), the deployment (deploy), the monitoring (monitoring) and the examples (examples). The simulation of nodes and pods is in
// stages and simulation. The local cluster and the tests read the same files as users.
package manifests

import "embed"

// FS has one folder for each kind of manifest, each with plain YAML files in it. The folder deploy has a folder for each way to deploy. A file's
// name orders it where order matters, as in rbac, whose namespace comes first.
//
//go:embed */*.yaml deploy/*/*.yaml
var FS embed.FS
