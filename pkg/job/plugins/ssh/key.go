package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Types of keys.
const (
	// typeEd25519 is what every OpenSSH since 6.5, of 2014, takes, whatever the name of the file.
	typeEd25519 = "ed25519"
	// typeRSA is for images with something else: OpenSSH in FIPS mode, or a program that takes id_rsa by its name.
	typeRSA = "rsa"
)

const rsaBits = 2048

// maxParsedBytes bounds the length of a private key whose public key is computed. An RSA key of 4096 bits takes 3.2 kB. Checking an
// invented key of this length takes 0.3 seconds, and eight times as long at twice the length.
const maxParsedBytes = 4 << 10

// newEd25519 makes an ed25519 key, as the data of the Job's Secret. It holds the private key in the PEM form of OpenSSH, and the public
// one as a line of authorized_keys. It takes a fraction of a millisecond.
func newEd25519() (map[string][]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating an ssh key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, fmt.Errorf("writing an ssh key: %w", err)
	}
	return dataOf(block, key.Public())
}

// newRSA makes an RSA key of 2048 bits, the private one in PKCS#1 PEM form. It takes some tenths of a second of a processor.
func newRSA() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, fmt.Errorf("generating an ssh key: %w", err)
	}
	return dataOf(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, key.Public())
}

func dataOf(private *pem.Block, public any) (map[string][]byte, error) {
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("writing a public ssh key: %w", err)
	}
	return keyData(string(pem.EncodeToMemory(private)), string(ssh.MarshalAuthorizedKey(key))), nil
}

// publicOf returns the line of authorized_keys that belongs to a private key in PEM form.
func publicOf(private string) (string, error) {
	if len(private) > maxParsedBytes {
		return "", fmt.Errorf("as the private key is longer than %d bytes", maxParsedBytes)
	}
	key, err := ssh.ParsePrivateKey([]byte(private))
	var hasPassphrase *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &hasPassphrase):
		return "", errors.New("as the private key has a passphrase")
	case err != nil:
		return "", errors.New("as the private key is not one in PEM form that OpenSSH reads")
	}
	return string(ssh.MarshalAuthorizedKey(key.PublicKey())), nil
}
