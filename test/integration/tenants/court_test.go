package tenants_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// row is something that red tries. In its texts $red, $blue and $green are the names of the tenants.
type row struct {
	name string
	// try returns the error of the try itself. It uses c.must for the requests before it.
	try func(c *court) error
	// refused is a part of the message that the API server refuses the try with; empty if it is taken.
	refused string
	// held checks what must hold after a try that was taken, and the Jobs of the others have run. Its comment or message names the rule.
	held func(c *court)
}

// court plays one row in a world.
type court struct {
	*testing.T
	*world
	ctx context.Context
	// atEnd is done before the row is cleaned up.
	atEnd []func(*court) error
}

// text puts the tenants' names into a text.
func (c *court) text(text string) string {
	return strings.NewReplacer("$red", c.red.name, "$blue", c.blue.name, "$green", c.green.name, "$parent", c.name).Replace(text)
}

func (c *court) must(err error) {
	c.Helper()
	require.NoError(c, err)
}

func (c *court) soon(what string, amiss func() string) {
	c.Helper()
	soon(c.T, what, func() string {
		if text := amiss(); text != "" {
			return text + "\n" + book.podsOf(c.red.name)
		}
		return ""
	})
}

// creates, patches and removes are tries of one request.
func creates(text string) func(*court) error {
	return func(c *court) error { return c.red.create(c.ctx, c.text(text)) }
}

func patches(kind, name, patch string, subresources ...string) func(*court) error {
	return func(c *court) error { return c.red.patch(c.ctx, kind, c.text(name), c.text(patch), subresources...) }
}

func removes(kind, name string) func(*court) error {
	return func(c *court) error { return c.red.remove(c.ctx, kind, c.text(name)) }
}

// byAdmin and adminPatches are what an administrator of the cluster does for a row, in red's namespace.
func byAdmin(text string) func(*court) error {
	return func(c *court) error { return c.admin().create(c.ctx, c.text(text)) }
}

func adminPatches(kind, name, patch string) func(*court) error {
	return func(c *court) error { return c.admin().patch(c.ctx, kind, c.text(name), c.text(patch)) }
}

func (c *court) admin() *tenant { return &tenant{name: c.red.name, client: clientOf(c.T, "")} }

// as creates objects in red's namespace as another user.
func as(user, text string) func(*court) error {
	return func(c *court) error {
		m := &tenant{name: c.red.name, client: clientOf(c.T, c.text(user))}
		return m.create(c.ctx, c.text(text))
	}
}

// after makes tries one after the other. The API server must take all but the last.
func after(tries ...func(*court) error) func(*court) error {
	return func(c *court) error {
		for _, try := range tries[:len(tries)-1] {
			c.must(try(c))
		}
		return tries[len(tries)-1](c)
	}
}

// TestNoTenantMovesAnother: whatever a tenant tries, it is refused or has no effect on the others. Their Jobs run, and no queue is used beyond
// its capability. After each row the books of both programs are the sums of the pods. Then all of red's quota comes back.
func TestNoTenantMovesAnother(t *testing.T) {
	t.Run("row", func(t *testing.T) {
		for _, r := range slices.Concat(names, accounts, shares, phJobs, objects) {
			t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				r.play(t)
			})
		}
	})
	book.mu.Lock()
	assert.Empty(t, book.faults, "queues that were used beyond their capability, and pods that keep what is borrowed")
	book.mu.Unlock()
	var gangs []watchlog.Incarnation
	for _, gang := range log.Incarnations() {
		if !strings.HasPrefix(gang.Namespace, "red") {
			gangs = append(gangs, gang)
		}
	}
	assert.Empty(t, watchlog.GangViolations(gangs, mustertesting.Timeout), "gangs that were not bound whole")
	page, err := env.Cluster.Get(t.Context(), localcluster.MusterController, "/metrics")
	require.NoError(t, err)
	assert.Contains(t, string(page), "\nmuster_state_drift 0\n", "the controller's accounts agree with the API")
	require.NoError(t, env.Cluster.Crashed())
}

