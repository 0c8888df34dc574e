package clients

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Change reads an object, changes it and writes it. It does so again if something else has written the object meanwhile, such as a controller.
// Get and update are methods of a typed client.
func Change[T any](
	ctx context.Context, name string,
	get func(context.Context, string, metav1.GetOptions) (T, error),
	update func(context.Context, T, metav1.UpdateOptions) (T, error),
	change func(T),
) error {
	often := wait.Backoff{Steps: 50, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.1, Cap: time.Second}
	return retry.RetryOnConflict(often, func() error {
		object, err := get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(object)
		_, err = update(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// Delete deletes an object. Now and then the API server reads anew which kinds there are. For a moment it does not find the kind of a policy's
// parameters then, and refuses. So it is asked again. Remove is a method of a typed client.
func Delete(ctx context.Context, name string, remove func(context.Context, string, metav1.DeleteOptions) error) error {
	isUnsettled := func(err error) bool {
		return strings.Contains(err.Error(), "failed to find resource referenced by paramKind")
	}
	return retry.OnError(wait.Backoff{Steps: 300, Duration: 200 * time.Millisecond}, isUnsettled, func() error {
		return remove(ctx, name, metav1.DeleteOptions{})
	})
}
