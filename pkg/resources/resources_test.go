package resources

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestPodRequestsCountsAsTheKubeletDoes(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	request := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "sidecar", RestartPolicy: &always, Resources: request("100m", "10Mi")},
			{Name: "init", Resources: request("3", "1Mi")},
		},
		Containers: []corev1.Container{{Name: "a", Resources: request("1", "1Gi")}, {Name: "b", Resources: request("500m", "1Gi")}},
		Overhead:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
	}}
	assert.Equal(t, List{corev1.ResourceCPU: 3110, corev1.ResourceMemory: 2<<30 + 10<<20, corev1.ResourcePods: 1}, PodRequests(pod))
}

func TestAmountsEndAtTheBound(t *testing.T) {
	const cpu, memory, gpu = corev1.ResourceCPU, corev1.ResourceMemory, "nvidia.com/gpu"
	for _, test := range []struct {
		name     corev1.ResourceName
		quantity string
		want     int64
	}{
		{cpu, "0", 0}, {cpu, "1n", 1}, {cpu, "500m", 500}, {cpu, "1.0001", 1001}, {cpu, "2", 2000},
		{cpu, "4611686018427387", 4611686018427387000}, {cpu, "4611686018427388", MaxAmount},
		{cpu, "10000000000000000", MaxAmount}, {cpu, "8Ei", MaxAmount}, {cpu, "1e999", MaxAmount}, {cpu, "1e2147483647", MaxAmount},
		{memory, "1500m", 2}, {memory, "1Gi", 1 << 30}, {memory, "4611686018427387903", MaxAmount - 1}, {memory, "4Ei", MaxAmount},
		{memory, "8Ei", MaxAmount}, {memory, "10E", MaxAmount}, {memory, "9223372036854775808", MaxAmount},
		{memory, "99999999999999999999999", MaxAmount},
		{gpu, "10E", MaxAmount}, {gpu, "-1", -1}, {gpu, "-10E", -MaxAmount}, {gpu, "-16Ei", -MaxAmount}, {gpu, "0e2147483647", 0},
	} {
		assert.Equal(t, test.want, Amount(test.name, resource.MustParse(test.quantity)), "%s %s", test.quantity, test.name)
	}
}

func TestAmountsBeyondTheBoundAreNamed(t *testing.T) {
	require.NoError(t, List{corev1.ResourceMemory: MaxAmount - 1, corev1.ResourceCPU: -MaxAmount}.Validate())
	beyond := List{corev1.ResourceMemory: MaxAmount, "x.com/y": math.MaxInt64, "z.com/y": MaxAmount}
	for range 20 { // the order of a map differs from one range over it to the next
		require.EqualError(t, beyond.Validate(), "asks for 4Ei or more of memory, which no cluster has")
	}
}

// TestPodsWithHugeRequestsAreCounted: the sum of two of them, as a number with all its digits, would take minutes.
func TestPodsWithHugeRequestsAreCounted(t *testing.T) {
	request := func(quantity string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}}
	}
	const huge = "1e2000000000"
	podLevel := request(huge)
	for name, spec := range map[string]corev1.PodSpec{
		"containers":     {Containers: []corev1.Container{{Resources: request(huge)}, {Resources: request("1n")}}},
		"init container": {InitContainers: []corev1.Container{{Resources: request(huge)}}, Containers: []corev1.Container{{Resources: request("1")}}},
		"overhead":       {Containers: []corev1.Container{{Resources: request("1")}}, Overhead: request(huge).Requests},
		"pod":            {Containers: []corev1.Container{{Resources: request("1")}}, Resources: &podLevel},
		"wrapping":       {Containers: []corev1.Container{{Resources: request("10000000000000000")}}},
	} {
		pod := &corev1.Pod{Spec: spec}
		before := pod.DeepCopy()
		assert.EqualValues(t, MaxAmount, PodRequests(pod)[corev1.ResourceCPU], name)
		require.Error(t, ValidateRequests(pod), name)
		assert.Equal(t, before.Spec, pod.Spec, "%s: the pod is shared", name)
	}
}

func TestRequestsAreValidatedAsTheyAreCounted(t *testing.T) {
	quantities := rapid.SampledFrom([]string{"1", "2Ei", "3Ei", "4611686018427387", "4611686018427388", "10E", "-1"})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse(quantities.Draw(t, label+" cpu")),
				corev1.ResourceMemory: resource.MustParse(quantities.Draw(t, label+" memory")),
			}}
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Resources: draw("init")}},
			Containers:     []corev1.Container{{Resources: draw("a")}, {Resources: draw("b")}},
			Overhead:       draw("overhead").Requests,
		}}
		assert.Equal(t, PodRequests(pod).Validate(), ValidateRequests(pod))
	})
}

// BenchmarkValidateRequests: nothing is allocated for a pod.
func BenchmarkValidateRequests(b *testing.B) {
	requests := List{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8 << 30}.ToResourceList()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
	b.ReportAllocs()
	for b.Loop() {
		if ValidateRequests(pod) != nil {
			b.Fatal("the pod is small")
		}
	}
}

func TestStringIsStable(t *testing.T) {
	l := List{corev1.ResourceMemory: 1 << 30, corev1.ResourceCPU: 1500, "nvidia.com/gpu": 4, corev1.ResourcePods: 0}
	assert.Equal(t, "cpu=1500m, memory=1Gi, nvidia.com/gpu=4", l.String())
	assert.Equal(t, "1500m cpu, 1Gi memory, 4 nvidia.com/gpu", l.InWords())
}

// TestThousandsAreWrittenOut: people read "1k cpu" as a word of its own.
func TestThousandsAreWrittenOut(t *testing.T) {
	for want, l := range map[string]List{
		"1000 cpu":                {corev1.ResourceCPU: 1000 * 1000},
		"1500m cpu":               {corev1.ResourceCPU: 1500},
		"2000000 nvidia.com/gpu":  {"nvidia.com/gpu": 2000000},
		"-3000 cpu":               {corev1.ResourceCPU: -3000 * 1000},
		"1000Gi memory, 110 pods": {corev1.ResourceMemory: 1000 << 30, corev1.ResourcePods: 110},
	} {
		assert.Equal(t, want, l.InWords())
	}
}

func TestListsEndAtTheBoundsOfInt64(t *testing.T) {
	exact := func(x *big.Int) int64 {
		switch {
		case x.Cmp(big.NewInt(math.MaxInt64)) > 0:
			return math.MaxInt64
		case x.Cmp(big.NewInt(math.MinInt64)) < 0:
			return math.MinInt64
		}
		return x.Int64()
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64().Draw(t, "a")
		b := rapid.Int64().Draw(t, "b")
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")

		sum := List{"r": a}
		sum.Add(List{"r": b})
		assert.Equal(t, exact(new(big.Int).Add(big.NewInt(a), big.NewInt(b))), sum["r"])

		difference := List{"r": a}
		difference.Sub(List{"r": b})
		assert.Equal(t, exact(new(big.Int).Sub(big.NewInt(a), big.NewInt(b))), difference["r"])

		assert.Equal(t, exact(new(big.Int).Mul(big.NewInt(a), big.NewInt(n))), List{"r": a}.Scale(n)["r"])
	})
}

func TestQuantitiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := List{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "hugepages-2Mi", "nvidia.com/gpu"} {
			l[name] = rapid.Int64Range(0, 1<<50).Draw(t, string(name))
		}
		assert.True(t, l.Equal(FromResourceList(l.ToResourceList())))
	})
}
