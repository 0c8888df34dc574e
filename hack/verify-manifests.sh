#!/usr/bin/env bash
# Fails when a manifest does not parse, or holds a field that its type does not have.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
go test ./manifests/...
