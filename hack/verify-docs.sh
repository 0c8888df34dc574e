#!/usr/bin/env bash
# Fails when the reference pages differ from what the code gives, or a page has a dead link. Works in a copy; the tree stays as it is. Text
# in backquotes is no link.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/verify-generated.sh hack/update-docs.sh docs/reference docs/lifecycle.md manifests/charts/muster/values.yaml

result=0
while IFS= read -r page; do
  while IFS= read -r link; do
    target=$(dirname "$page")/${link%%#*}
    [[ -z ${link%%#*} || -e $target ]] || { echo "$page links to $link, which does not exist" >&2; result=1; }
  done < <(sed -E 's/`[^`]*`/code/g' "$page" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^(https?|mailto):')
done < <(git ls-files --cached --others --exclude-standard '*.md')
exit "$result"
