package clients

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// CheckPreconditions makes a fake client refuse deletions as the API server does. It answers with a conflict, if the object has another UID or
// resource version than the deletion asks for. Fake clients do not look at either.
func CheckPreconditions(fake *clienttesting.Fake, tracker clienttesting.ObjectTracker) {
	fake.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		wanted := deletion.DeleteOptions.Preconditions
		object, err := tracker.Get(action.GetResource(), action.GetNamespace(), deletion.Name)
		if err != nil || wanted == nil {
			return false, nil, nil //nolint:nilerr // what the fake client does about it is right
		}
		live, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		if wanted.UID != nil && *wanted.UID != live.GetUID() || wanted.ResourceVersion != nil && *wanted.ResourceVersion != live.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), deletion.Name, errors.New("the precondition is not met"))
		}
		return false, nil, nil
	})
}
