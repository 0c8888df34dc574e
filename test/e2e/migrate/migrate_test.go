// Package migrate follows docs/coming-from-volcano.md with Volcano's own CRDs, its webhook configurations, thirty queues and two hundred Jobs.
package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/migrate"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	root = "../../.."
	page = root + "/docs/coming-from-volcano.md"
	// engineer has the rights that the page asks for.
	engineer = "engineer"
	// running is how many Jobs run when the move begins: those of the first numbers.
	running = 3
)

var env *harness.Env

func TestMain(m *testing.M) {
	options := localcluster.Options{Nodes: 4, ExtraArgs: map[string][]string{localcluster.MusterController: {"--depends-on-condition=Ready"}}}
	harness.Main(m, options, func(_ context.Context, e *harness.Env) (func() error, error) {
		env = e
		return nil, nil
	})
}

// move is the state of the story.
type move struct {
	*testing.T
	folder string
	env    []string
}

// TestTheMoveFromVolcanoAndBack runs the commands of the page in their order, as a user with the rights that it asks for.
func TestTheMoveFromVolcanoAndBack(t *testing.T) {
	m := &move{T: t, folder: t.TempDir()}
	m.prepare()
	m.becomeVolcano()
	pods := m.startJobs()
	before := m.check()
	m.told(before)
	kept := m.specs()

	commands := m.commands()
	require.Len(t, commands, 6+1, "six steps and the way back")
	for _, step := range commands[:4] {
		m.follow(step)
	}
	m.sameJobs(kept, "Volcano is removed")
	m.follow(commands[4])
	m.told(m.check())
	m.follow(commands[5])
	m.keptFields(before, kept)
	m.createdAnew()
	m.survived(pods)
	m.goesOn(pods[0])

	m.stop()
	m.follow(commands[6])
	m.sameJobs(kept, "Muster is removed")
	m.survived(pods[1:])
	policies := m.run("kubectl get validatingadmissionpolicies -o name")
	assert.NotContains(t, policies, "muster")
	assert.Contains(t, m.run("kubectl get validatingwebhookconfigurations -o name"), "volcano-admission-service-pods-validate")
	assert.Empty(t, m.run("kubectl get crd podgroups.scheduling.volcano.sh -o jsonpath='{.spec.versions[0].subresources.status}'"),
		"Volcano's clients write specs and statuses together")
}

