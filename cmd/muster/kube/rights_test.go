package kube

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAMissingRightIsSaidPlainly: in one sentence, with the remedy. Refusals by admission policies stay as they are.
func TestAMissingRightIsSaidPlainly(t *testing.T) {
	queues := schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "queues"}
	for want, err := range map[string]error{
		"user ann may not list queues.scheduling.volcano.sh in the whole cluster: ask an administrator for the ClusterRole muster-queue-readers": apierrors.NewForbidden(
			queues, "", errors.New(`User "ann" cannot list resource "queues" in API group "scheduling.volcano.sh" at the cluster scope`)),
		"reading: user ann may not update queues.scheduling.volcano.sh in the whole cluster: ask an administrator for that right": fmt.Errorf("reading: %w", apierrors.NewForbidden(
			queues, "red", errors.New(`User "ann" cannot update resource "queues" in API group "scheduling.volcano.sh" at the cluster scope`))),
		`user ann may not list pods in the namespace "red": ask an administrator for that right`: apierrors.NewForbidden(
			schema.GroupResource{Resource: "pods"}, "", errors.New(`User "ann" cannot list resource "pods" in API group "" in the namespace "red"`)),
		`queues.scheduling.volcano.sh "red" is forbidden: no such plan`: apierrors.NewForbidden(queues, "red", errors.New("no such plan")),
	} {
		assert.Equal(t, want, Say(err))
	}
}
