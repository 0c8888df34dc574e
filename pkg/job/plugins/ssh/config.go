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

// newKeyBytes is more than the files of a new key take in the Secret.
const newKeyBytes = 8 << 10

// start is the beginning of ssh's configuration. The pods' own keys are made when they start, so they cannot be known beforehand.
const start = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"

// checkConfig tells whether ssh's configuration has an entry for each host. If that is more than the Secret can hold, it has one for all
// hosts of each task. A note says so. It builds none of them.
func checkConfig(r *plugin.Request, port int, given map[string][]byte) (eachHost bool) {
	room := plugin.MaxObjectBytes - max(newKeyBytes, keyBytes(given))
	size := len(start)
	entry := len(entryOf("", "", port))
	for i := range r.Job.Spec.Tasks {
		hosts := plugin.HostsOf(r.Job, &r.Job.Spec.Tasks[i])
		size += hosts.Count()*entry + hosts.NameBytes() + hosts.AddressBytes()
	}
	if size <= room {
		return true
	}
	r.Note(plugin.ReasonTooLong, "the config in Secret %s has one entry for each task: one for each host would be %d bytes, and there is room for %d",
		secretName(r.Job), size, room)
	return false
}

func keyBytes(data map[string][]byte) int {
	var sum int
	for _, content := range data {
		sum += len(content)
	}
	return sum
}

func entryOf(host, address string, port int) string {
	return "Host " + host + "\n  HostName " + address + "\n  Port " + strconv.Itoa(port) + "\n"
}

// hostConfig has an entry for each host.
func hostConfig(job *batchv1alpha1.Job, port int) []byte {
	config := bytes.NewBufferString(start)
	for i := range job.Spec.Tasks {
		for peer := range plugin.HostsOf(job, &job.Spec.Tasks[i]).All() {
			config.WriteString(entryOf(peer.Host, peer.Address(), port))
		}
	}
	return config.Bytes()
}

// patternConfig says the same about a Job of any size. The first entry that matches counts, so that a name which
// begins with another one stands before it.
func patternConfig(job *batchv1alpha1.Job, port int) []byte {
	tasks := make([]*batchv1alpha1.TaskSpec, len(job.Spec.Tasks))
	for i := range tasks {
		tasks[i] = &job.Spec.Tasks[i]
	}
	slices.SortStableFunc(tasks, func(a, b *batchv1alpha1.TaskSpec) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	config := bytes.NewBufferString(start)
	for _, task := range tasks {
		if host := task.Template.Spec.Hostname; host != "" {
			config.WriteString(entryOf(host, plugin.PeerAt(job, task, 0).Address(), port))
			continue
		}
		config.WriteString(entryOf(fmt.Sprintf("%s-%s-*", job.Name, task.Name), "%h."+plugin.Subdomain(job, task), port))
	}
	return config.Bytes()
}
