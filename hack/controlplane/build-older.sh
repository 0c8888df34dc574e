#!/usr/bin/env bash
# Builds the kube-apiserver, kube-controller-manager and kube-scheduler of an older release of Kubernetes.
#
#   build-older.sh BIN_DIR MINOR      MINOR is a folder here, such as v1.36
#
# They land in BIN_DIR/controlplane/<kubernetes version>. That release then runs with the etcd and KWOK of the pinned one. The Go command
# decides whether there is anything to do.
set -o errexit -o nounset -o pipefail

bin_dir="$(mkdir -p "${1:?usage: build-older.sh BIN_DIR MINOR}" && cd "$1" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")/${2:?usage: build-older.sh BIN_DIR MINOR}"

version="$(awk '$1 == "k8s.io/kubernetes" && $2 != "=>" { print $2; exit }' go.mod)"
IFS=. read -r major minor _ <<<"${version#v}"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X ${package}.gitVersion=${version} -X ${package}.gitMajor=${major} -X ${package}.gitMinor=${minor}"
done
mkdir -p "${bin_dir}/controlplane/${version}"
GOFLAGS=-mod=readonly GOWORK=off go build -trimpath -ldflags "${flags}" -o "${bin_dir}/controlplane/${version}/" tool
