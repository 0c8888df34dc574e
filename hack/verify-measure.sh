#!/usr/bin/env bash
# Fails when the code is less plain than its goals allow; hack/measure/open.go lists the goals that are not met yet.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
go run ./hack/measure "$@"
