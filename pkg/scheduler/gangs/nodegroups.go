package gangs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
)

// NodeGroupsOf are the node groups of the queue of a pod and of its ancestors; nil if these name none. If the pod is tried with them, it is
// tried again when they change, unless it is bound by then.
func (q *Quota) NodeGroupsOf(pod *corev1.Pod, tried bool) (path quota.NodeGroupPath) {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	if len(q.nodeGroups) == 0 {
		return nil
	}
	account := q.Groups.AccountOf(pod)
	if g, m := q.t.find(pod.UID); m != nil && g.podGroup.account != "" {
		account = g.podGroup.account
	}
	if account == "" {
		return nil
	}
	for _, queue := range q.Ledger.Path(quota.QueueOf(account)) {
		if groups := q.nodeGroups[queue]; groups != nil {
			path = append(path, groups)
		}
	}
	if tried && len(path) > 0 {
		q.grouped[pod.UID] = pod
	}
	return path
}

// setNodeGroups takes over the node groups of a queue, nil for none. moved says that the queue may have another place in the tree. Pods and
// gangs are tried again that node groups have kept from nodes.
func (q *Quota) setNodeGroups(queue string, groups *quota.NodeGroups, moved bool) gang.Effects {
	last := q.nodeGroups[queue]
	if groups == nil {
		delete(q.nodeGroups, queue)
	} else {
		q.nodeGroups[queue] = groups
	}
	if groups.Equal(last) && (!moved || len(q.nodeGroups) == 0) {
		return gang.Effects{}
	}
	for _, g := range q.t.gangs {
		if g.decision != nil && g.decision.rejectors.Has(quota.NodeGroupPlugin) {
			q.t.apply(g, gang.Only(gang.ToWake))
		}
	}
	return gang.Only(gang.GroupsChanged)
}
