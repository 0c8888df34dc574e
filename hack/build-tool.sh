#!/usr/bin/env bash
# Builds a pinned tool into bin/tools unless it is there in that version.
#   hack/build-tool.sh gotestsum|golangci-lint
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

case $1 in
  gotestsum) module=hack/testtools package=gotest.tools/gotestsum ;;
  golangci-lint) module=hack/lint package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
  *) echo "build-tool: there is no tool $1" >&2; exit 2 ;;
esac

# The stamp names all that the binary depends on: the module's requirements and the compiler.
stamp=bin/tools/.$1.stamp
want="$(go version) $(cksum <"$module/go.sum") $(cksum <"$module/go.mod")"
if [[ -x bin/tools/$1 && -f $stamp && $(<"$stamp") == "$want" ]]; then exit 0; fi

echo "building bin/tools/$1 (once)" >&2
mkdir -p bin/tools
(cd "$module" && CGO_ENABLED=0 go build -o ../../bin/tools/ "$package")
echo "$want" >"$stamp"
