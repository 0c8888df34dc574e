#!/usr/bin/env bash
# Runs the tests in real containers (test/real), and fails if mounts, network namespaces, interfaces or control groups are left.
# hack/test.sh does so if processes or files are left.
#   hack/test-real.sh        fails where the tests cannot run, and says why on one line
#   hack/test-real.sh --ci   installs the Debian packages that are missing if it can, and succeeds where the tests cannot run
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

# Tests that hang are ended after this time. They take some ten minutes once all is downloaded and built.
limit=30m
ci=${1:-}

not_run() {
  echo "make test-real: not run: $1"
  [[ $ci == --ci ]] && exit 0
  exit 1
}

[[ $ci != --ci || ! -e /sys/fs/cgroup/cgroup.controllers ]] || not_run "this machine has cgroup v2, and the tests have only run with v1"

if [[ $ci == --ci && $EUID == 0 ]] && command -v apt-get >/dev/null; then
  read -ra packages < <(go run ./test/real/prepare --packages)
  if [[ ${#packages[@]} -gt 0 ]]; then
    echo "installing ${packages[*]}"
    # What could not be installed is named below.
    { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "${packages[@]}"; } >/dev/null 2>&1 || true
  fi
fi
why=$(go run ./test/real/prepare)
[[ -z $why ]] || not_run "$why"
hack/realnode/build.sh bin
make image

# state prints what a node could leave on the machine, outside of its folder.
state() {
  cut -d ' ' -f 5- /proc/self/mountinfo
  ip -brief link | cut -d ' ' -f 1
  find /run/netns /sys/fs/cgroup -maxdepth 2 \( -path '/run/netns/*' -o -name 'muster-*' \) 2>/dev/null || true
}

before=$(state)
result=0
timeout "$limit" hack/test.sh real || result=$?
[[ $result != 124 ]] || echo "the tests were ended after $limit" >&2
left=$(comm -13 <(sort <<<"$before") <(state | sort))
if [[ -n $left ]]; then
  echo "the tests left behind: $left" >&2
  result=1
fi
exit "$result"
