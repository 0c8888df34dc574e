package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// give gives a user the role view, as clusters have it, in the namespace of a story.
func give(s *harness.Story, user string) {
	s.T.Helper()
	_, err := s.Kube.RbacV1().RoleBindings(s.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// recorded waits until the history has a Job of the story, and returns its record.
func recorded(s *harness.Story, job string, args ...string) *historyv1alpha1.Record {
	s.T.Helper()
	var record *historyv1alpha1.Record
	require.EventuallyWithT(s.T, func(c *assert.CollectT) {
		got := called(s, "muster", append([]string{"job", "history", job, "-n", s.Namespace, "-o", "json"}, args...)...)
		require.Zero(c, got.code, got.err)
		list := &historyv1alpha1.JobRecordList{}
		require.NoError(c, json.Unmarshal([]byte(got.out), list))
		require.Len(c, list.Items, 1)
		record = &list.Items[0].Record
	}, mustertesting.Timeout, mustertesting.Timeout/60)
	return record
}

// TestAJobPastItsTimeStaysInTheHistory: its objects are gone, and its times are not.
func TestAJobPastItsTimeStaysInTheHistory(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	short := s.CreateJob(mustertesting.MakeJob("short").Queue(s.Namespace).Label("muster.sh/user", "ada").TTL(0).
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "2", "memory", "1Gi").ExitAfter(0, 0).RestartPolicy("Never")))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Get(s.Ctx, short.Name, metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "its time is up: %v", err)
	}, mustertesting.Timeout, mustertesting.Timeout/60)

	r := recorded(s, "short")
	assert.Equal(t, []string{"Job", "ada", s.Namespace, "Completed"}, []string{r.Kind, r.User, r.Queue, r.Phase})
	assert.EqualValues(t, 2, r.Pods)
	assert.Equal(t, "4", r.Requests.Cpu().String())
	assert.Equal(t, "2Gi", r.Requests.Memory().String())
	require.NotNil(t, r.Started)
	assert.False(t, r.Started.Before(&r.Created) || r.Ended.Before(r.Started))

	rows := table(muster(s, "job", "history"))
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"NAME", "KIND", "USER", "QUEUE", "PODS", "PHASE", "WAITED", "RAN", "ENDED"}, rows[0])
	assert.Equal(t, []string{"short", "Job", "ada", s.Namespace, "2", "Completed"}, rows[1][:6])
	assert.Contains(t, muster(s, "job", "history", "-o", "wide"), "4 cpu, 2Gi memory")
	assert.Empty(t, muster(s, "job", "history", "--user", "bob"))
	assert.Empty(t, muster(s, "job", "history", "--until", "1h"))
	report := table(muster(s, "report", "--by", "queue", "--since", "1d"))
	require.Len(t, report, 2)
	assert.Equal(t, []string{"QUEUE", "JOBS", "SUCCEEDED", "WAITED", "RAN", "EVICTIONS", "CPU-HOURS", "MEMORY-GIB-HOURS"}, report[0][:8])
	assert.Equal(t, []string{s.Namespace, "1", "1"}, report[1][:3])
	assert.True(t, strings.HasPrefix(muster(s, "report", "--by", "user", "-o", "csv"), "user,jobs,succeeded,wait_seconds,run_seconds,evictions,cpu_hours,memory_gib_hours\nada,1,1,"))
	missing := called(s, "muster", "job", "history", "nothing", "-n", s.Namespace)
	assert.Equal(t, 1, missing.code)
	assert.Contains(t, missing.err, `the history has no such Job "nothing"`)
}

func TestADeletedJobIsInTheHistory(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "1")
	runs := s.CreateJob(mustertesting.MakeJob("runs").Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	s.JobPhase(runs, batchv1alpha1.Running)
	require.NoError(t, s.Muster.BatchV1alpha1().Jobs(s.Namespace).Delete(s.Ctx, runs.Name, metav1.DeleteOptions{}))
	r := recorded(s, "runs")
	assert.Equal(t, "Deleted", r.Phase)
	assert.Equal(t, "deleted in phase Running", r.Message)
	assert.Equal(t, "1", r.Requests.Cpu().String())
}

// TestTheHistoryFollowsNamespaces: people read the records of the namespaces whose Jobs they may read.
func TestTheHistoryFollowsNamespaces(t *testing.T) {
	t.Parallel()
	own, other := harness.New(t), harness.New(t)
	ada, bob := "ada-"+own.Namespace, "bob-"+own.Namespace
	give(own, ada)
	give(other, bob)
	for _, s := range []*harness.Story{own, other} {
		name := s.CreateJob(mustertesting.MakeJob("training").Task(mustertesting.MakeTask("worker", 1)))
		s.Command(name, "TerminateJob")
		s.JobPhase(name, batchv1alpha1.Terminated)
	}
	assert.Equal(t, own.Namespace, recorded(own, "training", "--as", ada).Namespace)
	assert.Equal(t, other.Namespace, recorded(other, "training", "--as", bob).Namespace)
	for user, args := range map[string][]string{
		ada: {"-n", other.Namespace},
		bob: {"-A"},
	} {
		for _, command := range [][]string{{"job", "history"}, {"report"}} {
			got := called(own, "muster", append(append(command, args...), "--as", user)...)
			assert.Equal(t, 1, got.code, got.out)
			assert.Contains(t, got.err, "may not list jobrecords.history.muster.sh in the ")
			assert.Empty(t, got.out)
		}
	}
	all := called(own, "muster", "job", "history", "training", "-A", "--limit", "0")
	require.Zero(t, all.code, all.err)
	assert.Contains(t, all.out, own.Namespace)
	assert.Contains(t, all.out, other.Namespace)
	first := called(own, "muster", "job", "history", "training", "-A", "--limit", "1")
	assert.Len(t, table(first.out), 2)
	assert.Contains(t, first.err, "There are earlier ones")
}
