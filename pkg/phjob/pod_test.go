package phjob

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

func job() *primehubv1alpha1.PhJob {
	return &primehubv1alpha1.PhJob{
		ObjectMeta: metav1.ObjectMeta{Name: "job-1", Namespace: "hub", UID: "uid", Annotations: map[string]string{
			"a": "b", corev1.LastAppliedConfigAnnotation: "{}", schedulingv1beta1.GroupNameAnnotation: "forged", schedulingv1beta1.QueueNameAnnotation: "forged",
		}},
		Spec: primehubv1alpha1.PhJobSpec{
			Command: "echo start", DisplayName: "Job", UserID: "u-1", UserName: "jack.pan", GroupID: "g-1", GroupName: "Team_A",
			Image: "base", InstanceType: "tiny",
		},
	}
}

func order(t *testing.T) *Order {
	t.Helper()
	return &Order{
		Config: DefaultConfig(), SchedulerName: "muster", Group: Group{Queue: "team-a"},
		Image:        &primehubv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: primehubv1alpha1.ImageSpec{URL: "cpu", URLForGPU: "gpu"}},
		InstanceType: instanceType(t, `{limits.cpu: 0.5, limits.memory: 1G, requests.cpu: 0.1}`),
	}
}

func build(t *testing.T, o *Order) (*corev1.Pod, *corev1.Container) {
	t.Helper()
	pod, err := Pod(job(), o)
	require.NoError(t, err)
	require.Len(t, pod.Spec.Containers, 1)
	return pod, &pod.Spec.Containers[0]
}

func TestThePod(t *testing.T) {
	pod, main := build(t, order(t))
	assert.Equal(t, "job-1", pod.Name)
	assert.Equal(t, "hub", pod.Namespace)
	assert.Equal(t, map[string]string{"app": "primehub-job", "primehub.io/group": "escaped--54eam-5f-41", "primehub.io/user": "escaped-jack-2epan",
		schedulingv1beta1.UserLabel: "jack.pan"}, pod.Labels)
	assert.Equal(t, map[string]string{
		"a": "b", schedulingv1beta1.GroupNameAnnotation: "phjob-uid-0", schedulingv1beta1.QueueNameAnnotation: "team-a",
		"primehub.io/usage": `{"component":"job","component_name":"job-1","group":"Team_A","instance_type":"tiny","user":"jack.pan"}`,
	}, pod.Annotations)
	require.Len(t, pod.OwnerReferences, 1)
	assert.True(t, *pod.OwnerReferences[0].Controller)
	assert.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	assert.Equal(t, "muster", pod.Spec.SchedulerName)

	assert.Equal(t, "main", main.Name)
	assert.Equal(t, "cpu", main.Image)
	assert.Equal(t, corev1.PullIfNotPresent, main.ImagePullPolicy)
	assert.Equal(t, corev1.TerminationMessageFallbackToLogsOnError, main.TerminationMessagePolicy)
	assert.Equal(t, "/workingdir", main.WorkingDir)
	want := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}
	for name, amount := range want {
		assert.True(t, amount.Equal(main.Resources.Limits[name]), name)
		assert.True(t, amount.Equal(main.Resources.Requests[name]), "%s is requested as it is limited", name)
	}
	assert.Len(t, main.Resources.Limits, 2)
	assert.Subset(t, main.Env, []corev1.EnvVar{{Name: "PRIMEHUB_USER", Value: "jack.pan"}, {Name: "PRIMEHUB_GROUP", Value: "Team_A"}, {Name: "PHJOB_NAME", Value: "job-1"}})
}

