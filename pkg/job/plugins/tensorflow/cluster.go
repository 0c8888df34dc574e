package tensorflow

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// cluster is the part of TF_CONFIG that is the same for all pods: the servers of each role. It is written only where
// it is needed and fits.
type cluster struct {
	roles []role
	port  string // with its colon
}

// role is one that the Job has a task for.
type role struct {
	name  string
	hosts plugin.Hosts
}

// clusterOf returns the cluster of the Job's tasks with the given names. Its roles stand in the order in which TF_CONFIG has them.
func clusterOf(r *plugin.Request, port int32, ps, worker, chief, evaluator string) cluster {
	c := cluster{port: ":" + strconv.Itoa(int(port))}
	for _, one := range []struct{ role, task string }{{"ps", ps}, {"worker", worker}, {"chief", chief}, {"evaluator", evaluator}} {
		if task := r.Task(one.task); task != nil && task.Replicas > 0 {
			c.roles = append(c.roles, role{one.role, plugin.HostsOf(r.Job, task)})
		}
	}
	return c
}

// bytes is the length of the cluster as JSON. Host names that JSON must escape make it longer: no pod has such a name.
func (c cluster) bytes() int {
	size := len("{}") + max(len(c.roles)-1, 0)
	for _, one := range c.roles {
		size += len(one.name) + len(`"":[]`) + one.hosts.ListBytes(",") + one.hosts.Count()*(len(`""`)+len(c.port))
	}
	return size
}

// json returns the cluster as JSON.
func (c cluster) json() string {
	parts := make([]string, len(c.roles))
	for i, one := range c.roles {
		servers := make([]string, 0, one.hosts.Count())
		for peer := range one.hosts.All() {
			servers = append(servers, peer.Address()+c.port)
		}
		list, err := json.Marshal(servers)
		if err != nil {
			panic(err) // every list of strings can be written as JSON
		}
		parts[i] = `"` + one.name + `":` + string(list)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
