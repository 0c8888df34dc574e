package ssh

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

const keyBits = 2048

// NewKey makes an RSA key of 2048 bits, as the data of the Job's Secret: the private key in PKCS#1 PEM form, and the
// public one as a line of authorized_keys. It takes some tenths of a second of a processor.
func NewKey() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("generating an ssh key: %w", err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return keyData(string(private), authorizedKey(&key.PublicKey)), nil
}

// authorizedKey returns the line of authorized_keys for a key, in the form of RFC 4253, section 6.6.
func authorizedKey(key *rsa.PublicKey) string {
	const kind = "ssh-rsa"
	var blob []byte
	add := func(part []byte) {
		blob = binary.BigEndian.AppendUint32(blob, uint32(len(part)))
		blob = append(blob, part...)
	}
	add([]byte(kind))
	add(positive(big.NewInt(int64(key.E))))
	add(positive(key.N))
	return kind + " " + base64.StdEncoding.EncodeToString(blob) + "\n"
}

// positive returns the bytes of a number so that it does not read as a negative one.
func positive(n *big.Int) []byte {
	bytes := n.Bytes()
	if len(bytes) > 0 && bytes[0]&0x80 != 0 {
		return append([]byte{0}, bytes...)
	}
	return bytes
}

// publicOf returns the line of authorized_keys that belongs to an RSA key in PEM form.
func publicOf(private string) (string, error) {
	block, _ := pem.Decode([]byte(private))
	if block == nil {
		return "", errors.New("as the private key is not in PEM form")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return authorizedKey(&key.PublicKey), nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", errors.New("as the private key is neither in PKCS#1 nor in PKCS#8 form")
	}
	if own, ok := key.(*rsa.PrivateKey); ok {
		return authorizedKey(&own.PublicKey), nil
	}
	return "", errors.New("as the private key is no RSA key")
}
