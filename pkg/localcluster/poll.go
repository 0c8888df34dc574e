package localcluster

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const pollInterval = 50 * time.Millisecond

// ignoreOverload makes a poll go on where the API server is overloaded.
func ignoreOverload(err error) error {
	if apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) {
		return nil
	}
	return err
}
