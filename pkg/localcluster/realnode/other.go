//go:build !linux

package realnode

import (
	"context"
	"errors"
)

// Run fails: [Check] has said so before.
func Run(context.Context, Config) error { return errors.New("a real node needs Linux") }

// Remove has nothing to remove.
func Remove(string) error { return nil }
