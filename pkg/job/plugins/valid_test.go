package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingconversion "k8s.io/kubernetes/pkg/apis/networking/v1"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// TestTheServerTakesWhatPluginsMake asks the API server's own validation about all objects and pods of all Jobs here.
func TestTheServerTakesWhatPluginsMake(t *testing.T) {
	inputs, err := filepath.Glob(filepath.Join("testdata", "*.job.yaml"))
	require.NoError(t, err)
	jobs := map[string]*batchv1alpha1.Job{
		"10000 pods": largeJob("distributed-training", 9999).Plugin("env").Plugin("mpi").Plugin("tensorflow").Plugin("pytorch").UID("1").Obj(),
		"1000 pods":  largeJob("train", 999).Plugin("mpi").Plugin("tensorflow").Plugin("pytorch", "--wait-master-enabled").UID("1").Obj(),
	}
	for _, input := range inputs {
		jobs[filepath.Base(input)] = readJob(t, input)
	}
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			set, errs := plugins.For(job)
			require.Empty(t, errs)
			for _, object := range objectsOf(t, set) {
				assert.Empty(t, objectErrors(t, object), "%T %s", object, object.GetName())
			}
			filled := defaults.Job(job, "")
			for i := range filled.Spec.Tasks {
				task := &filled.Spec.Tasks[i]
				for index := range min(task.Replicas, 20) {
					pod := podOf(filled, task, index)
					set.MutatePod(pod, task, index)
					assert.Empty(t, podErrors(t, pod), pod.Name)
				}
			}
		})
	}
}

func objectErrors(t *testing.T, object plugin.Object) field.ErrorList {
	t.Helper()
	switch object := object.DeepCopyObject().(type) {
	case *corev1.ConfigMap:
		var internal core.ConfigMap
		require.NoError(t, corev1conversion.Convert_v1_ConfigMap_To_core_ConfigMap(object, &internal, nil))
		return corevalidation.ValidateConfigMap(&internal)
	case *corev1.Secret:
		var internal core.Secret
		require.NoError(t, corev1conversion.Convert_v1_Secret_To_core_Secret(object, &internal, nil))
		return corevalidation.ValidateSecret(&internal)
	case *networkingv1.NetworkPolicy:
		var internal networking.NetworkPolicy
		require.NoError(t, networkingconversion.Convert_v1_NetworkPolicy_To_networking_NetworkPolicy(object, &internal, nil))
		return networkingvalidation.ValidateNetworkPolicy(&internal, networkingvalidation.NetworkPolicyValidationOptions{})
	case *corev1.Service:
		corev1conversion.SetObjectDefaults_Service(object)
		if object.Spec.ClusterIP == corev1.ClusterIPNone {
			object.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
		}
		var internal core.Service
		require.NoError(t, corev1conversion.Convert_v1_Service_To_core_Service(object, &internal, nil))
		return corevalidation.ValidateServiceCreate(&internal)
	default:
		t.Fatalf("no plugin makes a %T", object)
		return nil
	}
}

func podErrors(t *testing.T, pod *corev1.Pod) field.ErrorList {
	t.Helper()
	pod = pod.DeepCopy()
	corev1conversion.SetObjectDefaults_Pod(pod)
	var internal core.Pod
	require.NoError(t, corev1conversion.Convert_v1_Pod_To_core_Pod(pod, &internal, nil))
	return corevalidation.ValidatePodCreate(&internal, podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil))
}

// Golden files without a Job are of Jobs that are gone.
func TestNoGoldenFileIsLeftOver(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		_, err := os.Stat(strings.TrimSuffix(file, ".golden.yaml") + ".job.yaml")
		assert.NoError(t, err)
	}
}
