#!/usr/bin/env bash
# Records the metrics of both programs on a local cluster under a small load. The tests of dashboards and alerts in test/monitoring read
# them, and draw the pictures of the dashboards. Run it when a dashboard or an alert asks for a new metric. It takes some three minutes and needs the programs in bin/ (make build).
set -euo pipefail
cd "$(dirname "$0")/.."
source hack/env.sh

data=$PWD/test/monitoring/testdata
dir=$(mktemp -d)
recorder=
finish() {
  [[ -z $recorder ]] || kill -INT "$recorder" 2>/dev/null || true
  bin/muster local down --dir "$dir/cluster" >/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT

go build -C test/monitoring -o "$dir/record" ./record
bin/muster local up --dir "$dir/cluster" --nodes 4 --node-resource nvidia.com/gpu=4 --timeout 10m
export KUBECONFIG=$dir/cluster/kubeconfig
"$dir/record" --config "$dir/cluster/prometheus.yml" --out "$data/samples.txt" --pages "$data" &
recorder=$!

# is NAME PHASE waits until a Job is in a phase.
is() { bin/kubectl wait "vcjob/$1" --for "jsonpath={.status.state.phase}=$2" --timeout 900s; }

bin/kubectl apply -f manifests/examples/sharing.yaml -f "$data/load.yaml"
is blue-sweep Running
is green-service Running
for wave in 1 2 3 4; do
  bin/kubectl create -f "$data/wave.yaml"
  sleep 20
  [[ $wave != 2 ]] || bin/kubectl apply -f manifests/examples/takes-back.yaml
done
is red-training Running
bin/muster job suspend red-training
is red-training Aborted
for wave in 5 6 7 8; do
  bin/kubectl create -f "$data/wave.yaml"
  sleep 20
done
kill -INT "$recorder"
wait "$recorder"
recorder=
go -C test/monitoring test . -run Pictures -update
