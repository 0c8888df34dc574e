package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestTenQuestions: one command each answers users' questions about their Jobs and queues.
func TestTenQuestions(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8")
	full, contested := s.Namespace+"-full", s.Namespace+"-contested"
	s.CreateQueue(mustertesting.MakeQueue(full).Capability("cpu", "4"))
	s.CreateQueue(mustertesting.MakeQueue(contested).Capability("cpu", "2"))
	job := func(name, queue string, replicas int32, class string) {
		s.CreateJob(mustertesting.MakeJob(name).Queue(queue).PriorityClass(class).Task(mustertesting.MakeTask("worker", replicas).Requests("cpu", "1")))
	}
	important := s.CreatePriorityClass("important", 50)
	urgent := s.Namespace + "-urgent"
	_, err := s.Kube.SchedulingV1().PriorityClasses().Create(s.Ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000}, metav1.CreateOptions{})
	require.NoError(t, err)

	job("runs", full, 4, "")
	s.JobPhase(s.Name("runs"), batchv1alpha1.Running)
	job("ahead", full, 3, important)
	s.JobReason(s.Name("ahead"), "QuotaExceeded")
	job("waits", full, 2, "")
	s.JobReason(s.Name("waits"), "QuotaExceeded")
	job("xxl", full, 9, "")
	s.JobReason(s.Name("xxl"), "QuotaExceeded")
	job("evicted", contested, 2, "")
	s.JobPhase(s.Name("evicted"), batchv1alpha1.Running)
	job("urgent", contested, 2, urgent)
	s.JobPhase(s.Name("urgent"), batchv1alpha1.Running)
	// The API server checks arguments that stand in one piece.
	s.CreateJob(mustertesting.MakeJob("wrong").Queue(full).Plugin("pytorch", "--port", "0").Task(mustertesting.MakeTask("master", 1)))
	s.JobReason(s.Name("wrong"), "Invalid")

	for question, c := range map[string]struct {
		command []string
		answer  string
	}{
		"Why does it wait?":       {[]string{"explain", "job", "waits"}, `queue "` + full + `" has 0 cpu free of its capability, 2 needed`},
		"Can it ever run?":        {[]string{"explain", "job", "xxl"}, "Can it ever run?\n  No: it asks for more than the whole capability of queue " + full + ". Ask for less, or raise that.\n"},
		"Who is before it?":       {[]string{"explain", "job", "waits"}, "Who is before it?\n  It is the 2nd of 3 that wait in queue " + full + ".\n  Job " + s.Namespace + "/ahead (priority 50, not 0)\n"},
		"What would free it?":     {[]string{"explain", "job", "waits"}, "What would free it?\n  2 cpu of queue " + full + ": Jobs there have to end, or its capability has to be raised.\n"},
		"What happened to it?":    {[]string{"explain", "job", "runs"}, "the Job became Running"},
		"Who evicted it?":         {[]string{"explain", "job", "evicted"}, "evicted to make room for PodGroup " + s.Namespace + "/urgent-"},
		"How full is my queue?":   {[]string{"explain", "queue", full}, "How full is it?\n  " + full + ": 4 of 4 cpu used (100%)"},
		"What is it doing now?":   {[]string{"explain", "job", "runs"}, "What does it do now?\n  4 pods running, 0 pending, 0 succeeded, 0 failed, 0 terminating; 4 start together.\n"},
		"How do I stop it?":       {[]string{"explain", "job", "runs"}, "muster job suspend -n " + s.Namespace + " runs    stops it; resume goes on\n"},
		"What did I write wrong?": {[]string{"explain", "job", "wrong"}, "The Job contradicts itself. (Invalid)\n  It says: "},
	} {
		t.Run(question, func(t *testing.T) {
			page := ""
			// The page's facts about the queue follow the pods a moment later.
			require.EventuallyWithT(t, func(collect *assert.CollectT) {
				page = muster(s, c.command...)
				assert.Contains(collect, page, c.answer)
			}, mustertesting.Timeout, mustertesting.Timeout/30)
			assert.NotContains(t, page, "\x1b", "no colour where there is no terminal")
			assert.NotContains(t, page, "What is missing here?")
		})
	}
}

