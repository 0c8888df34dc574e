#!/usr/bin/env bash
# Formats all Go files (gofmt, imports grouped) as .golangci.yml says.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
hack/build-tool.sh golangci-lint
bin/tools/golangci-lint fmt ./...
