package api_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// processorTime is what the API server has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	page, err := kubernetes.NewForConfigOrDie(config).RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	require.NoError(b, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	require.NoError(b, err)
	seconds := families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue()
	return time.Duration(seconds * float64(time.Second))
}

// BenchmarkTheLargestJob is what the API server spends on a Job of 100 tasks with 20 policies each, beside 200 queues. It runs with
// the shipped policies, without the one that writes defaults, and without any. Only what is asked for is counted, as no Job is stored.
func BenchmarkTheLargestJob(b *testing.B) {
	for i := range 200 {
		queue := &unstructured.Unstructured{Object: queueOf(fmt.Sprintf("beside-%d", i), "")}
		_, err := client.Resource(queues).Create(b.Context(), queue, metav1.CreateOptions{})
		require.NoError(b, err)
	}
	bindings := kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1()
	asked := &unstructured.Unstructured{Object: hundredTasks(b)}
	measure := func(name string) {
		b.Run(name, func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				_, err := client.Resource(jobs).Namespace(metav1.NamespaceDefault).
					Create(b.Context(), asked.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				require.NoError(b, err)
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "processor-ms/op")
		})
	}
	measure("with all policies")
	switchDefaults(b, false)
	measure("without written defaults")
	require.NoError(b, bindings.ValidatingAdmissionPolicyBindings().DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	measure("without policies")
}
