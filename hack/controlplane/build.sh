#!/usr/bin/env bash
# Builds the pinned control plane of the local cluster: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok.
#
#   build.sh BIN_DIR [PROGRAM...]      without programs: all
#
# They land in BIN_DIR/controlplane/<kubernetes version>, and BIN_DIR/kubectl links to the kubectl among them. The module of Muster pins
# them, so that what they share with our programs is compiled once. A stamp of each program decides whether there is anything to do, so
# calling it again costs nothing. The first build takes some minutes.
set -o errexit -o nounset -o pipefail

bin_dir="$(mkdir -p "${1:?usage: build.sh BIN_DIR [PROGRAM...]}" && cd "$1" && pwd)"
programs=("${@:2}")
[[ ${#programs[@]} -gt 0 ]] || programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source hack/env.sh

version="$(awk '$1 == "k8s.io/kubernetes" && $2 != "=>" { print $2; exit }' go.mod)"
out="${bin_dir}/controlplane/${version}"

# The Go version is no part of the stamp: another compiler makes the same programs.
stamp="$(cat hack/controlplane/build.sh go.mod go.sum | sha256sum | cut -d ' ' -f 1)"

# missing lists the programs that are not there, or that other modules than today's made.
missing() {
  local name
  for name in "${programs[@]}"; do
    [[ -x "${out}/${name}" && -f "${out}/.${name}.stamp" && "$(cat "${out}/.${name}.stamp")" == "${stamp}" ]] || echo "${name}"
  done
}

package_of() {
  case "$1" in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) echo "k8s.io/kubernetes/cmd/$1" ;;
    *) echo "build.sh: no program of the control plane is called $1" >&2 && return 1 ;;
  esac
}

# The programs report the version of Kubernetes that they are, which kubectl insists on.
link_flags() {
  local major minor package
  IFS=. read -r major minor _ <<<"${version#v}"
  printf -- '-s -w'
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s' \
      "${package}" "${version}" "${package}" "${major}" "${package}" "${minor}"
  done
}

# build NAME... builds these programs in one go.
build() {
  if ! command -v go >/dev/null; then
    echo "build.sh: the Go toolchain is missing: install Go $(awk '$1 == "go" { print $2 }' go.mod) or later from https://go.dev/dl and put it on the PATH" >&2
    exit 1
  fi
  local started="${SECONDS}" name package packages=()
  for name in "$@"; do
    package="$(package_of "${name}")"
    packages+=("${package}")
  done
  echo "Building $* ${version} into ${out} (some minutes the first time)" >&2
  work="$(mktemp -d "${bin_dir}/controlplane/.build.XXXXXX")"
  trap 'rm -rf "${work}"' EXIT
  hack/compile.sh "${work}" "$(link_flags)" "${packages[@]}"
  [[ ! -e "${work}/server" ]] || mv "${work}/server" "${work}/etcd" # etcd's main package is called server
  mkdir -p "${out}"
  # Renamed one by one: a program that runs from here keeps its old file.
  for name in "$@"; do
    mv -f "${work}/${name}" "${out}/${name}"
    echo "${stamp}" >"${out}/.${name}.stamp"
  done
  echo "Built the control plane in $((SECONDS - started)) s" >&2
}

link_kubectl() {
  local target="controlplane/${version}/kubectl"
  [[ "$(readlink "${bin_dir}/kubectl" || true)" == "${target}" ]] || ln -sfn "${target}" "${bin_dir}/kubectl"
}

# current builds what is missing.
current() {
  local names
  mapfile -t names < <(missing)
  [[ ${#names[@]} -eq 0 ]] || build "${names[@]}"
}

if [[ -n "$(missing)" ]]; then
  mkdir -p "${bin_dir}/controlplane"
  # Two callers at once (tests and a demo, say) must not both build.
  exec 9>"${bin_dir}/controlplane/.lock"
  command -v flock >/dev/null && flock 9
  current
fi
link_kubectl
