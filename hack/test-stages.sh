#!/usr/bin/env bash
# Runs the stages named as arguments and prints go test's events (JSON) on standard output, for hack/test.sh.
# Progress goes to descriptor 9.
set -uo pipefail

root=$PWD failed=0
# How many packages without a cluster are tested at a time.
unit_at_a_time=$(getconf _NPROCESSORS_ONLN)
# A package has the race detector if its code or its tests start goroutines. It also has it if they lock something and import what starts
# some. The detector sees all that they import, too. Other packages go without: they run in one goroutine, and the detector costs most.
starts='^[[:space:]]*go [a-zA-Z(]|/errgroup"|[.]Parallel\(\)'
locks='^(import )?[[:space:]]*"sync(/atomic)?"$'
starters='"(k8s[.]io/(apiserver|client-go|component-base|kube-scheduler|kubernetes)/.*|net/http(/.*)?)"$'
# The detector needs all dependencies built anew, and those of API servers take minutes: tests of whole programs go without as well. What runs
# concurrently there is in packages of its own.
heavy='^k8s.io/apiserver/pkg/server$'
# The replays of traces take seven minutes with the detector. They run the scheduler as the histories do, of which it sees some. The site is
# made in one goroutine, and another one only waits for a browser.
undetected='/(test/benchmark/traces|hack/site)$'
# Of random histories the detector sees a tenth (pkg/testing/histories.go): packages that have some run without it, too.
random='mustertesting[.]Histories\('
# These start clusters and take minutes each: the stage "long" runs them.
long='^github.com/muster-sched/muster/test/e2e/(chaos|skew)$'

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

# having reads lines of import path and folder, and prints the paths of the packages whose code has each of the patterns.
having() {
  local path dir pattern
  while read -r path dir; do
    for pattern in "$@"; do grep -qE "$pattern" "$dir"/*.go || continue 2; done
    echo "$path"
  done
}

# tested_units sets which packages have unit tests: packages with the race detector, packages without it, and packages with random
# histories, which run both ways.
tested_units() {
  local tested all whole concurrent
  # Packages without tests are left out: go test would build them, with the race detector too.
  tested=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./... |
    grep -vE '/test/(integration|e2e)(/| )|/pkg/client/') || failed=1
  all=$(cut -d' ' -f1 <<<"$tested" | sort)
  # "go list -test" gives for each tested package one named <package>.test with all that it needs.
  # shellcheck disable=SC2086 # one package per word
  whole=$(go list -test -f '{{if eq .Name "main"}}{{range .Deps}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}{{end}}' $all |
    awk -v heavy="$heavy" '$1 ~ /\.test$/ && $2 ~ heavy {sub(/\.test$/, "", $1); print $1}' | sort -u) || failed=1
  concurrent=$( (having "$starts" <<<"$tested"; having "$locks" "$starters" <<<"$tested") | sort -u)
  racy=$(comm -23 <(echo "$concurrent") <(echo "$whole") | grep -vE "$undetected")
  plain=$(comm -23 <(echo "$all") <(echo "$racy"))
  drawn=$(comm -12 <(having "$random" <<<"$tested" | sort) <(echo "$racy"))
}

# compiled compiles packages and their tests. Tests on clusters that wait for compilers judge the machine: nothing compiles beside them.
compiled() {
  say "== compile: $1"
  shift
  go list -export -test -deps "$@" >/dev/null || failed=1
}

unit() {
  # shellcheck disable=SC2086
  run_tests "unit, with the race detector" -race -p "$unit_at_a_time" -timeout 20m $racy
  # The histories run the scheduler without a cluster. What takes longest comes first.
  # shellcheck disable=SC2086
  run_tests "unit, without it" -p "$unit_at_a_time" -timeout 20m ./test/integration/histories $drawn $plain
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

# with_clusters prints the packages of the stages named that start clusters of their own, the longest first.
with_clusters() {
  [[ " $* " != *" integration "* ]] || go list ./test/integration/scheduler ./test/integration/makers
  [[ " $* " != *" e2e "* ]] || go list ./test/e2e/... | grep -vE "$long"
  [[ " $* " != *" integration "* ]] || go list ./test/integration/... | grep -vE "/integration/histories$"
}

# clusters runs these packages. They wait most of their time: three at a time, even on one core. No cached results: go test does not see the
# programs that these tests start.
clusters() {
  # shellcheck disable=SC2046 # one package per word
  run_tests "on clusters: $*" -p 3 -count 1 -timeout 20m $(with_clusters "$@")
}

# long runs what takes minutes each: programs that are killed at random moments, older releases, and the installed chart.
long() {
  # shellcheck disable=SC2046 # one package per word
  run_tests "long" -p 2 -count 1 -timeout 20m $(go list ./test/e2e/... | grep -E "$long")
  cd "$root/test/chart"
  run_tests "long, chart" -count 1 -timeout 20m ./install
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

alone=() on_clusters=() running=""
for stage in "$@"; do
  case $stage in
    unit | long | real) alone+=("$stage") ;;
    integration | e2e) on_clusters+=("$stage") ;;
    *) echo "there is no stage $stage: use unit, integration, e2e, long or real" >&2; failed=1 ;;
  esac
done
racy="" plain="" drawn=""
if [[ " ${alone[*]} " == *" unit "* ]]; then
  tested_units
  # shellcheck disable=SC2086 # one package per word
  compiled "unit tests with the race detector" -race $racy
  # shellcheck disable=SC2086
  compiled "unit tests without it" ./test/integration/histories $plain
fi
# Clusters wait a part of their time, and unit tests compute: they run side by side. The events of one stage must not come in the middle of
# another's lines, so those of the clusters come last.
if [[ ${#on_clusters[@]} -gt 0 ]]; then
  # shellcheck disable=SC2046
  compiled "tests on clusters" $(with_clusters "${on_clusters[@]}")
  events=$(mktemp)
  (clusters "${on_clusters[@]}"; exit "$failed") >"$events" &
  running=$! unit_at_a_time=1
fi
for stage in "${alone[@]}"; do "$stage"; done
if [[ -n $running ]]; then
  wait "$running" || failed=1
  cat "$events"
fi
exit "$failed"
