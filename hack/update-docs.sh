#!/usr/bin/env bash
# Writes the pages, and parts of pages, that follow from the code; hack/verify-docs.sh is its twin.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
go run ./hack/docgen docs
