#!/usr/bin/env bash
# Tidies all Go modules.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
for module in $(git ls-files 'go.mod' '*/go.mod'); do
  (cd "$(dirname "$module")" && go mod tidy)
done