// prepare makes a folder in which the commands of the page work.
func (m *move) prepare() {
	manifests, err := filepath.Abs(root + "/manifests")
	require.NoError(m, err)
	require.NoError(m, os.Symlink(manifests, filepath.Join(m.folder, "manifests")))
	config, err := clientcmd.LoadFromFile(env.Cluster.Kubeconfig())
	require.NoError(m, err)
	for _, user := range config.AuthInfos {
		user.Impersonate = engineer
	}
	kubeconfig := filepath.Join(m.folder, "kubeconfig")
	require.NoError(m, clientcmd.WriteToFile(*config, kubeconfig))
	bin, err := localcluster.DefaultBinDir()
	require.NoError(m, err)
	m.env = append(os.Environ(), "HOME="+m.folder, "KUBECONFIG="+kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"))
	m.admin("create", "clusterrolebinding", engineer, "--clusterrole=cluster-admin", "--user="+engineer)
}

// admin runs kubectl as the administrator of the local cluster.
func (m *move) admin(args ...string) {
	m.Helper()
	out, err := exec.CommandContext(m.Context(), env.Cluster.Kubectl(), append([]string{"--kubeconfig", env.Cluster.Kubeconfig()}, args...)...).CombinedOutput()
	require.NoError(m, err, string(out))
}

// stop ends Muster's programs.
func (m *move) stop() {
	for _, program := range []string{localcluster.MusterScheduler, localcluster.MusterController} {
		require.NoError(m, env.Cluster.Kill(program, syscall.SIGTERM))
		require.NoError(m, env.Cluster.AwaitEnd(m.Context(), program))
	}
}

// becomeVolcano takes Muster out of the cluster, and puts Volcano's API and objects in its place.
func (m *move) becomeVolcano() {
	m.stop()
	kinds := []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"}
	if strings.Contains(m.run("kubectl api-resources -o name"), "mutatingadmissionpolicies") {
		kinds = append(kinds, "mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
	}
	m.admin("delete", strings.Join(kinds, ","), "--all")
	crds := filepath.Join(m.folder, "crds")
	generate := exec.CommandContext(m.Context(), "go", "tool", "controller-gen", "crd:maxDescLen=0,generateEmbeddedObjectMeta=true", "output:crd:dir="+crds)
	for _, api := range []string{"batch/v1alpha1", "bus/v1alpha1", "scheduling/v1beta1", "flow/v1alpha1", "topology/v1alpha1"} {
		generate.Args = append(generate.Args, "paths=volcano.sh/apis/pkg/apis/"+api)
	}
	generate.Dir = root + "/test/volcano"
	out, err := generate.CombinedOutput()
	require.NoError(m, err, string(out))
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	require.NoError(m, err)
	manifest := programs
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(m, err)
		manifest += "---\n" + string(text)
		if !strings.Contains(file, "flow.") {
			m.admin("replace", "--save-config", "-f", file)
		}
	}
	m.write("volcano-development.yaml", manifest+"---\n"+webhooks)
	m.write("programs.yaml", manifest)
	m.run("kubectl apply -f programs.yaml")
	var objects strings.Builder
	for i := range queueCount {
		text, _ := queueText(i)
		objects.WriteString(text + "---\n")
	}
	for i := range 5 {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-%d}\n---\n", i)
	}
	for i := range jobCount {
		objects.WriteString(jobText(i, namespaceOf(i)) + "---\n")
	}
	m.write("objects.yaml", objects.String())
	m.soon("the objects are there", func() bool { return m.try("kubectl apply -f objects.yaml") == nil })
}

func (m *move) write(name, text string) {
	require.NoError(m, os.WriteFile(filepath.Join(m.folder, name), []byte(text), 0o600))
}

// startJobs does for some Jobs what Volcano does: PodGroup, pod and status. Then the webhooks come.
func (m *move) startJobs() []*corev1.Pod {
	nodes, err := env.Kube.CoreV1().Nodes().List(m.Context(), metav1.ListOptions{})
	require.NoError(m, err)
	var pods []*corev1.Pod
	for i := range running {
		job, err := env.Muster.BatchV1alpha1().Jobs(namespaceOf(i)).Get(m.Context(), jobName(i), metav1.GetOptions{})
		require.NoError(m, err)
		owner := []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
		group := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: batchv1alpha1.PodGroupName(job), OwnerReferences: owner},
			Spec:       schedulingv1beta1.PodGroupSpec{MinMember: 1, Queue: job.Spec.Queue, MinTaskMember: map[string]int32{"worker": 1}},
			Status:     schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupRunning, Running: 1},
		}
		_, err = env.Muster.SchedulingV1beta1().PodGroups(job.Namespace).Create(m.Context(), group, metav1.CreateOptions{})
		require.NoError(m, err)
		labels := map[string]string{
			"volcano.sh/job-name": job.Name, "volcano.sh/job-namespace": job.Namespace, "volcano.sh/queue-name": job.Spec.Queue,
			"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0",
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: job.Name + "-worker-0", OwnerReferences: owner, Labels: labels, Annotations: map[string]string{
				"volcano.sh/job-name": job.Name, "volcano.sh/queue-name": job.Spec.Queue, "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0",
				"volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0", "volcano.sh/template-uid": job.Name + "-worker",
				"scheduling.k8s.io/group-name": group.Name,
			}},
			Spec: *job.Spec.Tasks[0].Template.Spec.DeepCopy(),
		}
		pod.Spec.SchedulerName, pod.Spec.NodeName = "volcano", nodes.Items[i%len(nodes.Items)].Name
		pod, err = env.Kube.CoreV1().Pods(job.Namespace).Create(m.Context(), pod, metav1.CreateOptions{})
		require.NoError(m, err)
		job.Status = batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: batchv1alpha1.Running, LastTransitionTime: metav1.Now()}, MinAvailable: 1, Running: 1}
		_, err = env.Muster.BatchV1alpha1().Jobs(job.Namespace).UpdateStatus(m.Context(), job, metav1.UpdateOptions{})
		require.NoError(m, err)
		pods = append(pods, pod)
	}
	m.write("webhooks.yaml", webhooks)
	m.run("kubectl apply -f webhooks.yaml")
	return pods
}

