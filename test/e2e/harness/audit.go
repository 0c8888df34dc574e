package harness

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// auditPolicy has the API server record every request of Muster's programs, without its content.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:muster-system"]
- level: None
`

// recordRequests has the API server of a cluster write an audit log to a folder, and returns the file.
func recordRequests(options *localcluster.Options, dir string) (string, error) {
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return "", fmt.Errorf("writing the audit policy: %w", err)
	}
	// The maximum in megabytes is not reached, so the log stays one file.
	flags := []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-maxsize=100000"}
	extra := maps.Clone(options.ExtraArgs)
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[localcluster.KubeAPIServer] = slices.Concat(extra[localcluster.KubeAPIServer], flags)
	options.ExtraArgs = extra
	return log, nil
}
