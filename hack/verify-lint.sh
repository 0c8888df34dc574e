#!/usr/bin/env bash
# Runs go vet and golangci-lint. Arguments are packages; without any, all, and those of the modules with code of ours too.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
hack/build-tool.sh golangci-lint
if [[ $# -gt 0 ]]; then
  go vet "$@"
  bin/tools/golangci-lint run "$@"
  exit
fi
tool=$PWD/bin/tools/golangci-lint
for module in . test/benchmark/perf hack/image hack/krew hack/vulnerabilities test/monitoring test/chart; do
  (cd "$module" && go vet ./... && "$tool" run ./...)
done
