package clients

import (
	"context"
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
