#!/usr/bin/env bash
# Prints the notes of a release: its section of CHANGELOG.md. Fails if there is none, or if it says nothing.
#   hack/release-notes.sh v1.2.0 [CHANGELOG.md]
set -euo pipefail
version=${1:?usage: release-notes.sh VERSION [FILE]} file=${2:-$(dirname "$0")/../CHANGELOG.md}
[[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] ||
  { echo "release-notes: version \"$version\": write one like v1.2.0" >&2; exit 2; }

notes=$(awk -v version="$version" '/^## / {inside = ($2 == version); next} inside' "$file")
[[ $notes == *[![:space:]]* ]] || { echo "release-notes: $file has no section \"## $version (DATE)\": write one" >&2; exit 1; }
printf '# Muster %s\n%s\n' "$version" "$notes"
