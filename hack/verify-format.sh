#!/usr/bin/env bash
# Fails when a Go file is not formatted; hack/update-format.sh is its twin.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
hack/build-tool.sh golangci-lint
if ! bin/tools/golangci-lint fmt --diff ./...; then
  echo "run hack/update-format.sh and commit the result" >&2
  exit 1
fi
