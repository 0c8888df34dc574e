package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates returns the root certificates that Mozilla trusts, in PEM. They come from a Go module, so that each machine builds the
// same image. A root that Mozilla trusts with constraints is left out, because a file cannot hold constraints.
func certificates() ([]byte, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if text.Len() == 0 {
		return nil, errors.New("golang.org/x/crypto/x509roots has no certificates")
	}
	return text.Bytes(), nil
}
