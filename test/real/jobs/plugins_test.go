//go:build real

package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// report is what the checker prints of its container.
type report struct {
	Hostname string
	Env      map[string]string
	Hosts    map[string][]string
	Peers    []string
}

// workers are the addresses of all workers at the checker's own port.
const workers = `$(sed 's/$/:7000/' /etc/volcano/worker.host)`

// TestServiceNames resolves each name of the hosts files in each pod, and gets an answer from each.
func TestServiceNames(t *testing.T) {
	s := begin(t)
	job := create(s, mustertesting.MakeJob("names").Plugin("svc").Plugin("env").
		Task(shell("first", 1, "checker")).Task(shell("worker", 3, "checker")))
	reports := meet(s, job, map[string]int{"first": 1, "worker": 3})
	for pod, r := range reports {
		assert.Equal(t, pod, r.Hostname)
		assert.Equal(t, []string{"names-first-0.names"}, r.Hosts["first.host"])
		assert.Len(t, r.Hosts["worker.host"], 3)
		assert.Equal(t, strings.Join(r.Hosts["worker.host"], ","), r.Env["VC_WORKER_HOSTS"])
		assert.Equal(t, "3", r.Env["VC_WORKER_NUM"])
		assert.Equal(t, pod[strings.LastIndex(pod, "-")+1:], r.Env["VC_TASK_INDEX"])
		assert.Equal(t, r.Env["VC_TASK_INDEX"], r.Env["VK_TASK_INDEX"])
	}
}

// TestPyTorch lets the ranks meet at the master's address and port.
func TestPyTorch(t *testing.T) {
	s := begin(t)
	const line = `checker "$MASTER_ADDR:$MASTER_PORT" ` + workers
	job := create(s, mustertesting.MakeJob("torch").Plugin("pytorch").Plugin("svc").
		Task(shell("master", 1, line)).Task(shell("worker", 2, line)))
	reports := meet(s, job, map[string]int{"master": 1, "worker": 2})
	var ranks []string
	for _, r := range reports {
		ranks = append(ranks, r.Env["RANK"])
		assert.Equal(t, "3", r.Env["WORLD_SIZE"])
	}
	assert.ElementsMatch(t, []string{"0", "1", "2"}, ranks)
	assert.Equal(t, "0", reports["torch-master-0"].Env["RANK"], "the rank that the others look for")
}

// TestTensorFlow lets the processes meet at the addresses of TF_CONFIG.
func TestTensorFlow(t *testing.T) {
	s := begin(t)
	const line = `checker $(echo "$TF_CONFIG" | grep -oE '[a-z0-9-]+\.[a-z0-9.-]+:[0-9]+')`
	job := create(s, mustertesting.MakeJob("flow").Plugin("tensorflow").Plugin("svc").
		Task(shell("ps", 1, line)).Task(shell("worker", 2, line)))
	reports := meet(s, job, map[string]int{"ps": 1, "worker": 2})
	for pod, r := range reports {
		var config struct {
			Cluster map[string][]string
			Task    struct {
				Type  string
				Index int
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.Env["TF_CONFIG"]), &config))
		assert.Equal(t, pod, fmt.Sprintf("flow-%s-%d", config.Task.Type, config.Task.Index))
		own := config.Cluster[config.Task.Type][config.Task.Index]
		assert.True(t, strings.HasPrefix(own, pod+"."), "%s is said to be at %s", pod, own)
		assert.ElementsMatch(t, r.Peers, slices.Concat(config.Cluster["ps"], config.Cluster["worker"]))
	}
}

// TestRay lets head and workers meet at the addresses in the commands that the plugin gives them.
func TestRay(t *testing.T) {
	s := begin(t)
	head, worker := shell("head", 1, "exit 9"), shell("worker", 2, "exit 9")
	wrapper := mustertesting.MakeJob("ray").Plugin("ray", "--headContainer=main", "--workerContainer=main").Plugin("svc").Task(head).Task(worker)
	reports := meet(s, create(s, wrapper), map[string]int{"head": 1, "worker": 2})
	for _, r := range reports {
		assert.Contains(t, r.Peers, "ray-head-0.ray:6379")
	}
}

// meet waits until all pods of a Job have met, and returns their reports by pod. All must have been given the same peers.
func meet(s *harness.Story, job string, replicas map[string]int) map[string]report {
	s.T.Helper()
	awaitPhase(s, job, batchv1alpha1.Completed)
	reports := map[string]report{}
	var peers []string
	for task, count := range replicas {
		for i := range count {
			pod := fmt.Sprintf("%s-%s-%d", job, task, i)
			var r report
			require.NoError(s.T, json.Unmarshal([]byte(logOf(s, pod)), &r), pod)
			if peers == nil {
				peers = r.Peers
			}
			assert.Equal(s.T, peers, r.Peers, "%s was given other peers", pod)
			reports[pod] = r
		}
	}
	return reports
}
