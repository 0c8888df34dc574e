#!/usr/bin/env bash
# Fails when a Go module is not tidy or its downloads are not what go.sum says; hack/update-modules.sh is its twin.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

result=0
for module in $(git ls-files 'go.mod' '*/go.mod'); do
  if ! (cd "$(dirname "$module")" && go mod tidy -diff); then
    echo "$module is not tidy: run hack/update-modules.sh and commit the result" >&2
    result=1
  fi
done

# What the tests and benchmarks run must be the release that the scheduler and the control plane are built from.
pinned() { awk '$1 == "k8s.io/kubernetes" && $2 != "=>" {print $2; exit}' "$1"; }
for module in hack/realnode/go.mod test/benchmark/perf/go.mod; do
  if [[ $(pinned go.mod) != "$(pinned "$module")" ]]; then
    echo "go.mod has k8s.io/kubernetes $(pinned go.mod), $module $(pinned "$module"): make them the same" >&2
    result=1
  fi
done
exit "$result"
