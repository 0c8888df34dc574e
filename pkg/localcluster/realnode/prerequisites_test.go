package realnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheck(t *testing.T) {
	all := func(string) bool { return true }
	without := func(missing ...string) func(string) bool {
		return func(name string) bool {
			for _, m := range missing {
				if name == m {
					return false
				}
			}
			return true
		}
	}
	tests := map[string]struct {
		dir  string
		on   machine
		want string
	}{
		"all is there": {"/tmp/m", machine{"linux", true, all}, ""},
		"another system": {"/tmp/m", machine{"darwin", true, all},
			"a real node needs Linux, and this is darwin: leave out --real-node"},
		"an ordinary user": {"/tmp/m", machine{"linux", false, all},
			"a real node needs root: run this as root, or leave out --real-node"},
		"two programs of one package": {"/tmp/m", machine{"linux", true, without("ctr", "containerd", "/usr/lib/cni/bridge")},
			"a real node needs containerd, ctr, /usr/lib/cni/bridge: " +
				"run `apt-get install --no-install-recommends containerd containernetworking-plugins`, or leave out --real-node"},
		"a folder that the node hides": {"/var/lib/m", machine{"linux", true, all},
			"the folder of a cluster with a real node must not be in /var/lib: give another folder than /var/lib/m"},
		"a folder that only begins like one": {"/var/library/m", machine{"linux", true, all}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := check(test.dir, test.on)
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, test.want)
		})
	}
}

func TestIdentity(t *testing.T) {
	a, b := identityOf("/tmp/a/internal/node"), identityOf("/tmp/b/internal/node")
	assert.NotEqual(t, a, b, "two clusters can run side by side")
	assert.Equal(t, a, identityOf("/tmp/a/internal/node"), "what is left can be found again")
	for _, id := range []identity{a, b} {
		assert.LessOrEqual(t, len(id.name), 15, "the kernel takes no longer names of interfaces")
		assert.Equal(t, id.hostIP.Next(), id.nodeIP)
		host := id.hostIP.As4()
		assert.Contains(t, []byte{18, 19}, host[1])
		assert.Equal(t, byte(1), host[3]%4, "the first address of a /30 network")
	}
}
