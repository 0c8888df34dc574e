package localcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStartGroups(t *testing.T) {
	tests := map[string]struct {
		components []Component
		want       [][]string
		wantErr    string
	}{
		"nothing": {},
		"independent components start together": {
			components: []Component{{Name: "a"}, {Name: "b"}},
			want:       [][]string{{"a", "b"}},
		},
		"a component comes after all that it needs": {
			components: []Component{
				{Name: "top", After: []string{"left", "right"}},
				{Name: "left", After: []string{"base"}},
				{Name: "right", After: []string{"base"}},
				{Name: "base"},
			},
			want: [][]string{{"base"}, {"left", "right"}, {"top"}},
		},
		"a need that is not there": {
			components: []Component{{Name: "a", After: []string{"b"}}},
			wantErr:    "component a needs b, which is not part of the cluster",
		},
		"a circle": {
			components: []Component{{Name: "a"}, {Name: "b", After: []string{"c"}}, {Name: "c", After: []string{"b"}}},
			wantErr:    "in a circle: b, c",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			groups, err := startGroups(test.components)
			if test.wantErr != "" {
				require.ErrorContains(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			var got [][]string
			for _, group := range groups {
				got = append(got, names(group))
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestComponentsOf(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    []string
	}{
		"everything": {
			want: []string{Etcd, KubeAPIServer, KubeControllerManager, KWOK, MusterScheduler, MusterController},
		},
		"the control plane": {
			options: Options{ControlPlaneOnly: true},
			want:    []string{Etcd, KubeAPIServer, KubeControllerManager},
		},
		"an older cluster keeps its own scheduler": {
			options: Options{KubernetesVersion: OlderVersions[0]},
			want:    []string{Etcd, KubeAPIServer, KubeControllerManager, KWOK, KubeScheduler, MusterScheduler, MusterController},
		},
		"the control plane of an older cluster": {
			options: Options{KubernetesVersion: OlderVersions[0], ControlPlaneOnly: true},
			want:    []string{Etcd, KubeAPIServer, KubeControllerManager},
		},
		"the stock scheduler in place of ours": {
			options: Options{Scheduler: KubeScheduler, Without: []string{MusterController, KWOK}},
			want:    []string{Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(BinDirVariable, t.TempDir())
			test.options.Dir = t.TempDir()
			test.options.ExtraArgs = map[string][]string{Etcd: {"--extra"}}
			options, err := test.options.complete()
			require.NoError(t, err)
			layout, err := makeLayout(options)
			require.NoError(t, err)
			defer layout.ports.releaseAll()

			components := componentsOf(layout)
			assert.Equal(t, test.want, names(components))
			assert.Equal(t, "--extra", components[0].Args[len(components[0].Args)-1])
			_, err = startGroups(components)
			require.NoError(t, err)
			for _, component := range components {
				assert.NotNil(t, component.Ready, component.Name)
			}
		})
	}
}
