package phjob

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// TestOnlyWhatWasSeenIsDeleted: an object of the same name that came later stays. Each deletion of the controller has a row.
func TestOnlyWhatWasSeenIsDeleted(t *testing.T) {
	named := func(uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID(uid), ResourceVersion: "1"}
	}
	for _, uid := range []string{"seen", "later"} {
		kube := kubefake.NewSimpleClientset(&corev1.Pod{ObjectMeta: named(uid)})
		muster := musterfake.NewSimpleClientset(&schedulingv1beta1.PodGroup{ObjectMeta: named(uid)}, &primehubv1alpha1.PhJob{ObjectMeta: named(uid)})
		clients.CheckPreconditions(&kube.Fake, kube.Tracker())
		clients.CheckPreconditions(&muster.Fake, muster.Tracker())
		groups := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byOwner: func(any) ([]string, error) { return []string{"owner"}, nil }})
		require.NoError(t, groups.Add(&schedulingv1beta1.PodGroup{ObjectMeta: named("seen")}))
		c := &Controller{kube: kube, muster: muster, groupIndex: groups}
		owner := &primehubv1alpha1.PhJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "owner"}}

		for kind, row := range map[string]struct {
			deletes func() error
			get     func() error
		}{
			"pod": {
				func() error { return c.deletePod(t.Context(), &corev1.Pod{ObjectMeta: named("seen")}) },
				func() error {
					_, err := kube.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
					return err
				},
			},
			"PodGroup": {
				func() error { return c.deleteGroups(t.Context(), owner, "") },
				func() error {
					_, err := muster.SchedulingV1beta1().PodGroups("ns").Get(t.Context(), "a", metav1.GetOptions{})
					return err
				},
			},
			"PhJob": {
				func() error { return c.deleteRecord(t.Context(), &primehubv1alpha1.PhJob{ObjectMeta: named("seen")}) },
				func() error {
					_, err := muster.PrimehubV1alpha1().PhJobs("ns").Get(t.Context(), "a", metav1.GetOptions{})
					return err
				},
			},
		} {
			require.NoError(t, row.deletes(), kind)
			assert.Equal(t, uid == "later", row.get() == nil, "the %s that was %s is there", kind, uid)
		}
	}
}
