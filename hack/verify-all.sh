#!/usr/bin/env bash
# Runs every hack/verify-*.sh that takes no arguments, and lists the failed ones at the end. Changes nothing in the tree.
set -uo pipefail
cd "$(dirname "$0")/.."

checks="tree modules format imports measure codegen docs prose manifests vulnerabilities lint"
failed=()
for check in $checks; do
  started=$SECONDS
  echo "== verify $check"
  if "hack/verify-$check.sh"; then
    echo "   ok ($((SECONDS - started))s)"
  else
    echo "   FAILED ($((SECONDS - started))s)"
    failed+=("$check")
  fi
done

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]} (run one again with hack/verify-<name>.sh; \`make update\` mends what can be generated)"
  exit 1
fi
echo "all checks passed: $checks"
