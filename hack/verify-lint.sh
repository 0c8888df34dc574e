#!/usr/bin/env bash
# Runs go vet and golangci-lint. Arguments are packages; without any, all.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
[[ $# -gt 0 ]] || set -- ./...
go vet "$@"
hack/build-tool.sh golangci-lint
bin/tools/golangci-lint run "$@"
