package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// serving is an API server that serves some resources by version.
func serving(lists map[string][]string) *discoveryfake.FakeDiscovery {
	client := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	for version, names := range lists {
		list := &metav1.APIResourceList{GroupVersion: version}
		for _, name := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		client.Resources = append(client.Resources, list)
	}
	return client
}

func TestFirstMissing(t *testing.T) {
	client := serving(map[string][]string{"primehub.io/v1alpha1": {"phjobs", "images"}})
	for want, resources := range map[string][]string{"": {"phjobs", "images"}, "phschedules": {"phjobs", "phschedules", "instancetypes"}} {
		missing, err := firstMissing(t.Context(), client, primehubv1alpha1.SchemeGroupVersion, resources...)
		require.NoError(t, err)
		assert.Equal(t, want, missing)
	}
	missing, err := firstMissing(t.Context(), serving(nil), primehubv1alpha1.SchemeGroupVersion, "phjobs")
	require.NoError(t, err)
	assert.Equal(t, "phjobs", missing, "no version of the group is served")
}

// TestTheQuestionWhatIsServedIsRepeated: an API server that is starting or busy does not end the program.
func TestTheQuestionWhatIsServedIsRepeated(t *testing.T) {
	client := serving(map[string][]string{"primehub.io/v1alpha1": {"phjobs"}})
	asked := 0
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return asked <= 2, nil, apierrors.NewServiceUnavailable("starting")
	})
	missing, err := firstMissing(t.Context(), client, primehubv1alpha1.SchemeGroupVersion, "phjobs")
	require.NoError(t, err)
	assert.Empty(t, missing)
	assert.Equal(t, 3, asked)

	ctx, stop := context.WithCancel(t.Context())
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		stop()
		return true, nil, apierrors.NewServiceUnavailable("starting")
	})
	_, err = firstMissing(ctx, client, primehubv1alpha1.SchemeGroupVersion, "phjobs")
	require.ErrorIs(t, err, context.Canceled)
}

// TestMissingDefaultsAreTold: the answers are those of the API servers of 1.36 and of 1.35, without and with its beta policies.
func TestMissingDefaultsAreTold(t *testing.T) {
	mutating, validating := "mutatingadmissionpolicies", "validatingadmissionpolicies"
	for name, c := range map[string]struct {
		v1, v1beta1 []string
		told        bool
	}{
		"1.36":           {v1: []string{mutating, validating}},
		"1.35":           {v1: []string{validating}, told: true},
		"1.35 with beta": {v1: []string{validating}, v1beta1: []string{mutating}},
	} {
		served := map[string][]string{"admissionregistration.k8s.io/v1": c.v1}
		if c.v1beta1 != nil {
			served["admissionregistration.k8s.io/v1beta1"] = c.v1beta1
		}
		var log bytes.Buffer
		ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
		require.NoError(t, tellMissingDefaults(ctx, serving(served)))
		assert.Equal(t, c.told, bytes.Contains(log.Bytes(), []byte("Kubernetes before 1.36")), name)
	}
}
