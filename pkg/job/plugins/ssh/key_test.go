package ssh

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewKey(t *testing.T) {
	data, err := NewKey()
	require.NoError(t, err)
	block, rest := pem.Decode(data[privateKey])
	require.NotNil(t, block)
	assert.Empty(t, rest)
	assert.Equal(t, "RSA PRIVATE KEY", block.Type)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, 2048, key.N.BitLen())

	assert.Equal(t, data[publicKey], data[authorizedKeys])
	kind, exponent, modulus := readAuthorizedKey(t, string(data[publicKey]))
	assert.Equal(t, "ssh-rsa", kind)
	assert.Equal(t, int64(key.E), exponent.Int64())
	assert.Zero(t, key.N.Cmp(modulus))

	again, err := NewKey()
	require.NoError(t, err)
	assert.NotEqual(t, data[privateKey], again[privateKey])
}

// readAuthorizedKey reads a line of authorized_keys: its fields stand behind their lengths, and are not negative.
func readAuthorizedKey(t *testing.T, line string) (kind string, exponent, modulus *big.Int) {
	t.Helper()
	text, ok := strings.CutPrefix(line, "ssh-rsa ")
	require.True(t, ok)
	text, ok = strings.CutSuffix(text, "\n")
	require.True(t, ok)
	blob, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	var fields [][]byte
	for len(blob) > 0 {
		size := binary.BigEndian.Uint32(blob)
		fields, blob = append(fields, blob[4:4+size]), blob[4+size:]
	}
	require.Len(t, fields, 3)
	assert.Zero(t, fields[2][0]&0x80, "a set first bit means a negative number")
	return string(fields[0]), new(big.Int).SetBytes(fields[1]), new(big.Int).SetBytes(fields[2])
}

func TestPublicKeyIsWorkedOut(t *testing.T) {
	data, err := NewKey()
	require.NoError(t, err)
	public, err := publicOf(string(data[privateKey]))
	require.NoError(t, err)
	assert.Equal(t, string(data[publicKey]), public)

	block, _ := pem.Decode(data[privateKey])
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	public, err = publicOf(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	require.NoError(t, err)
	assert.Equal(t, string(data[publicKey]), public)

	_, err = publicOf("no key")
	require.ErrorContains(t, err, "not in PEM form")
	_, err = publicOf(strings.ReplaceAll(string(data[privateKey]), "MII", "AAA"))
	require.ErrorContains(t, err, "neither in PKCS#1 nor in PKCS#8")
}
