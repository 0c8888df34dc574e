package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// The private key signs, and the line of authorized_keys verifies: a login does the same.
func TestNewKeysFitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		create      func() (map[string][]byte, error)
		block, kind string
	}{
		"ed25519": {newEd25519, "OPENSSH PRIVATE KEY", "ssh-ed25519"},
		"rsa":     {newRSA, "RSA PRIVATE KEY", "ssh-rsa"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := c.create()
			require.NoError(t, err)
			assert.Len(t, data, 3)
			assert.Equal(t, data[publicKey], data[authorizedKeys])
			block, rest := pem.Decode(data[privateKey])
			require.NotNil(t, block)
			assert.Empty(t, rest)
			assert.Equal(t, c.block, block.Type)

			signer, err := ssh.ParsePrivateKey(data[privateKey])
			require.NoError(t, err)
			signature, err := signer.Sign(rand.Reader, []byte("hello"))
			require.NoError(t, err)
			public, _, _, _, err := ssh.ParseAuthorizedKey(data[authorizedKeys])
			require.NoError(t, err)
			assert.Equal(t, c.kind, public.Type())
			require.NoError(t, public.Verify([]byte("hello"), signature))

			again, err := c.create()
			require.NoError(t, err)
			assert.NotEqual(t, data[privateKey], again[privateKey])
		})
	}
}

func TestAnRSAKeyHas2048Bits(t *testing.T) {
	data, err := newRSA()
	require.NoError(t, err)
	key, err := ssh.ParseRawPrivateKey(data[privateKey])
	require.NoError(t, err)
	assert.Equal(t, 2048, key.(*rsa.PrivateKey).N.BitLen())
}

func TestPublicKeyIsWorkedOut(t *testing.T) {
	made, err := newRSA()
	require.NoError(t, err)
	raw, err := ssh.ParseRawPrivateKey(made[privateKey])
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(raw)
	require.NoError(t, err)
	modern, err := newEd25519()
	require.NoError(t, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(other, "", []byte("secret"))
	require.NoError(t, err)
	for name, c := range map[string]struct{ private, public, says string }{
		"PKCS#1":       {private: string(made[privateKey]), public: string(made[publicKey])},
		"PKCS#8":       {private: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), public: string(made[publicKey])},
		"OpenSSH":      {private: string(modern[privateKey]), public: string(modern[publicKey])},
		"a passphrase": {private: string(pem.EncodeToMemory(locked)), says: "has a passphrase"},
		"no key":       {private: "no key", says: "not one in PEM form"},
		"half a key":   {private: strings.ReplaceAll(string(made[privateKey]), "MII", "AAA"), says: "not one in PEM form"},
		"a long key":   {private: string(made[privateKey]) + strings.Repeat("\n", 8<<10), says: "longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			public, err := publicOf(c.private)
			assert.Equal(t, c.public, public)
			if c.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.says)
			}
		})
	}
}

// noSecret is what is known of a Secret that does not exist.
func noSecret(_ string, _ []string, create func() (map[string][]byte, error)) (map[string][]byte, error) {
	return create()
}

func pluginFor(t *testing.T, args ...string) plugin.ObjectMaker {
	t.Helper()
	job := &batchv1alpha1.Job{Spec: batchv1alpha1.JobSpec{Plugins: map[string][]string{Name: args}}}
	request := plugin.NewRequest(job, Name)
	made := New(request)
	errs, notes := request.Findings()
	require.Empty(t, errs)
	require.Empty(t, notes)
	return made.(plugin.ObjectMaker)
}

// A worker of the controller makes ed25519 keys by itself, and leaves RSA keys to its caller. Other Jobs need it meanwhile.
func TestAnRSAKeyIsLeftToTheCaller(t *testing.T) {
	_, err := pluginFor(t).Objects(noSecret)
	require.NoError(t, err)
	rsaPlugin := pluginFor(t, "--ssh-key-type=rsa")
	_, err = rsaPlugin.Objects(noSecret)
	var slow *plugin.SlowSecret
	require.ErrorAs(t, err, &slow)
	data, err := slow.Make()
	require.NoError(t, err)

	objects, err := rsaPlugin.Objects(plugin.SecretsOf(func(name string) map[string][]byte {
		assert.Equal(t, slow.Name, name)
		return data
	}))
	require.NoError(t, err)
	assert.Equal(t, string(data[privateKey]), dataIn(objects))
	assert.Contains(t, dataIn(objects), "RSA PRIVATE KEY")
}

// A key that is there is kept, whatever its type: pods that run know it.
func TestAKeyIsKeptWhateverItsType(t *testing.T) {
	kept := plugin.SecretsOf(func(string) map[string][]byte {
		return map[string][]byte{privateKey: []byte("OLD"), publicKey: []byte("old")}
	})
	for _, args := range [][]string{nil, {"--ssh-key-type=rsa"}} {
		objects, err := pluginFor(t, args...).Objects(kept)
		require.NoError(t, err)
		assert.Equal(t, "OLD", dataIn(objects))
	}
}

func TestAGivenKeyIsUsed(t *testing.T) {
	modern, err := newEd25519()
	require.NoError(t, err)
	objects, err := pluginFor(t, "--ssh-key-type=rsa", "--ssh-private-key="+string(modern[privateKey])).Objects(noSecret)
	require.NoError(t, err)
	assert.Equal(t, string(modern[privateKey]), dataIn(objects))
}

// dataIn returns the private key in the Secret.
func dataIn(objects []plugin.Object) string {
	return string(objects[0].(*corev1.Secret).Data[privateKey])
}
