#!/usr/bin/env bash
# Fails when the tree holds files that do not belong in a repository: large files, binaries, paths of one machine, scripts that bash cannot
# parse.
set -euo pipefail
cd "$(dirname "$0")/.."

result=0
complain() {
  echo "$1" >&2
  sed 's/^/  /' >&2 <<<"$2"
  result=1
}

files=$(git ls-files --cached --others --exclude-standard | while IFS= read -r file; do [[ ! -f $file ]] || echo "$file"; done)

large=$(while IFS= read -r file; do [[ $(wc -c <"$file") -le 1048576 ]] || echo "$file"; done <<<"$files")
[[ -z $large ]] || complain "larger than 1 MiB:" "$large"

binary=$(while IFS= read -r file; do [[ ! -s $file ]] || grep -qI . "$file" || echo "$file"; done <<<"$files")
[[ -z $binary ]] || complain "binary:" "$binary"

# A ".ssh" below a home is where the ssh job plugin mounts keys in containers.
homes=$(git grep --untracked -nIE '(^|[^[:alnum:]._-])/(root|home|Users|work)/[[:alnum:]._-]+' -- ':!go.sum' | grep -vE '/(root|home/[a-z]+)/\.ssh' || true)
[[ -z $homes ]] || complain "paths of a machine:" "$homes"

while IFS= read -r script; do
  bash -n "$script" || complain "bash cannot parse:" "$script"
done < <(grep -E '\.sh$|^\.ci/run$' <<<"$files")

exit "$result"
