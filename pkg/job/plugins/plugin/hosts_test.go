package plugin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// The lengths that decide must be the lengths of the names that are built later.
func TestLengthsOfHostsAreThoseOfTheirNames(t *testing.T) {
	for _, c := range []struct {
		replicas            int32
		hostname, subdomain string
	}{
		{replicas: -1}, {replicas: 0}, {replicas: 1}, {replicas: 9}, {replicas: 10}, {replicas: 11}, {replicas: 100}, {replicas: 101},
		{replicas: 12345}, {replicas: 1000, subdomain: "other"}, {replicas: 7, hostname: "boss"}, {replicas: 0, hostname: "boss"},
	} {
		job := &batchv1alpha1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}}
		task := &batchv1alpha1.TaskSpec{Name: "worker", Replicas: c.replicas}
		task.Template.Spec = corev1.PodSpec{Hostname: c.hostname, Subdomain: c.subdomain}
		hosts := HostsOf(job, task)

		var names, addresses []string
		for peer := range hosts.All() {
			names, addresses = append(names, peer.Host), append(addresses, peer.Address())
		}
		assert.Len(t, names, hosts.Count(), "%+v", c)
		assert.Len(t, strings.Join(names, ""), hosts.NameBytes(), "%+v", c)
		assert.Len(t, strings.Join(addresses, ""), hosts.AddressBytes(), "%+v", c)
		assert.Equal(t, strings.Join(addresses, "\n"), hosts.List("\n"), "%+v", c)
		assert.Len(t, strings.Join(addresses, ", "), hosts.ListBytes(", "), "%+v", c)
	}
}
