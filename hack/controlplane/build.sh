#!/usr/bin/env bash
# Builds the pinned control plane of the local cluster from the modules in this folder: etcd,
# kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok.
#
#   build.sh BIN_DIR
#
# The binaries land in BIN_DIR/controlplane/<kubernetes version>, and BIN_DIR/kubectl links to
# the kubectl among them. A stamp made from this folder decides whether there is anything to
# do, so calling it again costs nothing. The first build takes some minutes.
set -o errexit -o nounset -o pipefail

bin_dir="$(mkdir -p "${1:?usage: build.sh BIN_DIR}" && cd "$1" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")"

version="$(awk '$1 == "k8s.io/kubernetes" && $2 != "=>" { print $2; exit }' go.mod)"
out="${bin_dir}/controlplane/${version}"
binaries=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)

# The Go version is no part of the stamp: another compiler makes the same programs.
stamp="$(cat build.sh go.mod go.sum | sha256sum | cut -d ' ' -f 1)"

is_current() {
  [[ -f "${out}/.stamp" && "$(cat "${out}/.stamp")" == "${stamp}" ]] || return 1
  for name in "${binaries[@]}"; do
    [[ -x "${out}/${name}" ]] || return 1
  done
}

# The programs report the version of Kubernetes that they are, which kubectl insists on.
link_flags() {
  local major="${version#v}" minor
  major="${major%%.*}"
  minor="${version#v*.}"
  minor="${minor%%.*}"
  printf -- '-s -w'
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s' \
      "${package}" "${version}" "${package}" "${major}" "${package}" "${minor}"
  done
}

build() {
  if ! command -v go >/dev/null; then
    echo "build.sh: the Go toolchain is missing: install Go $(awk '$1 == "go" { print $2 }' go.mod) or later from https://go.dev/dl and put it on the PATH" >&2
    exit 1
  fi
  echo "Building the control plane ${version} into ${out} (some minutes the first time)" >&2
  local started="${SECONDS}"
  work="$(mktemp -d "${bin_dir}/controlplane/.build.XXXXXX")"
  trap 'rm -rf "${work}"' EXIT
  # One build for all, so that what they share is compiled once.
  GOFLAGS=-mod=readonly GOWORK=off go build -trimpath -ldflags "$(link_flags)" -o "${work}/" tool
  mv "${work}/server" "${work}/etcd" # etcd's main package is called server
  mkdir -p "${out}"
  # Renamed one by one: a program that runs from here keeps its old file.
  for name in "${binaries[@]}"; do
    mv -f "${work}/${name}" "${out}/${name}"
  done
  echo "${stamp}" >"${out}/.stamp"
  echo "Built the control plane in $((SECONDS - started)) s" >&2
}

link_kubectl() {
  local target="controlplane/${version}/kubectl"
  [[ "$(readlink "${bin_dir}/kubectl" || true)" == "${target}" ]] || ln -sfn "${target}" "${bin_dir}/kubectl"
}

if ! is_current; then
  mkdir -p "${bin_dir}/controlplane"
  # Two callers at once (tests and a demo, say) must not both build.
  exec 9>"${bin_dir}/controlplane/.lock"
  command -v flock >/dev/null && flock 9
  is_current || build
fi
link_kubectl
