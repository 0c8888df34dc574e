#!/usr/bin/env bash
# Fails for a known vulnerability in a module that is linked into one of our programs. hack/vulnerabilities/known.txt lists those that stay.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs/" ./cmd/...
go -C hack/vulnerabilities run . "$programs"/*
