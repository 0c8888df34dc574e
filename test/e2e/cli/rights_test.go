package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// Users with the role edit in one namespace, as kubectl's flags name them. A reader reads queues, as all users do in an installation. A
// stranger does not: the API server takes such a user out of the group of all users.
var (
	reader   = []string{"--as"}
	stranger = []string{"--as-group", "system:unauthenticated", "--as"}
)

// saying is a command with what it has to say to a user of one namespace.
type saying struct {
	args     string
	code     int
	out, err []string
}

// toReaders are the commands for a user who may read queues and priority classes. NS is the namespace of the test, and its queue.
var toReaders = []saying{
	{"queue tree", 0, []string{"NS"}, nil},
	{"queue list", 0, []string{"NS", "USED/CAPABILITY"}, nil},
	{"queue get NS", 0, []string{"cpu 3/4"}, nil},
	{"explain queue NS", 0, []string{
		"NS: 3 of 4 cpu used (75%)", "Jobs, with those of queues below it: 1 running, 2 waiting.",
		"What runs and waits in your namespace?", "Job NS/runs: runs\n", "Job NS/waits: the 2nd that waits in queue NS",
		"You may not list podgroups of all namespaces: Jobs of other namespaces are not named.",
	}, nil},
	{"explain job waits", 0, []string{
		"It is the 2nd that waits in queue NS (found ", "Queue NS uses 3 cpu of its share of ", `queue "NS" has 1 cpu free of its capability, 3 needed`,
		"You may not list podgroups of all namespaces: Jobs of other namespaces are not named.",
	}, nil},
	{"explain podgroup GROUP", 0, []string{"It is the 2nd that waits in queue NS (found "}, nil},
	{"explain pod runs-worker-0", 0, []string{"Pod NS/runs-worker-0: Running"}, nil},
	{"cluster -R cpu=1 -q NS", 1, []string{"queue NS for 1."}, []string{"You may not list nodes: nothing is said about room on nodes."}},
	{"cluster", 1, nil, []string{"You may not list nodes: nothing is said about room on nodes."}},
	{"top", 0, []string{"75% of its cpu", "ann    NS"}, []string{"You may not list podgroups of all namespaces", "The table has only users whom the queues name."}},
	{"phjob list", 0, nil, nil},
	{"job list", 0, []string{"waits"}, nil},
	{"job list -A", 1, nil, []string{"may not list jobs.batch.volcano.sh in the whole cluster: ask an administrator for that right"}},
}

// toStrangers are the commands for a user who may not even do that. The own PodGroup says what they need.
var toStrangers = []saying{
	{"queue tree", 1, nil, []string{"may not list queues.scheduling.volcano.sh in the whole cluster: ask an administrator for the ClusterRole muster-queue-readers"}},
	{"queue list", 1, nil, []string{"may not list queues.scheduling.volcano.sh in the whole cluster"}},
	{"queue get NS", 1, nil, []string{"may not get queues.scheduling.volcano.sh in the whole cluster"}},
	{"explain queue NS", 1, nil, []string{"may not get queues.scheduling.volcano.sh in the whole cluster"}},
	{"explain job waits", 0, []string{
		"It is the 2nd that waits in queue NS (found ", `queue "NS" has 1 cpu free of its capability, 3 needed`, "Queue NS uses 3 cpu of its share of ",
		"You may not list queues: nothing is said about quota.", "You may not list priorityclasses: nothing is said about the order in which Jobs start.",
	}, nil},
	{"explain podgroup GROUP", 0, []string{"It is the 2nd that waits in queue NS (found ", "You may not list queues: nothing is said about quota."}, nil},
	{"explain pod runs-worker-0", 0, []string{"You may not list queues: nothing is said about quota."}, nil},
	{"cluster -R cpu=1 -q NS", 1, nil, []string{"You may not list nodes", "You may not list queues: nothing is said about quota."}},
	{"top", 1, nil, []string{"You may not list queues: nothing is said about quota."}},
	{"phjob list", 0, nil, nil},
}

// TestCommandsOfAUserWithOneNamespace (issue 44, 1): the commands state nothing that may not be read. They print no yes, no 0 and no empty
// table for it. Commands print the rest, and say which right is missing. None names another namespace.
func TestCommandsOfAUserWithOneNamespace(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "4"))
	s.JobPhase(s.CreateJob(mustertesting.MakeJob("runs").Queue(s.Namespace).Label("muster.sh/user", "ann").
		Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3"))), batchv1alpha1.Running)
	waitsInAnotherNamespace(s, "secret")
	waits := s.CreateJob(mustertesting.MakeJob("waits").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "3")))
	s.JobReason(waits, "QuotaExceeded")
	user := "user-" + s.Namespace
	giveRightsTo(s, user)
	s.Soon("the PodGroup says its place", func() bool {
		place := s.GroupOf(waits).Status.Place
		return place != nil && place.Position == 2 && len(place.Shares) == 1 && place.Shares[0].Used.Value() == 3
	}, func() any { return s.GroupOf(waits).Status })

	names := strings.NewReplacer("NS", s.Namespace, "GROUP", s.GroupOf(waits).Name)
	for _, c := range []struct {
		as      []string
		sayings []saying
	}{{reader, toReaders}, {stranger, toStrangers}} {
		for _, want := range c.sayings {
			args := append(append(strings.Fields(names.Replace(want.args)), c.as...), user, "-n", s.Namespace)
			// The figures of a queue, and the API server's view of roles, come a moment later.
			require.EventuallyWithT(t, func(collect *assert.CollectT) {
				got := called(s, "muster", args...)
				assert.Equal(collect, want.code, got.code, "%v: %s%s", args, got.out, got.err)
				for _, said := range want.out {
					assert.Contains(collect, got.out, names.Replace(said), "%v", args)
				}
				for _, said := range want.err {
					assert.Contains(collect, got.err, names.Replace(said), "%v", args)
				}
				for _, unknown := range []string{"secret", "Can it ever run?\n  Yes", "room for 0", "would start now", "the only one"} {
					assert.NotContains(collect, got.out+got.err, unknown, "%v", args)
				}
				if want.code != 0 && want.out == nil {
					assert.Empty(collect, got.out, "%v", args)
				}
			}, mustertesting.Timeout, mustertesting.Timeout/30)
		}
	}
}

// waitsInAnotherNamespace creates a PodGroup that waits in the queue of the test. Its namespace has its name.
func waitsInAnotherNamespace(s *harness.Story, name string) {
	s.T.Helper()
	namespace := "a-" + name + "-" + s.Namespace // before that of the test, where both are of one second
	_, err := s.Kube.CoreV1().Namespaces().Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	group := mustertesting.MakePodGroup(name).Namespace(namespace).Queue(s.Namespace).MinMember(1).MinResources("cpu", "3").Obj()
	_, err = s.Muster.SchedulingV1beta1().PodGroups(namespace).Create(s.Ctx, group, metav1.CreateOptions{})
	require.NoError(s.T, err)
	s.Soon("it waits", func() bool {
		group, err := s.Muster.SchedulingV1beta1().PodGroups(namespace).Get(s.Ctx, name, metav1.GetOptions{})
		return err == nil && len(group.Status.Conditions) > 0
	}, func() any { return nil })
}

// giveRightsTo gives a user the role edit in the namespace of the test. kubectl also needs the right to list the resources of the cluster.
func giveRightsTo(s *harness.Story, user string) {
	s.T.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	_, err := s.Kube.RbacV1().RoleBindings(s.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: role("edit"),
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	_, err = s.Kube.RbacV1().ClusterRoleBindings().Create(s.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: role("system:discovery"),
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
}
