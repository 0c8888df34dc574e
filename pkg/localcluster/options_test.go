package localcluster

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestOptionsValidate(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    []string // parts of the error; none means valid
	}{
		"defaults": {},
		"GPUs":     {options: Options{NodeResources: map[string]string{"nvidia.com/gpu": "8"}}},
		"too few nodes": {
			options: Options{Nodes: -1},
			want:    []string{"nodes: -1 is not between 0 and 10000"},
		},
		"no quantity": {
			options: Options{NodeCPU: "eight"},
			want:    []string{`node resource cpu: "eight" is not a quantity`},
		},
		"a negative quantity": {
			options: Options{NodeMemory: "-1Gi"},
			want:    []string{"node resource memory: -1Gi is negative"},
		},
		"no resource name": {
			options: Options{NodeResources: map[string]string{"a b": "1"}},
			want:    []string{`node resource "a b"`},
		},
		"everything wrong is told at once": {
			options: Options{Nodes: MaxNodes + 1, Scheduler: "best", Without: []string{"etcd"}, KubernetesVersion: "v1.2.3"},
			want: []string{"nodes: 10001", `scheduler: "best"`, `without: "etcd" is none of kwok`,
				`MUSTER_KUBERNETES_VERSION: "v1.2.3" is none of v1.37.2, v1.35.4, v1.36.3`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(BinDirVariable, t.TempDir())
			test.options.Dir = "here"
			options, err := test.options.complete()
			require.NoError(t, err)
			assert.True(t, filepath.IsAbs(options.Dir))

			err = options.validate()
			if len(test.want) == 0 {
				require.NoError(t, err)
			}
			for _, part := range test.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestOptionsNeedAFolder(t *testing.T) {
	_, err := Options{}.complete()
	require.ErrorContains(t, err, "no folder given")
}

func TestNodeCapacity(t *testing.T) {
	options := Options{NodeCPU: "2", NodeMemory: "4Gi", NodeResources: map[string]string{"nvidia.com/gpu": "1", "pods": "500"}}
	capacity, err := options.nodeCapacity()
	require.NoError(t, err)
	for name, want := range map[corev1.ResourceName]string{"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1", "pods": "500"} {
		got := capacity[name]
		assert.Zero(t, got.Cmp(resource.MustParse(want)), "%s: %s", name, got.String())
	}
}

func TestNextNodeNumber(t *testing.T) {
	tests := map[string]struct {
		nodes []string
		want  int
	}{
		"none":                      {want: 0},
		"in order":                  {nodes: []string{"node-0", "node-1"}, want: 2},
		"after a gap":               {nodes: []string{"node-7", "node-2"}, want: 8},
		"other names do not count":  {nodes: []string{"node-0", "node-x", "worker-9", "node--5"}, want: 1},
		"by number, not by letters": {nodes: []string{"node-9", "node-10"}, want: 11},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var nodes []corev1.Node
			for _, name := range test.nodes {
				node := corev1.Node{}
				node.Name = name
				nodes = append(nodes, node)
			}
			assert.Equal(t, test.want, nextNodeNumber(nodes))
		})
	}
}

func TestTheVersionOfKubernetes(t *testing.T) {
	t.Setenv(BinDirVariable, t.TempDir())
	for variable, want := range map[string]string{"": KubernetesVersion, "v1.36.3": "v1.36.3"} {
		t.Setenv(VersionVariable, variable)
		options, err := Options{Dir: "here"}.complete()
		require.NoError(t, err)
		assert.Equal(t, want, options.KubernetesVersion)
		require.NoError(t, options.validate())
	}
	options, err := Options{Dir: "here", KubernetesVersion: "v1.35.4", RealNode: true}.complete()
	require.NoError(t, err)
	require.ErrorContains(t, options.validate(), "real-node: its kubelet v1.37.2 is newer than the API server v1.35.4")
}