func TestAPodWithGPUs(t *testing.T) {
	o := order(t)
	o.InstanceType = instanceType(t, `{limits.cpu: 1, limits.memory: 1G, limits.gpu: 2, nodeSelector: {a: type, b: type}, tolerations: [{key: type}]}`)
	o.Image.Spec.PullSecret = "pull"
	o.Config.JobSubmission.NodeSelector = map[string]string{"a": "config", "c": "config"}
	o.Config.JobSubmission.Tolerations = []corev1.Toleration{{Key: "config"}}
	o.Config.JobSubmission.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	pod, main := build(t, o)
	assert.Equal(t, "gpu", main.Image)
	gpus := main.Resources.Limits["nvidia.com/gpu"]
	assert.EqualValues(t, 2, gpus.Value())
	assert.Equal(t, map[string]string{"a": "type", "b": "type", "c": "config"}, pod.Spec.NodeSelector)
	assert.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, pod.Spec.ImagePullSecrets)
	assert.Equal(t, o.Config.JobSubmission.Affinity, pod.Spec.Affinity)
	var keys []string
	for _, toleration := range pod.Spec.Tolerations {
		keys = append(keys, toleration.Key)
		assert.Nil(t, toleration.TolerationSeconds, toleration.Key)
	}
	assert.Equal(t, []string{"config", "type", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}, keys)
}

// mounted returns where each volume is mounted.
func mounted(container *corev1.Container) map[string]string {
	at := map[string]string{}
	for _, mount := range container.VolumeMounts {
		at[mount.Name] = mount.MountPath
	}
	return at
}

// TestTheFolders: the tree of the documentation, and what is behind each folder.
func TestTheFolders(t *testing.T) {
	o := order(t)
	o.Group.Volumes = []string{"group1", "Team_B"}
	o.Group.Datasets = []Dataset{
		{Name: "ds1", Type: DatasetPV, VolumeName: "claim-1"}, {Name: "code", Type: DatasetGit, VolumeName: "repo"},
		{Name: "share", Type: DatasetNFS, Server: "s", Path: "/p"}, {Name: "my-keys", Type: DatasetEnv, Variables: map[string]string{"id": "$(HOME)"}},
	}
	o.Config.PHFSEnabled, o.Config.PHFSPVC = true, "store"
	pod, main := build(t, o)
	assert.Equal(t, map[string]string{
		"workingdir": "/workingdir", "datasets": "/datasets", "dshm": "/dev/shm", "phfs": "/phfs",
		"dataset-ds1": "/datasets/ds1", "dataset-code": "/datasets/code", "dataset-share": "/datasets/share",
		"project-0": "/project/group1", "project-1": "/project/Team_B",
	}, mounted(main))
	claims := map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		assert.Nil(t, volume.HostPath)
		if volume.PersistentVolumeClaim != nil {
			claims[volume.Name] = volume.PersistentVolumeClaim.ClaimName
		}
		if volume.Name == "workingdir" {
			assert.Equal(t, "5Gi", volume.EmptyDir.SizeLimit.String())
		}
	}
	assert.Equal(t, map[string]string{"dataset-ds1": "claim-1", "dataset-code": "repo", "project-0": "project-group1", "project-1": "project-team-b", "phfs": "store"}, claims)
	for _, mount := range main.VolumeMounts {
		assert.Equal(t, mount.Name == "dataset-code", mount.ReadOnly, mount.Name)
	}
	assert.Subset(t, main.Env, []corev1.EnvVar{{Name: "MY-KEYS_ID", Value: "$$(HOME)"}, {Name: "MY_KEYS_ID", Value: "$$(HOME)"}})
}

// expanded is a text as Kubernetes hands it over. It must have no single $, which may begin the name of a variable.
func expanded(t *testing.T, text string) string {
	t.Helper()
	assert.NotContains(t, strings.ReplaceAll(text, "$$", ""), "$")
	return strings.ReplaceAll(text, "$$", "$")
}

// TestKubernetesChangesNoText: it makes $ of $$, and replaces $(NAME) by a variable. The shell gets what the user wrote.
func TestKubernetesChangesNoText(t *testing.T) {
	j, o := job(), order(t)
	j.Spec.Command, j.Spec.UserName = "echo $$ $(PRIMEHUB_GROUP) $HOME $$(TZ)", "$(TZ)"
	pod, err := Pod(j, o)
	require.NoError(t, err)
	main := &pod.Spec.Containers[0]
	assert.Equal(t, j.Spec.Command, expanded(t, main.Command[3]))
	for _, env := range main.Env {
		if env.Name == "PRIMEHUB_USER" || env.Name == "JUPYTERHUB_USER" {
			assert.Equal(t, "$(TZ)", expanded(t, env.Value))
		}
	}
}