// commands returns those of the sections of the page, in order.
func (m *move) commands() [][]string {
	text, err := os.ReadFile(page)
	require.NoError(m, err)
	var steps [][]string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		var step []string
		for _, line := range strings.Split(block[1], "\n") {
			if command, isCommand := strings.CutPrefix(line, "$ "); isCommand {
				step = append(step, command)
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// follow runs the commands of a step. The check fails, as something would be lost. The pods of the Deployments are the programs of the local
// cluster.
func (m *move) follow(step []string) {
	m.Helper()
	for _, command := range step {
		if strings.HasPrefix(env.Cluster.Options().KubernetesVersion, "v1.35.") {
			command = strings.Replace(command, "deploy/coming-from-volcano", "deploy/coming-from-volcano-1.35", 1)
		}
		if strings.HasPrefix(command, "muster migrate check") {
			require.ErrorContains(m, m.try(command), "objects that would lose something")
			continue
		}
		m.run(command)
		if strings.HasPrefix(command, "kubectl apply -k") {
			for _, program := range []string{localcluster.MusterController, localcluster.MusterScheduler} {
				require.NoError(m, env.Cluster.Start(m.Context(), program))
			}
		}
	}
}

// run runs a command of the page, and returns what it prints.
func (m *move) run(command string) string {
	m.Helper()
	out, err := m.output(command)
	require.NoError(m, err, "%s\n%s", command, out)
	return out
}

func (m *move) output(command string) (string, error) {
	ctx, cancel := context.WithTimeout(m.Context(), 7*time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, "bash", "-c", command)
	process.Dir, process.Env = m.folder, m.env
	out, err := process.CombinedOutput()
	return string(out), err
}

// try runs a command. Its error has what the command prints.
func (m *move) try(command string) error {
	out, err := m.output(command)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

// check returns what the command says of all objects.
func (m *move) check() migrate.Report {
	m.Helper()
	out, _ := m.output("muster migrate check -o json 2>/dev/null")
	report := migrate.Report{}
	require.NoError(m, json.Unmarshal([]byte(out), &report), out)
	require.Empty(m, report.NotRead)
	return report
}

// told compares a report with what is written here by hand.
func (m *move) told(report migrate.Report) {
	m.Helper()
	got := map[string]string{}
	for _, object := range report.Objects {
		if object.Kind == "Job" || object.Kind == "Queue" {
			got[object.Namespace+"/"+object.Name] = string(object.Result)
		}
	}
	delete(got, "/default")
	delete(got, "/root")
	want := map[string]string{}
	for i := range jobCount {
		want[namespaceOf(i)+"/"+jobName(i)] = shapes[i%len(shapes)].result
	}
	for i := range queueCount {
		_, want[fmt.Sprintf("/queue-%02d", i)] = queueText(i)
	}
	assert.Equal(m, want, got)
}

// live are the Jobs and queues of the cluster, by namespace and name.
func (m *move) live() map[string]*unstructured.Unstructured {
	m.Helper()
	var list unstructured.UnstructuredList
	out := m.run("kubectl get jobs.batch.volcano.sh,queues.scheduling.volcano.sh -A -o json")
	require.NoError(m, json.Unmarshal([]byte(out), &list))
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

// specs waits until all objects are there.
func (m *move) specs() map[string]*unstructured.Unstructured {
	all := m.live()
	require.GreaterOrEqual(m, len(all), jobCount+queueCount)
	return all
}

// sameJobs says that no object was deleted or created anew.
func (m *move) sameJobs(before map[string]*unstructured.Unstructured, when string) {
	m.Helper()
	after := m.live()
	for key, object := range before {
		if assert.Contains(m, after, key, when) {
			assert.Equal(m, object.GetUID(), after[key].GetUID(), "%s: %s", when, key)
		}
	}
}

// keptFields says that the fields that the check called kept have their values.
func (m *move) keptFields(report migrate.Report, before map[string]*unstructured.Unstructured) {
	m.Helper()
	after, compared := m.live(), 0
	for _, object := range report.Objects {
		key := object.Namespace + "/" + object.Name
		if object.Kind != "Job" && object.Kind != "Queue" || after[key] == nil {
			continue
		}
		for _, field := range object.Kept {
			assert.Equal(m, fieldOf(before[key], field), fieldOf(after[key], field), "%s %s", key, field)
			compared++
		}
	}
	assert.Greater(m, compared, 1000)
}

// fieldOf is the value at a path like spec.queue or spec.tasks[0].name.
func fieldOf(object *unstructured.Unstructured, path string) any {
	path = strings.TrimPrefix(path, "spec.")
	spec, _ := object.Object["spec"].(map[string]any)
	if rest, isTask := strings.CutPrefix(path, "tasks[0]."); isTask {
		tasks, _ := spec["tasks"].([]any)
		task, _ := tasks[0].(map[string]any)
		return task[rest]
	}
	return spec[path]
}

// createdAnew creates one Job of each shape in another namespace. It is refused or warned of as the check says.
func (m *move) createdAnew() {
	m.run("kubectl create namespace again")
	for i, s := range shapes {
		m.write("again.yaml", jobText(i, "again"))
		out, err := m.output("kubectl create -f again.yaml")
		assert.Equal(m, s.result == "refused", err != nil, "%s: %s", s.name, out)
		if s.name == "numa" {
			assert.Contains(m, out, "Warning", s.name)
		}
	}
}

// soon waits for a condition.
func (m *move) soon(what string, met func() bool) {
	m.Helper()
	require.Eventually(m, met, mustertesting.Timeout, mustertesting.Timeout/200, what)
}

// phase is that of the Job of a number.
func (m *move) phase(i int) batchv1alpha1.JobPhase {
	job, err := env.Muster.BatchV1alpha1().Jobs(namespaceOf(i)).Get(m.Context(), jobName(i), metav1.GetOptions{})
	require.NoError(m, err)
	return job.Status.State.Phase
}

// goesOn says that a Job that waited starts on Muster, and that one that ran under Volcano ends well.
func (m *move) goesOn(pod *corev1.Pod) {
	m.soon("a Job that waited runs", func() bool { return m.phase(running) == batchv1alpha1.Running })
	_, err := env.Kube.CoreV1().Pods(pod.Namespace).Patch(m.Context(), pod.Name, types.MergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`),
		metav1.PatchOptions{}, "status")
	require.NoError(m, err)
	m.soon("a Job that ran under Volcano has completed", func() bool { return m.phase(0) == batchv1alpha1.Completed })
}

// survived says that pods that Volcano started still run.
func (m *move) survived(pods []*corev1.Pod) {
	m.Helper()
	for _, old := range pods {
		pod, err := env.Kube.CoreV1().Pods(old.Namespace).Get(m.Context(), old.Name, metav1.GetOptions{})
		if assert.NoError(m, err) {
			assert.Equal(m, old.UID, pod.UID)
			assert.Equal(m, corev1.PodRunning, pod.Status.Phase)
		}
	}
}
