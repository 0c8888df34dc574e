#!/usr/bin/env bash
# Runs every update script: generated code, reference docs, formatting, modules.
set -euo pipefail
cd "$(dirname "$0")/.."
for update in codegen docs format modules; do
  echo "== update $update"
  "hack/update-$update.sh"
done
