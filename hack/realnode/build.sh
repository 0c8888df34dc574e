#!/usr/bin/env bash
# Builds the programs of a real node of the local cluster from the modules in this folder: kubelet, CoreDNS and the pause program of pods.
#
#   build.sh BIN_DIR
#
# They land in BIN_DIR/realnode/<kubernetes version>. A stamp made from this folder decides whether there is anything to do. The first
# build takes some minutes, so `make build` leaves it out: `muster local up --real-node` asks for it.
set -o errexit -o nounset -o pipefail

bin_dir="$(mkdir -p "${1:?usage: build.sh BIN_DIR}" && cd "$1" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")"

version="$(awk '$1 == "k8s.io/kubernetes" && $2 != "=>" { print $2; exit }' go.mod)"
out="${bin_dir}/realnode/${version}"
binaries=(kubelet coredns pause)

stamp="$(cat build.sh go.mod go.sum ./*/main.go | sha256sum | cut -d ' ' -f 1)"

is_current() {
  [[ -f "${out}/.stamp" && "$(cat "${out}/.stamp")" == "${stamp}" ]] || return 1
  for name in "${binaries[@]}"; do
    [[ -x "${out}/${name}" ]] || return 1
  done
}

build() {
  if ! command -v go >/dev/null; then
    echo "build.sh: the Go toolchain is missing: install Go $(awk '$1 == "go" { print $2 }' go.mod) or later from https://go.dev/dl and put it on the PATH" >&2
    exit 1
  fi
  echo "Building the programs of a real node into ${out} (some minutes the first time)" >&2
  local started="${SECONDS}" flags="-s -w -X k8s.io/component-base/version.gitVersion=${version}"
  work="$(mktemp -d "${bin_dir}/realnode/.build.XXXXXX")"
  trap 'rm -rf "${work}"' EXIT
  # With the flags of the control plane, so that both share the build cache.
  GOFLAGS=-mod=readonly GOWORK=off go build -trimpath -ldflags "${flags}" -o "${work}/" tool ./coredns
  # The pause program is alone in its image, so it must be static.
  GOFLAGS=-mod=readonly GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "${work}/" ./pause
  mkdir -p "${out}"
  # Renamed one by one: a program that runs from here keeps its old file.
  for name in "${binaries[@]}"; do
    mv -f "${work}/${name}" "${out}/${name}"
  done
  echo "${stamp}" >"${out}/.stamp"
  echo "Built the programs of a real node in $((SECONDS - started)) s" >&2
}

if ! is_current; then
  mkdir -p "${bin_dir}/realnode"
  # Two callers at once must not both build.
  exec 9>"${bin_dir}/realnode/.lock"
  command -v flock >/dev/null && flock 9
  is_current || build
fi
