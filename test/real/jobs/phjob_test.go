//go:build real

package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestPhJobFolders finds the folders that docs/phjob.md lists, and in a second PhJob what the first one has kept in them.
func TestPhJobFolders(t *testing.T) {
	s := begin(t)
	group := openGroup(s)
	submit(s, group, "writes", `set -e
exec 2>&1 # the runtime does not keep the order of two streams
pwd
readlink datasets team_a
echo "images of $PRIMEHUB_USER in $PRIMEHUB_GROUP" >datasets/mnist/list
echo model >team_a/model
echo gone >draft
if echo no >/datasets/code/main.py; then echo "the git dataset can be written"; fi`)
	awaitPhJob(s, "writes", primehubv1alpha1.PhJobSucceeded)
	lines := strings.Split(strings.TrimSpace(logOf(s, "writes")), "\n")
	require.GreaterOrEqual(t, len(lines), 3)
	assert.Equal(t, []string{"/workingdir", "/datasets", "/project/team_a"}, lines[:3])
	assert.Contains(t, strings.Join(lines[3:], "\n"), "Read-only file system")
	assert.NotContains(t, lines, "the git dataset can be written")

	submit(s, group, "reads", `cat /datasets/mnist/list /project/team_a/model; ls; echo "$KEYS_TOKEN"`)
	awaitPhJob(s, "reads", primehubv1alpha1.PhJobSucceeded)
	assert.Equal(t, "images of jackpan in "+group+"\nmodel\ndatasets\nteam_a\nsesame\n", logOf(s, "reads"))
}

// TestPhJobEnds ends PhJobs by their exit code and by a cancellation. The log of a failed one can be read, and its end is in the message.
func TestPhJobEnds(t *testing.T) {
	s := begin(t)
	group := openGroup(s)
	submit(s, group, "fails", `echo "no such data"; exit 3`)
	submit(s, group, "endless", `trap "exit 0" TERM; echo began; while true; do sleep 0.1; done`)
	failed := awaitPhJob(s, "fails", primehubv1alpha1.PhJobFailed)
	assert.Equal(t, primehubv1alpha1.ReasonPodFailed, failed.Status.Reason)
	assert.Contains(t, failed.Status.Message, "no such data")
	assert.Equal(t, "no such data\n", logOf(s, "fails"))

	awaitPhJob(s, "endless", primehubv1alpha1.PhJobRunning)
	require.Eventually(t, func() bool {
		text, err := readLog(s, "endless")
		return err == nil && text == "began\n"
	}, timeout, 100*time.Millisecond, "the command has begun")
	_, err := s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).Patch(s.Ctx, "endless", types.MergePatchType, []byte(`{"spec":{"cancel":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	awaitPhJob(s, "endless", primehubv1alpha1.PhJobCancelled)
	require.Eventually(t, func() bool {
		_, err := s.Kube.CoreV1().Pods(s.Namespace).Get(s.Ctx, "endless", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, timeout, 100*time.Millisecond, "the kubelet ends the container, and the pod goes")
}

// openGroup makes a group with a volume, three datasets, the test's image and an instance type, and returns its name.
func openGroup(s *harness.Story) string {
	s.T.Helper()
	name := s.Namespace + "-users"
	queue := mustertesting.MakeQueue(name).Capability("cpu", "4").
		Annotation(primehubv1alpha1.GroupVolumesAnnotation, "team_a").
		Annotation(primehubv1alpha1.DatasetsAnnotation, fmt.Sprintf(`[
{"name": "mnist", "type": "pv", "volumeName": %q}, {"name": "code", "type": "git", "volumeName": %q},
{"name": "keys", "type": "env", "variables": {"token": "sesame"}}]`, claim(s, "images"), claim(s, "code"))).Obj()
	claim(s, "project-team-a")
	queue.Labels = map[string]string{primehubv1alpha1.GroupNameLabel: name}
	_, err := s.Muster.SchedulingV1beta1().Queues().Create(s.Ctx, queue, metav1.CreateOptions{})
	require.NoError(s.T, err)
	hub := s.Muster.PrimehubV1alpha1()
	_, err = hub.Images(s.Namespace).Create(s.Ctx, &primehubv1alpha1.Image{
		ObjectMeta: metav1.ObjectMeta{Name: "debian"}, Spec: primehubv1alpha1.ImageSpec{URL: image}}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	_, err = hub.InstanceTypes(s.Namespace).Create(s.Ctx, &primehubv1alpha1.InstanceType{
		ObjectMeta: metav1.ObjectMeta{Name: "tiny"}, Spec: primehubv1alpha1.InstanceTypeSpec{LimitsCPU: 0.1, LimitsMemory: "64M"}}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return name
}

// submit creates a PhJob that runs a command.
func submit(s *harness.Story, group, name, command string) {
	s.T.Helper()
	_, err := s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).Create(s.Ctx, &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: primehubv1alpha1.PhJobSpec{
			Command: command, DisplayName: name, UserID: "619156fe", UserName: "jackpan", GroupID: "d8257cb0", GroupName: group,
			Image: "debian", InstanceType: "tiny",
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// awaitPhJob waits until a PhJob is in a phase, and returns it.
func awaitPhJob(s *harness.Story, name string, phase primehubv1alpha1.PhJobPhase) *primehubv1alpha1.PhJob {
	s.T.Helper()
	var job *primehubv1alpha1.PhJob
	var err error
	require.Eventually(s.T, func() bool {
		job, err = s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).Get(s.Ctx, name, metav1.GetOptions{})
		return err == nil && job.Status.Phase == phase
	}, timeout, 100*time.Millisecond, "PhJob %s is %s", name, phase)
	return job
}
