package resources

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
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

func TestStringIsStable(t *testing.T) {
	l := List{corev1.ResourceMemory: 1 << 30, corev1.ResourceCPU: 1500, "nvidia.com/gpu": 4, corev1.ResourcePods: 0}
	assert.Equal(t, "cpu=1500m, memory=1Gi, nvidia.com/gpu=4", l.String())
	assert.Equal(t, "1500m cpu, 1Gi memory, 4 nvidia.com/gpu", l.InWords())
}

func TestArithmeticSaturates(t *testing.T) {
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
		b := rapid.Int64Min(math.MinInt64+1).Draw(t, "b")
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
