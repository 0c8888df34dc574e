package tenants_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// Sizes of the queues of a world, in cpu.
const (
	// share is what each tenant's queue deserves.
	share = 4
	// capability is the most that each tenant's queue may use.
	capability = 8
	// whole is what their parent has: each queue can have its share, and one can borrow.
	whole = 3 * share
)

// world is three tenants whose queues have one parent. One row at a time uses it.
type world struct {
	name             string
	red, blue, green *tenant
	// jobs counts the ordinary Jobs, for their names.
	jobs int
}

func (w *world) tenants() []*tenant { return []*tenant{w.red, w.blue, w.green} }

// worlds are free for the next row.
var worlds struct {
	sync.Mutex
	free []*world
	made int
}

// takeWorld returns a world that is free, or a new one.
func takeWorld(t *testing.T) *world {
	t.Helper()
	worlds.Lock()
	if n := len(worlds.free); n > 0 {
		defer worlds.Unlock()
		w := worlds.free[n-1]
		worlds.free = worlds.free[:n-1]
		return w
	}
	worlds.made++
	w := &world{name: fmt.Sprintf("world-%d", worlds.made)}
	worlds.Unlock()
	w.create(t)
	return w
}

// giveBack lets the next row have a world.
func giveBack(w *world) {
	worlds.Lock()
	defer worlds.Unlock()
	worlds.free = append(worlds.free, w)
}

// create makes the queues and the tenants. Each of blue and green gets a Job that runs for as long as the world is there.
func (w *world) create(t *testing.T) {
	t.Helper()
	cpu := func(n int) string { return fmt.Sprint(n) }
	queues := env.Muster.SchedulingV1beta1().Queues()
	add := func(queue *schedulingv1beta1.Queue) {
		_, err := queues.Create(t.Context(), queue, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	add(mustertesting.MakeQueue(w.name).Capability("cpu", cpu(whole)).Deserved("cpu", cpu(whole)).Obj())
	number := strings.TrimPrefix(w.name, "world-")
	w.red, w.blue, w.green = newTenant(t, "red-"+number, "admin"), newTenant(t, "blue-"+number, "edit"), newTenant(t, "green-"+number, "edit")
	for _, m := range w.tenants() {
		queue := mustertesting.MakeQueue(m.name).Parent(w.name).Capability("cpu", cpu(capability)).Deserved("cpu", cpu(share)).Obj()
		queue.Labels = map[string]string{primehubv1alpha1.GroupIDLabel: m.name, primehubv1alpha1.GroupNameLabel: m.name}
		add(queue)
	}
	for _, m := range w.tenants() {
		m.awaitRights(t)
	}
	for _, m := range []*tenant{w.blue, w.green} {
		m.run(t, mustertesting.MakeJob(resident).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "250m")))
	}
	for _, m := range []*tenant{w.blue, w.green} {
		awaitJob(t, types.NamespacedName{Namespace: m.name, Name: resident}, batchv1alpha1.Running)
	}
}

// resident is the name of the Jobs that run all the time.
const resident = "resident"

// newTenant makes the namespace and the rights of a tenant, as docs/security.md has them.
func newTenant(t *testing.T, name, role string) *tenant {
	t.Helper()
	m := &tenant{name: name, client: clientOf(t, name)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"muster.sh/tenant": name}}}
	_, err := env.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: "default"} // for pods of Deployments
	refer := func(role string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	}
	rbac, use := env.Kube.RbacV1(), metav1.ObjectMeta{Name: "use-" + name}
	_, err = rbac.RoleBindings(name).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: user, RoleRef: refer(role),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: use, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{schedulingv1beta1.GroupName}, Resources: []string{"queues"}, ResourceNames: []string{name}, Verbs: []string{"use"},
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: use, Subjects: append(user, account), RoleRef: refer(use.Name)}, metav1.CreateOptions{})
	require.NoError(t, err)
	return m
}

// awaitRights waits until the tenant may do what it may, and until the policies are in force.
func (m *tenant) awaitRights(t *testing.T) {
	t.Helper()
	try := func(queue string) error {
		object := parse(`{kind: Job, spec: {queue: ` + queue + `, tasks: [{replicas: 1}]}}`)[0]
		_, err := m.objects(object).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	pod := parse(`{kind: Pod, metadata: {annotations: {scheduling.volcano.sh/queue-name: ` + m.name + `}}}`)[0]
	soon(t, "the rights of "+m.name, func() string {
		if err := try(m.name); err != nil {
			return err.Error()
		}
		if _, err := m.objects(pod).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err.Error() // the namespace has no ServiceAccount yet
		}
		if err := try("default"); err == nil || !strings.Contains(err.Error(), "may not use queue") {
			return fmt.Sprintf("a Job in queue default: %v", err)
		}
		return ""
	})
}

// run creates a Job in the tenant's queue, as the tenant.
func (m *tenant) run(t *testing.T, job *mustertesting.JobWrapper) types.NamespacedName {
	t.Helper()
	object := job.Namespace(m.name).Queue(m.name).Obj()
	_, err := m.muster().BatchV1alpha1().Jobs(m.name).Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err, "the Job %s of %s", object.Name, m.name)
	return types.NamespacedName{Namespace: m.name, Name: object.Name}
}

// soon waits until nothing is amiss any more.
func soon(t *testing.T, what string, amiss func() string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, mustertesting.Timeout, true, func(context.Context) (bool, error) {
		last = amiss()
		return last == "", nil
	})
	require.NoError(t, err, "not seen: %s: %s", what, last)
}

// awaitJob waits until a Job is in a phase.
func awaitJob(t *testing.T, job types.NamespacedName, phase batchv1alpha1.JobPhase) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mustertesting.Timeout)
	defer cancel()
	err := log.Wait(ctx, func() bool { return log.Job(job).Phase == phase })
	require.NoError(t, err, "Job %s is not %s: %v; pods %v", job, phase, log.JobStates(job), log.PodsOf(job))
}