// TestTheCommandRunsInItsFolder has a real shell run what the container would.
func TestTheCommandRunsInItsFolder(t *testing.T) {
	o := order(t)
	o.Group.Volumes = []string{"group1", "it's"}
	_, main := build(t, o)
	for command, want := range map[string]string{
		"echo start":                         "start\n",
		"echo one\necho \"two $((1+1))\"\n":  "one\ntwo 2\n",
		"readlink datasets group1 it-s":      "/datasets\n/project/group1\n/project/it-s\n",
		"f() { echo 'quoted \"x\"'; }; f; :": "quoted \"x\"\n",
		"":                                   "",
	} {
		dir := t.TempDir()
		args := []string{main.Command[1], expanded(t, main.Command[2]), command}
		run := exec.Command(main.Command[0], args...)
		run.Dir, run.Env = dir, os.Environ()
		out, err := run.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, want, string(out))
		links, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		assert.Len(t, links, 3)
	}
	failing := exec.Command(main.Command[0], main.Command[1], expanded(t, main.Command[2]), "exit 3")
	failing.Dir = t.TempDir()
	require.Error(t, failing.Run())
	assert.Equal(t, 3, failing.ProcessState.ExitCode())
}

func TestThePodGroup(t *testing.T) {
	j := job()
	j.Status.Requeued = 2
	limits := corev1.ResourceList{"cpu": resource.MustParse("1")}
	group := PodGroup(j, "team-a", limits)
	assert.Equal(t, "phjob-uid-2", group.Name)
	assert.Equal(t, map[string]string{schedulingv1beta1.UserLabel: "jack.pan"}, group.Labels)
	assert.EqualValues(t, 1, group.Spec.MinMember)
	assert.Equal(t, &limits, group.Spec.MinResources)
	assert.Equal(t, "team-a", group.Spec.Queue)
	assert.Empty(t, group.Annotations)
	j.Annotations = map[string]string{schedulingv1beta1.RunningEstimateAnnotation: "1h", "other": "x"}
	assert.Equal(t, map[string]string{"muster.sh/running-estimate": "1h"}, PodGroup(j, "team-a", limits).Annotations)
}

func TestWhatCannotBeAPod(t *testing.T) {
	for want, change := range map[string]func(*primehubv1alpha1.PhJobSpec){
		"spec.command has 131072 bytes, of 131071 at most": func(s *primehubv1alpha1.PhJobSpec) { s.Command = strings.Repeat("é", 65536) },
		"spec.command has a zero byte":                     func(s *primehubv1alpha1.PhJobSpec) { s.Command = "a\x00" },
		"spec.userName is too long":                        func(s *primehubv1alpha1.PhJobSpec) { s.UserName = strings.Repeat("@", 19) },
		"spec.groupName is too long":                       func(s *primehubv1alpha1.PhJobSpec) { s.GroupName = strings.Repeat("g", 56) },
	} {
		spec := job().Spec
		change(&spec)
		require.ErrorContains(t, Validate(&spec), want)
	}
	spec := job().Spec
	spec.UserName, spec.GroupName, spec.Command = strings.Repeat("@", 18), strings.Repeat("g", 55), strings.Repeat("x", 131071)
	assert.NoError(t, Validate(&spec))
}

// TestAPodCarriesOnlyTheAccountOfItsPhJob: the group and the user of the PhJob were judged, what its annotations say was not.
func TestAPodCarriesOnlyTheAccountOfItsPhJob(t *testing.T) {
	job := job()
	job.Annotations = map[string]string{"kept": "a"}
	for _, key := range []string{"scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name", "muster.sh/charged-to", "muster.sh/bound-for"} {
		job.Annotations[key] = "blue"
	}
	annotations := annotationsOf(job, "red")
	assert.Equal(t, "red", annotations["scheduling.volcano.sh/queue-name"])
	assert.Contains(t, annotations, "kept")
	for key, value := range annotations {
		assert.NotEqual(t, "blue", value, key)
	}
}
