package plugins_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
	mt "github.com/muster-sched/muster/pkg/testing"
)

// distributed is a Job that suits all plugins.
func distributed(name string) *mt.JobWrapper {
	return mt.MakeJob(name).Task(mt.MakeTask("master", 1)).Task(mt.MakeTask("worker", 2)).Task(mt.MakeTask("head", 1))
}

func TestWrongArgumentsAreRefusedByName(t *testing.T) {
	const noPort = "must be a number from 1 to 65535"
	tests := []struct {
		name   string
		plugin string
		args   []string
		want   []string // in the error
	}{
		{"a plugin that does not exist", "horovod", nil, []string{"spec.plugins[horovod]", "unable to find job plugin: horovod", "pytorch"}},
		{"no boolean", "svc", []string{"--publish-not-ready-addresses=perhaps"}, []string{"spec.plugins[svc][0]", "perhaps", "must be true or false"}},
		{"no boolean, in the second place", "svc", []string{"--inject-hosts-env", "--disable-network-policy=2"}, []string{"spec.plugins[svc][1]", "--disable-network-policy=2"}},
		{"ssh: no number", "ssh", []string{"--ssh-port=ssh"}, []string{"spec.plugins[ssh][0]", "--ssh-port=ssh", "must be a number (--ssh-port: the port of sshd)"}},
		{"ssh: no absolute path", "ssh", []string{"--ssh-key-file-path=.ssh"}, []string{"spec.plugins[ssh]", "--ssh-key-file-path=.ssh must be an absolute path"}},
		{"ssh: a colon in the path", "ssh", []string{"--ssh-key-file-path=/a:b"}, []string{"without colons"}},
		{"ssh: half a key", "ssh", []string{"--ssh-private-key=secret"}, []string{"--ssh-public-key must be given"}},
		{"tensorflow: no number", "tensorflow", []string{"--port=http"}, []string{"spec.plugins[tensorflow][0]", noPort}},
		{"tensorflow: no port", "tensorflow", []string{"--port=0"}, []string{"--port=0", noPort}},
		{"pytorch: too large a port", "pytorch", []string{"--port", "65536"}, []string{"spec.plugins[pytorch][0]", "--port 65536", noPort}},
		{"pytorch: a port without its value", "pytorch", []string{"--port"}, []string{"spec.plugins[pytorch][0]", "needs a value"}},
		{"pytorch: no time to wait", "pytorch", []string{"--wait-master-timeout=0"}, []string{"--wait-master-timeout=0", "must be a number from 1"}},
		{"mpi: a negative port", "mpi", []string{"--port=-22"}, []string{"--port=-22", noPort}},
		{"mpi: no such master", "mpi", []string{"--master=launcher"}, []string{"spec.plugins[mpi]", "The specified mpi master task was not found", "launcher"}},
		{"ray: no such head", "ray", []string{"--head=chief"}, []string{"spec.plugins[ray]", "job j doesn't have head task chief"}},
		{"ray: a wrong port", "ray", []string{"--dashboardPort=x"}, []string{"spec.plugins[ray][0]", noPort}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, errs := plugins.For(distributed("j").Plugin(tt.plugin, tt.args...).Obj())
			assert.Nil(t, set)
			require.Len(t, errs, 1)
			for _, want := range tt.want {
				assert.Contains(t, errs[0].Error(), want)
			}
		})
	}
}

func TestKeysAreNeverRepeated(t *testing.T) {
	_, errs := plugins.For(distributed("j").Plugin("ssh", "--ssh-private-key=TOPSECRET", "--ssh-port=x").Obj())
	require.Len(t, errs, 2)
	assert.NotContains(t, errs.ToAggregate().Error(), "TOPSECRET")
	set, errs := plugins.For(distributed("j").Plugin("ssh", "--private-key=TOPSECRET").Obj())
	require.Empty(t, errs)
	require.Len(t, set.Notes(), 1)
	assert.NotContains(t, set.Notes()[0].Message, "TOPSECRET")
}

