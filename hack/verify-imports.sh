#!/usr/bin/env bash
# Fails when a package imports another that it must not know; hack/verifyimports/rules.go has the rules.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
go run ./hack/verifyimports
