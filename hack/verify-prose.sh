#!/usr/bin/env bash
# Fails when pages, comments or messages are not plain technical English: hack/prose/plain/rules.go has the words.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
go run ./hack/prose