func TestUnknownArgumentsAreTolerated(t *testing.T) {
	tests := []struct {
		name   string
		plugin string
		args   []string
		want   []string // one part of each note
	}{
		{"an argument of the past", "ssh", []string{"--no-root"}, []string{`"--no-root" of plugin ssh`}},
		{"what comes after it counts", "ssh", []string{"--no-root", "--ssh-port=99999"}, []string{"--no-root", "--ssh-port=99999 of plugin ssh is ignored: 22 is used"}},
		{"a bare word", "svc", []string{"9090"}, []string{`"9090"`}},
		{"an argument with its value beside it", "svc", []string{"-x", "y"}, []string{`"-x"`, `"y"`}},
		{"nothing but dashes", "svc", []string{"--", "-", "--=x"}, []string{`"--"`, `"-"`, `"--"`}},
		{"a long word", "env", []string{"--a-very-long-argument-that-nobody-has-ever-heard-of"}, []string{`"--a-very-long-argument-that-nobody-has-e..."`}},
		{"help", "env", []string{"-h"}, []string{`"-h" of plugin env is ignored: known are none`}},
		{"a public key alone", "ssh", []string{"--ssh-public-key=k"}, []string{"--ssh-public-key of plugin ssh is ignored"}},
		{"pytorch without a master", "pytorch", []string{"--master=chief"}, []string{`no task "chief"`}},
		{"mpi without workers", "mpi", []string{"--worker=hand"}, []string{`no task "hand"`}},
		{"ray without its container", "ray", []string{"--headContainer=main"}, []string{`no container "worker"`}},
		{"ray without its containers", "ray", nil, []string{`no container "head"`, `no container "worker"`}},
		{"tensorflow without tasks of its own", "tensorflow", []string{"--worker=x"}, nil},
		{"nothing wrong", "pytorch", []string{"-port", "80", "--wait-master-enabled", "-master=master"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, errs := plugins.For(distributed("j").Plugin(tt.plugin, tt.args...).Obj())
			require.Empty(t, errs)
			require.Len(t, set.Notes(), len(tt.want))
			for i, want := range tt.want {
				assert.Contains(t, set.Notes()[i].Message, want)
				assert.NotEmpty(t, set.Notes()[i].Reason)
			}
		})
	}
}

func TestNamesThatPluginsCannotUse(t *testing.T) {
	refuse := func(t *testing.T, job *batchv1alpha1.Job, want string) {
		t.Helper()
		_, errs := plugins.For(job)
		require.NotEmpty(t, errs)
		assert.Contains(t, errs.ToAggregate().Error(), want)
	}
	refuse(t, distributed("a.b").Plugin("svc").Obj(), `spec.plugins[svc]: Invalid value: "svc": the Service is named like the Job, "a.b"`)
	refuse(t, distributed("a23456789-123456789-123456789-123456789-123456789-12345").Plugin("ray").Obj(),
		"the Service of the head")

	withMount := distributed("j").Plugin("mpi").Obj()
	withMount.Spec.Tasks[1].Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "keys", MountPath: "/root/.ssh/"}}
	refuse(t, withMount, "spec.plugins[ssh]: Invalid value: \"ssh\": container main of task worker mounts keys at /root/.ssh")

	withVolume := distributed("j").Plugin("svc").Obj()
	withVolume.Spec.Tasks[2].Template.Spec.Volumes = []corev1.Volume{{Name: "j-svc"}}
	refuse(t, withVolume, "task head has a volume j-svc")

	refuse(t, distributed("j").Plugin("svc").Volume(batchv1alpha1.VolumeSpec{MountPath: "/etc/volcano"}).Obj(), "spec.volumes[0] is mounted at /etc/volcano")
}

func TestImpliedPlugins(t *testing.T) {
	set, errs := plugins.For(distributed("j").Plugin("mpi").Obj())
	require.Empty(t, errs)
	assert.Equal(t, map[string]string{"plugin-mpi": "mpi", "plugin-svc": "svc", "plugin-ssh": "ssh"}, set.ControlledResources())
	assert.True(t, set.HasObjects())

	set, errs = plugins.For(distributed("j").Plugin("env").Plugin("hcclrank").Obj())
	require.Empty(t, errs)
	assert.Equal(t, map[string]string{"plugin-env": "env"}, set.ControlledResources())
	assert.False(t, set.HasObjects())

	set, errs = plugins.For(distributed("j").Obj())
	require.Empty(t, errs)
	objects, err := set.Objects(keptKeys)
	require.NoError(t, err)
	assert.Empty(t, objects)
	assert.Empty(t, set.ControlledResources())
}

func TestFitsEnv(t *testing.T) {
	assert.True(t, plugin.FitsEnv("NAME", 128<<10-6))
	assert.False(t, plugin.FitsEnv("NAME", 128<<10-5))
}
