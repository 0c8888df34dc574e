package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestTheCluster(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	job := s.CreateJob(mustertesting.MakeJob("job").Queue(s.Namespace).Label(schedulingv1beta1.UserLabel, "ann").
		Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3")))
	s.JobPhase(job, batchv1alpha1.Running)
	// Small pods of other tests may be on the node, too.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Regexp(c, s.Namespace+`-0 +ready +(5|4\d\d\dm)/8 `, muster(s, "cluster"))
	}, mustertesting.Timeout, mustertesting.Timeout/30)

	// Only the node of this test has this label.
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Pod
spec:
  nodeSelector: {muster.sh/e2e: `+s.Namespace+`}
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "2"}}}]
`), 0o600))
	assert.Contains(t, muster(s, "cluster", "--pod", file), "\nThe largest gang of such pods that would start now has 2: the nodes have room for 2.\n")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, muster(s, "cluster", "--pod", file, "-q", s.Namespace), "would start now has 0: the nodes have room for 2, queue "+s.Namespace+" for 0.\n")
	}, mustertesting.Timeout, mustertesting.Timeout/30)
	assert.Regexp(t, `would start now has [1-9]\d*: the nodes have room for [1-9]`, muster(s, "cluster", "--requests", "cpu=1"))
	for want, args := range map[string][]string{
		"there is no such queue":             {"cluster", "-R", "cpu=1", "-q", "no-such-queue"},
		"give --requests or --pod, not both": {"cluster", "-R", "cpu=1", "--pod", file},
		"no such file":                       {"cluster", "--pod", "missing.yaml"},
	} {
		got := called(s, "muster", args...)
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.err, want)
	}

	assert.Contains(t, muster(s, "cluster", "--pod", file, "-o", "yaml"), "largestGang:\n  onNodes: 2\n  size: 2\n")
	assert.Contains(t, muster(s, "explain", "job", "job", "-o", "yaml"), "\nphase: Running\n")
	assert.Contains(t, muster(s, "top", "-o", "yaml"), "\n- name: ann\n  pods: 1\n  queue: "+s.Namespace+"\n  used:\n    cpu: \"3\"\n")
	top := muster(s, "top")
	assert.Regexp(t, `(?m)^`+s.Namespace+` +75% of its cpu +3 cpu .* 1 +0 +- *$`, top)
	assert.Regexp(t, `(?m)^ann +`+s.Namespace+` +1 +3 cpu`, top)
}
