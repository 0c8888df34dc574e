#!/usr/bin/env bash
# Builds all that a release publishes into bin/release. `make release VERSION=v1.2.0` runs it; CONTRIBUTING.md says what to do before and after.
#   hack/release.sh VERSION IMAGE URL PROCESSORS
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh
version=$1 image=$2 url=$3 processors=$4
out=$PWD/bin/release

rm -rf "$out" bin/krew
mkdir -p "$out"
hack/release-notes.sh "$version" >"$out/notes.md"
[[ -z $(git status --porcelain) ]] || { echo "release: the tree has changes that no commit has: commit them" >&2; exit 1; }

for processor in $processors; do
  make image VERSION="$version" IMAGE="$image:$version" GOARCH="$processor"
  name=muster-image-linux-$processor
  cp bin/image/muster.tar "$out/$name.tar"
  cp bin/image/sbom.spdx.json "$out/$name.sbom.spdx.json"
  cp bin/image/provenance.intoto.json "$out/$name.provenance.intoto.json"
done

go -C test/chart tool helm package --version "${version#v}" --app-version "$version" --destination "$out" "$PWD/manifests/charts/muster"

make krew KREW_VERSION="$version" KREW_URL="$url" VERSION="$version"
cp bin/krew/*.tar.gz bin/krew/*.yaml "$out"

# git archive gives each file the time of the commit, so that the archive is the same each time.
git archive --format=tar HEAD manifests | gzip -n >"$out/manifests.tar.gz"

(cd "$out" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
echo "the release is in $out:"
cat "$out/SHA256SUMS"
