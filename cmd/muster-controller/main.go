// Command muster-controller turns Jobs into PodGroups and pods, admits PodGroups to their Queues, and keeps Queues.
package main

import (
	"os"
	_ "time/tzdata" // the time zones of PhSchedules, on any machine

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"           // log format json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // metrics of the API clients and of leader election
	_ "k8s.io/component-base/metrics/prometheus/version"   // metric with the version
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // metrics of the work queues
)

func main() {
	os.Exit(cli.Run(newCommand()))
}
