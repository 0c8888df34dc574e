#!/usr/bin/env bash
# Generates deepcopy functions, typed clients, listers, informers and CRDs from the API types.
# hack/verify-codegen.sh is its twin: it fails when the result differs from what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/muster-sched/muster
apis=$module/pkg/apis
versions="batch/v1alpha1 scheduling/v1beta1 bus/v1alpha1 primehub/v1alpha1 topology/v1alpha1 muster/v1alpha1"
tools=$PWD/bin/tools

mkdir -p "$tools"
(cd hack/tools && go build -o "$tools/" \
  sigs.k8s.io/controller-tools/cmd/controller-gen \
  k8s.io/code-generator/cmd/{deepcopy,client,lister,informer}-gen)

boilerplate=hack/boilerplate.go.txt
packages=()
inputs=()
for version in $versions; do
  packages+=("$apis/$version")
  inputs+=(--input "$version")
done

"$tools/deepcopy-gen" --go-header-file "$boilerplate" --output-file zz_generated.deepcopy.go "${packages[@]}" "$apis/config" "$apis/config/v1"

rm -rf pkg/client
"$tools/client-gen" --go-header-file "$boilerplate" --clientset-name versioned --input-base "$apis" "${inputs[@]}" \
  --output-dir pkg/client/clientset --output-pkg $module/pkg/client/clientset
"$tools/lister-gen" --go-header-file "$boilerplate" \
  --output-dir pkg/client/listers --output-pkg $module/pkg/client/listers "${packages[@]}"
"$tools/informer-gen" --go-header-file "$boilerplate" \
  --versioned-clientset-package $module/pkg/client/clientset/versioned \
  --listers-package $module/pkg/client/listers \
  --output-dir pkg/client/informers --output-pkg $module/pkg/client/informers "${packages[@]}"

mkdir -p manifests/crds
# Dangerous types are fractions: PrimeHub writes limits.cpu of an InstanceType as a JSON number.
rm -f manifests/crds/*.yaml
"$tools/controller-gen" crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true,headerFile=/dev/null \
  paths=./pkg/apis/batch/... paths=./pkg/apis/scheduling/... paths=./pkg/apis/bus/... \
  paths=./pkg/apis/primehub/... paths=./pkg/apis/topology/... paths=./pkg/apis/muster/... output:crd:dir=manifests/crds
# The pod template's own documentation would push the CRD over what "kubectl apply" can store in its annotation;
# "kubectl explain pod" has it.
go run ./hack/crdtrim manifests/crds/*.yaml