// TestAPageOfAPodAndOfAPodGroup: pods that a Job does not own.
func TestAPageOfAPodAndOfAPodGroup(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4", "memory", "2500Gi") // no node of another test could hold one of the pods
	s.CreateGroup(mustertesting.MakePodGroup("gang").MinMember(3).MinResources("memory", "3000Gi"))
	for _, name := range []string{"a", "b", "c"} {
		s.CreatePod(mustertesting.MakePod(name).Group("gang").SchedulerName("muster").Requests("memory", "1000Gi"))
	}
	s.Soon("the pods say why they wait", func() bool {
		for _, c := range s.Pod("a").Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	}, func() any { return s.Pod("a").Status })
	for _, args := range [][]string{{"explain", "pod", "a"}, {"explain", "podgroup", "gang"}} {
		page := muster(s, args...)
		assert.Contains(t, page, "The scheduler found no nodes for it. (Unschedulable)")
		assert.Regexp(t, `It says, \S+ ago: room for 2 of the 3 members`, page)
		assert.Contains(t, page, "Can it ever run?\n  No, not on the nodes that there are: ask for less, or add nodes that its pods may use.")
	}
	got := called(s, "muster", "explain", "pod", "nothing", "-n", s.Namespace)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.err, `"nothing" not found`)
}

// TestAPageOfAPhJob: the queue of its group, the quota of its user, and its place among the jobs of the group.
func TestAPageOfAPhJob(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "8", "memory", "8Gi")
	queue := mustertesting.MakeQueue(s.Namespace).Capability("cpu", "8").Obj()
	queue.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: s.Namespace}
	queue.Spec.DequeueStrategy = schedulingv1beta1.DequeueStrategyFIFO
	queue.Spec.Muster = &schedulingv1beta1.QueueExtension{UserQuota: &schedulingv1beta1.UserQuota{Default: mustertesting.Resources("cpu", "2")}}
	_, err := s.Muster.SchedulingV1beta1().Queues().Create(s.Ctx, queue, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.Muster.PrimehubV1alpha1().InstanceTypes(s.Namespace).Create(s.Ctx, &primehubv1alpha1.InstanceType{
		ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec:       primehubv1alpha1.InstanceTypeSpec{LimitsCPU: 2, LimitsMemory: "1Gi"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.Muster.PrimehubV1alpha1().Images(s.Namespace).Create(s.Ctx, &primehubv1alpha1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: primehubv1alpha1.ImageSpec{URL: "busybox"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	submit := func(name string) {
		_, err := s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).Create(s.Ctx, &primehubv1alpha1.PhJob{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: primehubv1alpha1.PhJobSpec{DisplayName: name, Command: "sleep 1000", UserID: "ann", UserName: "ann",
				GroupID: s.Namespace, GroupName: "phusers", InstanceType: "small", Image: "base"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	page := func(name string, lines ...string) {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			got := muster(s, "explain", "phjob", name)
			for _, line := range lines {
				assert.Contains(c, got, line)
			}
		}, mustertesting.Timeout, mustertesting.Timeout/30)
	}
	submit("runs")
	page("runs", "PhJob "+s.Namespace+"/runs: Running, created ", "Group phusers is queue "+s.Namespace+".\n", "User ann uses 2 cpu there, of 2 cpu.\n",
		"the PhJob was created\n", "its pod began to run\n")
	submit("waits")
	page("waits", "PhJob "+s.Namespace+"/waits: Pending, created ", "(OverQuota)\n",
		`user "ann" of queue "`+s.Namespace+`" has 0 cpu free of its quota, 2 needed`,
		"Who is before it?\n  It is the only one that waits in queue "+s.Namespace+".\n",
		"2 cpu of user ann in queue "+s.Namespace+": jobs of that user have to end, or the quota has to be raised.\n",
		"muster phjob cancel -n "+s.Namespace+" waits")
	got := called(s, "muster", "explain", "phjob", "nothing", "-n", s.Namespace)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.err, `"nothing" not found`)
}
