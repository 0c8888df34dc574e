#!/usr/bin/env bash
# Runs the demo and a part of the tests on older releases of Kubernetes, with Muster beside the cluster's own scheduler.
#   hack/test-skew.sh [MINOR ...]      such as v1.36; without arguments: all in hack/controlplane
# It prints a line for each release at the end. docs/install.md has the last results.
set -uo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

# Left out are tests of the default profile, because the cluster's own scheduler serves it here. Tests that look at defaults on objects
# are left out too, because 1.35 does not write them.
stories='TestAGang|TestTwoGangs|TestSurplus|TestAPodGroup|TestRoomThatIsFreed|TestOrdinaryPods|TestAQueues|TestPolicies|TestCommands|TestJobsOfAHigher'
stories+='|TestExampleOf(Dependencies|MPI|Scaling|Retries|DistributedTraining|Spark)$|TestAnInvalidJob|TestTheSchedulerIsKilled'
rules='TestEveryRule|TestCRDs|TestBounds|TestRules'
# 1.35 gives tasks no names, so its message names none.
unnamed="TestRulesRefuseWhatBreaksThem/a_task's_minAvailable"

mapfile -t minors < <(if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; else cd hack/controlplane && ls -d v*/ | tr -d / | sort -rV; fi)
results=() failed=0
for minor in "${minors[@]}"; do
  version=$(awk '$1 == "k8s.io/kubernetes" && $2 != "=>" {print $2; exit}' "hack/controlplane/$minor/go.mod")
  hack/controlplane/build-older.sh bin "$minor" || exit 1
  export MUSTER_KUBERNETES_VERSION=$version
  started=$SECONDS result=passed
  go test -count 1 -p 1 -timeout 30m ${GO_TEST_FLAGS:-} ./test/e2e/skew ./test/e2e/demo ./test/e2e/migrate ./test/integration/install || result=FAILED
  go test -count 1 -timeout 30m ${GO_TEST_FLAGS:-} -run "$stories" ./test/e2e || result=FAILED
  go test -count 1 -timeout 30m ${GO_TEST_FLAGS:-} -run "$rules" -skip "$unnamed" ./test/integration/api || result=FAILED
  (cd test/chart && go test -count 1 -timeout 30m ${GO_TEST_FLAGS:-} ./install) || result=FAILED
  [[ $result == passed ]] || failed=1
  results+=("Kubernetes $version: $result in $((SECONDS - started)) s")
done
printf '%s\n' "${results[@]}"
exit "$failed"
