#!/usr/bin/env bash
# Runs an update script in a copy of the tree and fails if it changes anything below the paths.
#   hack/verify-generated.sh SCRIPT PATH...
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

script=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/copy
mkdir "$copy"

# The files that git knows or would add, as they are now; and the built tools, so that they are not built again.
git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"
done | tar --null --files-from=- -cf - | tar -xf - -C "$copy"
mkdir -p bin/tools "$copy/bin"
cp -R bin/tools "$copy/bin/tools"
for path in "$@"; do
  mkdir -p "$work/before/$(dirname "$path")"
  [[ ! -e $copy/$path ]] || cp -R "$copy/$path" "$work/before/$path"
done

if ! (cd "$copy" && "$script" >"$work/log" 2>&1); then
  cat "$work/log" >&2
  echo "$script fails" >&2
  exit 1
fi

result=0
(cd "$work" && for path in "$@"; do
  diff -Naur "before/$path" "copy/$path" || exit 1
done) || result=1
if [[ $result != 0 ]]; then
  echo "what is generated differs from what is here: run $script and commit the result" >&2
fi
exit "$result"
