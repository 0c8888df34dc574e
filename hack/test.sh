#!/usr/bin/env bash
# Runs the tests, stage by stage, and ends with one summary.
#   hack/test.sh [unit|integration|e2e|long|real ...]      without arguments: the first three. hack/test-real.sh runs real
# GO_TEST_FLAGS are further flags of go test (-run, -v, ...). Results are also written to test-results/, those of "long" to files of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

stages=("$@")
[[ ${#stages[@]} -gt 0 ]] || stages=(unit integration e2e)

results=test-results/
[[ ${stages[*]} != long ]] || results=test-results/long-
mkdir -p test-results
hack/build-tool.sh gotestsum

# Everything that the tests start inherits this mark, so that what they leave behind can be found.
mark="MUSTER_TEST_RUN=$$-$SRANDOM"

# Programs that live for minutes and hold little collect their garbage too often: less often, the clusters of the tests take a fifth less
# processor time. Beyond 1.5 GiB each collects as usual. Only API servers come near that.
export GOGC="${GOGC:-800}" GOMEMLIMIT="${GOMEMLIMIT:-1536MiB}"

# Temporary files go where an interrupted run can clear them away, too. Results of tests that ask for the folder are cached only if its name
# stays the same. A run beside another one takes another folder.
scratch=${TMPDIR:-/tmp}/muster-tests-$UID
mkdir -m 700 "$scratch" 2>/dev/null || scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# marked_processes prints the ids of processes that carry the mark. Where there is no /proc it finds none.
marked_processes() {
  { grep -lzxF "$mark" /proc/[0-9]*/environ || true; } 2>/dev/null | cut -d/ -f3
}

# leave_nothing_behind waits for what was started to end, ends what has not, and fails if there was any.
leave_nothing_behind() {
  local deadline=$((SECONDS + 20)) left
  while left=$(marked_processes); [[ -n $left && $SECONDS -lt $deadline ]]; do sleep 0.5; done
  [[ -n $left ]] || return 0
  echo "the tests left processes behind, which are ended now:" >&2
  ps -o pid=,args= -p "${left//$'\n'/,}" >&2 || true
  # shellcheck disable=SC2086 # one id per word
  kill -KILL $left 2>/dev/null || true
  return 1
}

# The run has a process group of its own, so that an interrupt reaches all of it.
set -m
interrupted() {
  trap '' INT TERM HUP
  echo "interrupted: stopping the tests" >&2
  kill -TERM -- "-$run" 2>/dev/null || true
  wait "$run" 2>/dev/null || true
  leave_nothing_behind || true
  exit 130
}

# Descriptor 9 is where the stages tell how far they are; gotestsum reads their standard output.
env "$mark" TMPDIR="$scratch" bin/tools/gotestsum --format pkgname --format-hide-empty-pkg --junitfile "${results}junit.xml" \
  --jsonfile "${results}events.json" --raw-command -- hack/test-stages.sh "${stages[@]}" 9>&1 </dev/null &
run=$!
trap interrupted INT TERM HUP
result=0
wait "$run" || result=$?
trap - INT TERM HUP

leave_nothing_behind || result=1
exit "$result"
