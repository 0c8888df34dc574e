#!/usr/bin/env bash
# Runs the stages named as arguments and prints go test's events (JSON) on standard output, for hack/test.sh.
# Progress goes to descriptor 9.
set -uo pipefail

root=$PWD failed=0
# The race detector needs all dependencies built anew, and those of API servers take minutes: tests of whole programs go
# without; what runs concurrently is in packages of its own.
heavy='^k8s.io/apiserver/pkg/server$'

say() { echo "$@" >&9; }

# run_tests NAME FLAGS... runs go test with the flags. It does not vet, which would take a quarter of the time: "make verify" does.
run_tests() {
  local name=$1
  shift
  say "== $name"
  # shellcheck disable=SC2086 # GO_TEST_FLAGS is a list
  go test -json -vet=off ${GO_TEST_FLAGS:-} "$@" | tee >(progress "$name" >&9) || failed=1
}

# progress prints a line for each finished top-level test of the slow stages, from the events on its standard input.
progress() {
  if [[ $1 == unit* ]]; then cat >/dev/null; return; fi
  local script='s/.*"Action":"(pass|fail|skip)".*"Test":"([^"\/]+)".*"Elapsed":([0-9.]+).*/   \1 \2 (\3s)/p'
  # These tests print figures, such as how long a takeover lasts.
  [[ $1 != real ]] || script+='; s/.*"Action":"output".*"Output":" +[a-z_]+_test\.go:[0-9]+: (.*)\\n"\}/     \1/p'
  sed -nuE "$script"
}

unit() {
  local all racy plain
  # Packages without tests are left out: go test would build them, with the race detector too.
  all=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/test/(integration|e2e)(/|$)|/pkg/client/') || failed=1
  # "go list -test" gives for each tested package one named <package>.test with all that it needs.
  # shellcheck disable=SC2086 # one package per word
  plain=$(go list -test -f '{{if eq .Name "main"}}{{range .Deps}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}{{end}}' $all |
    awk -v heavy="$heavy" '$1 ~ /\.test$/ && $2 ~ heavy {sub(/\.test$/, "", $1); print $1}' | sort -u) || failed=1
  racy=$(comm -23 <(sort <<<"$all") <(echo "$plain"))
  # shellcheck disable=SC2086
  run_tests "unit, with the race detector" -race -timeout 10m $racy
  # shellcheck disable=SC2086
  [[ -z $plain ]] || run_tests "unit, whole programs" -timeout 10m $plain
  # Modules of their own. The other package of the first is the benchmark itself. The last two read files outside of their modules, which the
  # cache of results does not see.
  cd "$root/test/benchmark/perf"
  run_tests "unit, benchmarks" .
  cd "$root/hack/image"
  run_tests "unit, image" .
  cd "$root/hack/vulnerabilities"
  run_tests "unit, vulnerabilities" .
  cd "$root/hack/krew"
  run_tests "unit, krew" .
  cd "$root/test/monitoring"
  run_tests "unit, monitoring" -count 1 ./...
  cd "$root/test/chart"
  run_tests "unit, chart" -count 1 .
  cd "$root"
}

# clusters runs the packages that start clusters of their own. They wait most of their time: two at a time, even on one core, the longest
# first. No cached results: go test does not see the programs that these tests start.
clusters() {
  local packages=()
  [[ " $* " != *" integration "* ]] || packages+=(./test/integration/scheduler)
  [[ " $* " != *" e2e "* ]] || packages+=(./test/e2e/...)
  [[ " $* " != *" integration "* ]] || packages+=(./test/integration/...)
  run_tests "on clusters: $*" -p 2 -count 1 -timeout 20m "${packages[@]}"
  [[ " $* " == *" integration "* ]] || return 0
  cd "$root/test/chart"
  run_tests "on clusters, chart" -count 1 -timeout 20m ./install
  cd "$root"
}

# real runs one package at a time: each has a real node. The tests may leave no file: those of failed tests are for the reader.
real() {
  run_tests real -tags real -p 1 -count 1 -timeout 25m ./test/real/...
  local left
  left=$(find "$TMPDIR" -mindepth 1 -maxdepth 1)
  if [[ $failed == 0 && -n $left ]]; then
    say "the tests left files behind: $left"
    failed=1
  fi
}

on_clusters=()
for stage in "$@"; do
  case $stage in
    unit | real) "$stage" ;;
    integration | e2e) on_clusters+=("$stage") ;;
    *) echo "there is no stage $stage: use unit, integration, e2e or real" >&2; failed=1 ;;
  esac
done
[[ ${#on_clusters[@]} -eq 0 ]] || clusters "${on_clusters[@]}"
exit "$failed"