func (r row) play(t *testing.T) {
	c := &court{T: t, world: takeWorld(t), ctx: t.Context()}
	before := c.residents()
	err := r.try(c)
	if r.refused == "" {
		require.NoError(c, err)
	} else {
		require.Error(c, err)
		require.True(c, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(c, err, c.text(r.refused))
	}
	c.othersRun()
	if r.held != nil {
		r.held(c)
	}
	c.booksAgree()
	assert.Equal(c, before, c.residents(), "the pods of blue and green that run all the time")
	for _, do := range c.atEnd {
		c.must(do(c))
	}
	c.cleanUp()
	c.booksAgree()
	giveBack(c.world) // a row that has failed leaves its world behind
}

// othersRun has blue and green run a Job each.
func (c *court) othersRun() {
	c.Helper()
	var started []types.NamespacedName
	c.jobs++
	for _, m := range []*tenant{c.blue, c.green} {
		task := mustertesting.MakeTask("worker", 2).Requests("cpu", "500m").ExitAfter(10*time.Millisecond, 0)
		started = append(started, m.run(c.T, mustertesting.MakeJob(fmt.Sprintf("ordinary-%d", c.jobs)).Task(task)))
	}
	for _, job := range started {
		awaitJob(c.T, job, batchv1alpha1.Completed)
		states := log.JobStates(job)
		assert.Zero(c, states[len(states)-1].Retries, "restarts of %s", job)
		assert.Len(c, log.PodsOf(job), 2, "pods of %s", job)
	}
}

// residents are the pods of the Jobs that run all the time, as far as they run.
func (c *court) residents() []types.UID {
	c.Helper()
	var pods []types.UID
	for _, m := range []*tenant{c.blue, c.green} {
		for _, pod := range log.PodsOf(types.NamespacedName{Namespace: m.name, Name: resident}) {
			if pod.Live() {
				pods = append(pods, pod.UID)
			}
		}
	}
	require.Len(c, pods, 4)
	return pods
}

// booksAgree waits until the books of both programs are the sums of the pods.
func (c *court) booksAgree() {
	c.Helper()
	c.soon("books that agree with the pods", func() string {
		return book.disagrees(c.ctx, c.name, c.red.name, c.blue.name, c.green.name)
	})
}

// owned are the kinds of red's objects that a row may leave, owners first.
var owned = []schema.GroupVersionResource{
	gvrOf("PhSchedule"), gvrOf("PhJob"), gvrOf("Job"), gvrOf("Command"), gvrOf("Deployment"), gvrOf("ReplicaSet"), gvrOf("DaemonSet"), gvrOf("StatefulSet"),
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	gvrOf("Pod"), gvrOf("PodGroup"), gvrOf("ResourceQuota"), gvrOf("Image"), gvrOf("InstanceType"),
	gvrOf("ConfigMap"), gvrOf("Secret"), gvrOf("Service"),
}

// cleanUp deletes red's objects, and waits until its quota has come back.
func (c *court) cleanUp() {
	c.Helper()
	deleted := map[string]bool{}
	c.soon("nothing of red's is left", func() string {
		if left := c.deleteOwned(deleted); left != "" {
			return left
		}
		queue, err := env.Muster.SchedulingV1beta1().Queues().Get(c.ctx, c.red.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		s := queue.Status
		if n := s.Pending + s.Inqueue + s.Running + s.Unknown; n > 0 || !s.Allocated.Cpu().IsZero() || !s.Reservation.Resource.Cpu().IsZero() {
			return fmt.Sprintf("queue %s has %d PodGroups, %s cpu and a reservation of %s cpu", queue.Name, n, s.Allocated.Cpu(), s.Reservation.Resource.Cpu())
		}
		return ""
	})
}

// deleteOwned deletes red's objects that it has not deleted before, owners first. It returns which are left, or "". Most rows leave no object of
// most kinds.
func (c *court) deleteOwned(deleted map[string]bool) (left string) {
	c.Helper()
	admin, background := c.admin(), metav1.DeletePropagationBackground
	all := metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"} // Kubernetes makes that again
	for _, resource := range owned {
		list, err := admin.in(resource, "").List(c.ctx, all)
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			continue
		}
		left = fmt.Sprintf("%d %s are left, such as %s", len(list.Items), resource.Resource, list.Items[0].GetName())
		if deleted[resource.String()] {
			return left
		}
		at := metav1.DeleteOptions{PropagationPolicy: &background}
		if resource.Resource == "pods" {
			at = *metav1.NewDeleteOptions(0)
		}
		c.must(admin.in(resource, "").DeleteCollection(c.ctx, at, all))
		deleted[resource.String()] = true
	}
	return left
}

// uses waits until red's queue is charged for so much cpu.
func uses(cpu string) func(*court) {
	return func(c *court) {
		c.Helper()
		c.soon("queue "+c.red.name+" uses "+cpu+" cpu", func() string {
			if used := book.used(c.red.name); used != cpu {
				return "it uses " + used
			}
			return ""
		})
	}
}

// pod reads a pod of red.
func (c *court) pod(name string) *corev1.Pod {
	c.Helper()
	pod, err := env.Kube.CoreV1().Pods(c.red.name).Get(c.ctx, name, metav1.GetOptions{})
	c.must(err)
	return pod
}

// runs waits until pods of red run.
func runs(names ...string) func(*court) error {
	return func(c *court) error {
		for _, name := range names {
			c.soon("pod "+name+" runs", func() string {
				pod, err := env.Kube.CoreV1().Pods(c.red.name).Get(c.ctx, name, metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				return strings.TrimPrefix(string(pod.Status.Phase), "Running")
			})
		}
		return nil
	}
}

// waits checks that a pod of red is not bound, and waits until the pod, or its PodGroup, says why.
func waits(name, why string) func(*court) {
	return func(c *court) {
		c.Helper()
		c.soon("pod "+name+" waits", func() string {
			pod := c.pod(name)
			require.Empty(c, pod.Spec.NodeName)
			said := log.Group(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Annotations[groupName]}).Condition.Message
			for _, condition := range pod.Status.Conditions {
				said += condition.Message
			}
			if !strings.Contains(said, c.text(why)) {
				return said
			}
			return ""
		})
	}
}

// nothingStarts checks that no pod of red is bound.
func nothingStarts(c *court) {
	c.Helper()
	list, err := env.Kube.CoreV1().Pods(c.red.name).List(c.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	c.must(err)
	require.Empty(c, list.Items)
}

// says waits until the state of red's Job says why it does not run.
func says(job, why string) func(*court) {
	return func(c *court) {
		c.Helper()
		name := types.NamespacedName{Namespace: c.red.name, Name: job}
		c.soon("Job "+job+" says "+why, func() string {
			if state := log.Job(name); !strings.Contains(state.Message, c.text(why)) {
				return state.String()
			}
			return ""
		})
	}
}

// both makes several checks.
func both(checks ...func(*court)) func(*court) {
	return func(c *court) {
		c.Helper()
		for _, check := range checks {
			check(c)
		}
	}
}

// othersGetTheirShare has blue and green run Jobs that take all that is left of their shares, at the same time.
func othersGetTheirShare(c *court) {
	c.Helper()
	c.othersFill(mustertesting.MakeTask("worker", 5).Requests("cpu", "700m"))
}

// othersRunOn has blue and green run Jobs on a node, at the same time. They ask for memory that is free there.
func othersRunOn(node string) func(*court) {
	return func(c *court) {
		c.Helper()
		task := mustertesting.MakeTask("worker", 2).Requests("cpu", "100m", "memory", "10Gi").NodeSelector(corev1.LabelHostname, node)
		c.othersFill(task)
	}
}

// othersFill has blue and green run Jobs of a task at the same time, and ends them.
func (c *court) othersFill(task *mustertesting.TaskWrapper) {
	c.Helper()
	fill := types.NamespacedName{Name: "fill"}
	for _, m := range []*tenant{c.blue, c.green} {
		m.run(c.T, mustertesting.MakeJob(fill.Name).Task(task))
	}
	for _, m := range []*tenant{c.blue, c.green} {
		fill.Namespace = m.name
		awaitJob(c.T, fill, batchv1alpha1.Running)
	}
	c.booksAgree()
	for _, m := range []*tenant{c.blue, c.green} {
		c.end(m, fill.Name)
	}
}

// end deletes a tenant's Job, and waits until its pods are gone.
func (c *court) end(m *tenant, job string) {
	c.Helper()
	c.must(m.remove(c.ctx, "Job", job))
	c.soon("the pods of Job "+job+" are gone", func() string {
		for _, pod := range log.PodsOf(types.NamespacedName{Namespace: m.name, Name: job}) {
			if pod.Gone.IsZero() {
				return pod.String()
			}
		}
		return ""
	})
}
