package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/muster-sched/muster/manifests"
)

// usedElsewhere are rights that the tests of this package may leave unused, by what needs them.
var usedElsewhere = map[string][]string{
	"PhJobs; test/integration/phjob": {
		`ClusterRole "muster-controller": create phjobs.primehub.io`,
		`ClusterRole "muster-controller": delete phjobs.primehub.io`,
		`ClusterRole "muster-controller": get images.primehub.io`,
		`ClusterRole "muster-controller": get instancetypes.primehub.io`,
		`ClusterRole "muster-controller": update phjobs/status.primehub.io`,
		`ClusterRole "muster-controller": update phschedules/status.primehub.io`,
	},
	"faults of objects of the network's topology; test/integration/program": {
		`ClusterRole "muster-controller": patch hypernodes/status.topology.volcano.sh`,
		`ClusterRole "muster-controller": patch networktopologies/status.muster.sh`,
	},
	"owners of pods without a PodGroup": {
		`ClusterRole "muster-controller": get daemonsets.apps`,
		`ClusterRole "muster-controller": get jobs.batch`,
		`ClusterRole "muster-controller": get replicasets.apps`,
		`ClusterRole "muster-controller": get replicationcontrollers`,
		`ClusterRole "muster-controller": get statefulsets.apps`,
	},
	"an informer that is behind, when an object exists already or was changed": {
		`ClusterRole "muster-controller": get configmaps`,
		`ClusterRole "muster-controller": get jobs.batch.volcano.sh`,
		`ClusterRole "muster-controller": get networkpolicies.networking.k8s.io`,
		`ClusterRole "muster-controller": get persistentvolumeclaims`,
		`ClusterRole "muster-controller": get podgroups.scheduling.volcano.sh`,
		`ClusterRole "muster-controller": get queues.scheduling.volcano.sh`,
		`ClusterRole "muster-controller": get rolebindings.rbac.authorization.k8s.io`,
		`ClusterRole "muster-controller": get services`,
	},
	"an object of a Job that a user has changed": {
		`ClusterRole "muster-controller": update networkpolicies.networking.k8s.io`,
		`ClusterRole "muster-controller": update rolebindings.rbac.authorization.k8s.io`,
		`ClusterRole "muster-controller": update services`,
		`ClusterRole "muster-controller-secrets": update secrets`,
	},
	"checks that the API server makes during another request": {
		`ClusterRole "muster-controller": bind clusterroles.rbac.authorization.k8s.io`,
		`ClusterRole "muster-controller": update jobs/finalizers.batch.volcano.sh`,
		`ClusterRole "muster-controller": update phjobs/finalizers.primehub.io`,
		`ClusterRole "muster-controller": update phschedules/finalizers.primehub.io`,
		`ClusterRole "muster-controller": use queues.scheduling.volcano.sh`,
	},
	"users who read the metrics": {
		`ClusterRole "muster-controller": create subjectaccessreviews.authorization.k8s.io`,
		`ClusterRole "muster-controller": create tokenreviews.authentication.k8s.io`,
	},
	"evictions from a queue that is above its capability; test/integration/scheduler": {
		`ClusterRole "muster-scheduler": create pods/eviction`,
	},
	"questions when a Job would start; test/e2e/cli": {
		`ClusterRole "muster-scheduler": delete startreviews.muster.sh`,
		`ClusterRole "muster-scheduler": get startreviews.muster.sh`,
		`ClusterRole "muster-scheduler": patch startreviews/status.muster.sh`,
		`Role "muster-scheduler": get configmaps`,
	},
	"leader election of the scheduler; test/real/install": {
		`Role "muster-scheduler": create leases.coordination.k8s.io`,
		`Role "muster-scheduler": get leases.coordination.k8s.io`,
		`Role "muster-scheduler": update leases.coordination.k8s.io`,
	},
}

// checkRights returns an error if the shipped roles have a right that no test used. The log is the record of what Muster's programs asked of
// the API server.
func checkRights(auditLog string) error {
	log, err := os.Open(auditLog)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer log.Close()
	used, err := usedRights(log)
	if err != nil {
		return err
	}
	shipped, err := shippedRights()
	if err != nil {
		return err
	}
	if used.Len() == 0 {
		return errors.New("the audit log has no request of Muster's programs")
	}
	elsewhere := sets.New(slices.Concat(slices.Collect(maps.Values(usedElsewhere))...)...)
	var errs []error
	for _, right := range sets.List(shipped.Difference(used).Difference(elsewhere)) {
		errs = append(errs, fmt.Errorf("no test has used this right: remove it from manifests/rbac, or say in usedElsewhere what needs it: %s", right))
	}
	for _, right := range sets.List(elsewhere.Difference(shipped)) {
		errs = append(errs, fmt.Errorf("no role has this right, so remove it from usedElsewhere: %s", right))
	}
	return errors.Join(errs...)
}

// allowed finds in the API server's reason the role that allowed a request.
var allowed = regexp.MustCompile(`^RBAC: allowed by .* of ((?:Cluster)?Role "[^"]+")`)

// usedRights returns the rights by which the requests in an audit log were allowed, as rightOf writes them.
func usedRights(log io.Reader) (sets.Set[string], error) {
	used := sets.New[string]()
	decoder := json.NewDecoder(log)
	for {
		var event struct {
			Verb        string
			User        struct{ Username string }
			ObjectRef   struct{ APIGroup, Resource, Subresource string }
			Annotations map[string]string
		}
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last line may still be being written
			return used, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		role := allowed.FindStringSubmatch(event.Annotations["authorization.k8s.io/reason"])
		if role == nil {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		for _, verb := range together(event.Verb) {
			used.Insert(rightOf(ownRole(role[1], event.User.Username), verb, resource, event.ObjectRef.APIGroup))
		}
	}
}

// ownRole returns the role that stands for a request of user. The API server names one role that allows a request. Where all users have the
// same right from muster-queue-readers, it may name that role for a program too. Then it stands for the program's own ClusterRole.
func ownRole(role, user string) string {
	if role != `ClusterRole "muster-queue-readers"` {
		return role
	}
	return fmt.Sprintf("ClusterRole %q", user[strings.LastIndex(user, ":")+1:])
}

// together are the verbs that a program needs if it uses one. An informer needs both of two, and uses one of them.
func together(verb string) []string {
	if informer := []string{"list", "watch"}; slices.Contains(informer, verb) {
		return informer
	}
	return []string{verb}
}

// shippedRights returns the rights in the roles of Muster's programs.
func shippedRights() (sets.Set[string], error) {
	shipped := sets.New[string]()
	for _, name := range []string{"rbac/controller.yaml", "rbac/scheduler.yaml"} {
		data, err := fs.ReadFile(manifests.FS, name)
		if err != nil {
			return nil, fmt.Errorf("reading the roles: %w", err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
		for {
			var role rbacv1.ClusterRole // a Role has the same fields
			err := decoder.Decode(&role)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			addRights(shipped, &role)
		}
	}
	return shipped, nil
}

func addRights(rights sets.Set[string], role *rbacv1.ClusterRole) {
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights.Insert(rightOf(fmt.Sprintf("%s %q", role.Kind, role.Name), verb, resource, group))
				}
			}
		}
	}
}

// rightOf writes a right as `ClusterRole "muster-controller": get jobs.batch.volcano.sh`.
func rightOf(role, verb, resource, group string) string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %s %s.%s", role, verb, resource, group), ".")
}
