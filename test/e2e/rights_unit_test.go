package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARightThatAllUsersHaveIsCountedForItsProgram guards against chance: the API server may name either of two roles that allow a request.
func TestARightThatAllUsersHaveIsCountedForItsProgram(t *testing.T) {
	const request = `{"verb":"watch","user":{"username":"system:serviceaccount:muster-system:muster-controller"},` +
		`"objectRef":{"resource":"queues","apiGroup":"scheduling.volcano.sh"},"annotations":{"authorization.k8s.io/reason":` +
		`"RBAC: allowed by ClusterRoleBinding \"ROLE\" of ClusterRole \"ROLE\" to Group \"system:authenticated\""}}`
	for _, role := range []string{"muster-queue-readers", "muster-controller"} {
		used, err := usedRights(strings.NewReader(strings.ReplaceAll(request, "ROLE", role)))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{
			`ClusterRole "muster-controller": list queues.scheduling.volcano.sh`,
			`ClusterRole "muster-controller": watch queues.scheduling.volcano.sh`,
		}, used.UnsortedList(), role)
	}
}
