package ssh

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// rsaKeyBytes is more than the files of a new key take in the Secret.
const rsaKeyBytes = 8 << 10

// configOf returns ssh's configuration: an entry for each host or, where that would be more than a Secret can hold,
// an entry for all hosts of each task.
func configOf(r *plugin.Request, port int, given map[string][]byte) []byte {
	room := plugin.MaxObjectBytes - max(rsaKeyBytes, keyBytes(given))
	config := startConfig()
	for i := range r.Job.Spec.Tasks {
		for _, peer := range plugin.PeersOf(r.Job, &r.Job.Spec.Tasks[i]) {
			addHost(config, peer.Host, peer.Address(), port)
		}
	}
	if config.Len() <= room {
		return config.Bytes()
	}
	r.Note(plugin.ReasonTooLong, "the config in Secret %s has one entry for each task: one for each host would be %d bytes, and there is room for %d",
		secretName(r.Job), config.Len(), room)
	return patternConfig(r.Job, port)
}

func keyBytes(data map[string][]byte) int {
	var sum int
	for _, content := range data {
		sum += len(content)
	}
	return sum
}

func startConfig() *bytes.Buffer {
	config := &bytes.Buffer{}
	// The pods' own keys are made when they start, so nobody can know them beforehand.
	config.WriteString("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
	return config
}

func addHost(config *bytes.Buffer, host, address string, port int) {
	config.WriteString("Host " + host + "\n  HostName " + address + "\n  Port " + strconv.Itoa(port) + "\n")
}

// patternConfig says the same about a Job of any size. The first entry that matches counts, so that a name which
// begins with another one stands before it.
func patternConfig(job *batchv1alpha1.Job, port int) []byte {
	tasks := make([]*batchv1alpha1.TaskSpec, len(job.Spec.Tasks))
	for i := range tasks {
		tasks[i] = &job.Spec.Tasks[i]
	}
	slices.SortStableFunc(tasks, func(a, b *batchv1alpha1.TaskSpec) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	config := startConfig()
	for _, task := range tasks {
		if host := task.Template.Spec.Hostname; host != "" {
			addHost(config, host, plugin.PeerAt(job, task, 0).Address(), port)
			continue
		}
		addHost(config, fmt.Sprintf("%s-%s-*", job.Name, task.Name), "%h."+plugin.Subdomain(job, task), port)
	}
	return config.Bytes()
}
