#!/usr/bin/env bash
# Fails when generated code or CRDs are not what hack/update-codegen.sh makes. Works in a copy; the tree stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/verify-generated.sh hack/update-codegen.sh pkg manifests/crds
