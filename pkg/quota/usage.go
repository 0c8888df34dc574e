package quota

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Limits are the capability of a queue. For a resource that the queue does not name, its nearest ancestor's counts.
func (t *Tree) Limits(name string) resources.List {
	limits := resources.List{}
	for _, node := range t.path(t.find(name)) {
		for resource, limit := range node.terms.Capability {
			if _, named := limits[resource]; !named {
				limits[resource] = limit
			}
		}
	}
	return limits
}

// Terms are what a queue says about its share; the zero Terms for one that is not declared.
func (t *Tree) Terms(name string) Terms { return t.find(name).terms }

// Scarcest is the resource of which the largest part of a limit is used, the first by name of several. It is "" if there are no limits.
func Scarcest(used resources.Sums, limits resources.List) corev1.ResourceName {
	var scarcest corev1.ResourceName
	var most Ratio
	for resource, limit := range limits {
		ratio := Ratio{max(0, used.Amount(resource)), max(0, limit)}
		if order := ratio.Compare(most); scarcest == "" || order > 0 || order == 0 && resource < scarcest {
			scarcest, most = resource, ratio
		}
	}
	return scarcest
}

// UserUse is what a user has of a queue.
type UserUse struct {
	// User is the name of the user.
	User string
	// Used and assumed by the user.
	Used resources.List
}

// Users lists the users that use part of a queue itself, by the largest part of one of its resources.
func (t *Tree) Users(name string) []UserUse {
	var users []UserUse
	total := t.find(name).total.List()
	ratios := map[string]Ratio{}
	for account, q := range t.queues {
		if queue, user := splitAccount(account); user != "" && queue == name && !q.own.IsZero() {
			users = append(users, UserUse{user, q.own.List()})
			ratios[user] = ratioOf(q.own, total)
		}
	}
	slices.SortFunc(users, func(a, b UserUse) int {
		return cmp.Or(ratios[b.User].Compare(ratios[a.User]), cmp.Compare(a.User, b.User))
	})
	return users
}
