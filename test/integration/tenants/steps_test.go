package tenants_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// applies creates objects by server-side apply.
func applies(text string) func(*court) error {
	return func(c *court) error {
		for _, object := range parse(c.text(text)) {
			if _, err := c.red.objects(object).Apply(c.ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "red"}); err != nil {
				return err
			}
		}
		return nil
	}
}

// commands creates a Command on an object, whose name may have a namespace before it.
func commands(action, kind, name string) func(*court) error {
	return func(c *court) error {
		object := parse(c.text(`{kind: Command, action: ` + action + `, target: {kind: ` + kind + `}}`))[0]
		target := object.Object["target"].(map[string]any)
		target["apiVersion"], target["uid"] = apiVersions[kind], c.uid(kind, name)
		target["name"] = strings.TrimPrefix(c.text(name), c.blue.name+"/")
		_, err := c.red.objects(object).Create(c.ctx, object, noOptions)
		return err
	}
}

// eventually repeats a try until the API server knows of new rights, so that the error is about something else.
func eventually(try func(*court) error, about string) func(*court) error {
	return func(c *court) error {
		var err error
		c.soon("an answer about "+about, func() string {
			if err = try(c); apierrors.IsForbidden(err) && !strings.Contains(err.Error(), c.text(about)) {
				return err.Error()
			}
			return ""
		})
		return err
	}
}

// atTheEnd does something before the row is cleaned up.
func atTheEnd(do func(*court) error) func(*court) error {
	return func(c *court) error {
		c.atEnd = append(c.atEnd, do)
		return nil
	}
}

// uid of an object, whose name may have a namespace before it.
func (c *court) uid(kind, name string) string {
	c.Helper()
	namespace, base := split(c.text(name))
	object, err := c.admin().in(gvrOf(kind), namespace).Get(c.ctx, base, metav1.GetOptions{})
	c.must(err)
	return string(object.GetUID())
}

// groupOf is the name of the PodGroup of red's Job.
func (c *court) groupOf(job string) string {
	c.Helper()
	return job + "-" + c.uid("Job", job)
}

// replicasRefused waits until the ReplicaSet of red's Deployment says why it makes no pods.
func replicasRefused(why string) func(*court) {
	return func(c *court) {
		c.Helper()
		c.soon("a ReplicaSet whose pods are refused", func() string {
			list, err := env.Kube.AppsV1().ReplicaSets(c.red.name).List(c.ctx, metav1.ListOptions{})
			c.must(err)
			text := "there is none"
			for i := range list.Items {
				for _, condition := range list.Items[i].Status.Conditions {
					if text = condition.Message; strings.Contains(text, c.text(why)) {
						return ""
					}
				}
			}
			return text
		})
	}
}

// charged checks what is written on a pod of red.
func charged(pod, account string) func(*court) {
	return func(c *court) {
		c.Helper()
		require.Equal(c, c.text(account), c.pod(pod).Annotations[chargedTo])
	}
}

// afterUses waits until red's queue is charged for so much cpu.
func afterUses(cpu string) func(*court) error {
	return func(c *court) error {
		uses(cpu)(c)
		return nil
	}
}

// admitted waits until a PodGroup of red is admitted.
func admitted(name string) func(*court) error {
	return func(c *court) error {
		group := types.NamespacedName{Namespace: c.red.name, Name: name}
		c.soon("PodGroup "+name+" is admitted", func() string {
			if state := log.Group(group); state.Phase != schedulingv1beta1.PodGroupInqueue {
				return fmt.Sprint(state)
			}
			return ""
		})
		return nil
	}
}

// presets are the image and the instance type of red's PhJobs.
var presets = byAdmin(`{kind: Image, metadata: {name: base}, spec: {url: base}}
---
{kind: InstanceType, metadata: {name: cpu}, spec: {limits.cpu: 1, limits.memory: 1G}}`)

// phJob is a PhJob with that image and instance type.
func phJob(group, user string) string {
	return `{kind: PhJob, spec: {displayName: a, command: sleep infinity, image: base, instanceType: cpu, groupId: ` + group + `, groupName: ` + group +
		`, userId: ` + user + `, userName: ` + user + `}}`
}

// repeats creates objects again and again. $i in their names is the number.
func repeats(n int, text string) func(*court) error {
	return func(c *court) error {
		for i := range n {
			if err := creates(strings.ReplaceAll(text, "$i", strconv.Itoa(i)))(c); err != nil {
				return err
			}
		}
		return nil
	}
}

// class is a priority class that is above that of others' pods.
func class(c *court) error {
	err := c.admin().create(c.ctx, `{kind: PriorityClass, metadata: {name: court-high}, value: 1000}`)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// classRefused has a ResourceQuota that refuses red's pods of class court-high.
func classRefused(c *court) error {
	c.must(class(c))
	return byAdmin(`{kind: ResourceQuota, metadata: {name: class}, spec: {hard: {pods: "0"},
		scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [court-high]}]}}}`)(c)
}

// closed closes red's queue until the row ends.
func closed(c *court) error {
	c.atEnd = append(c.atEnd, order("OpenQueue", schedulingv1beta1.QueueStateOpen))
	c.must(order("CloseQueue", schedulingv1beta1.QueueStateClosed)(c))
	job := parse(c.text(gang))[0]
	c.soon("the API server knows that the queue is closed", func() string {
		if _, err := c.red.objects(job).Create(c.ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return "it takes a Job"
		}
		return ""
	})
	return nil
}

// order has red's queue opened or closed.
func order(action string, state schedulingv1beta1.QueueState) func(*court) error {
	return func(c *court) error {
		c.must(byAdmin(`{kind: Command, metadata: {generateName: a-}, action: ` + action + `, target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue,
			name: $red, uid: ` + c.uid("Queue", "$red") + `}}`)(c))
		c.soon("the queue is "+string(state), func() string {
			queue, err := env.Muster.SchedulingV1beta1().Queues().Get(c.ctx, c.red.name, metav1.GetOptions{})
			c.must(err)
			return strings.TrimPrefix(string(queue.Status.State), string(state))
		})
		return nil
	}
}

// deadNode is a node that no kubelet looks after, until the row ends.
func deadNode(c *court) error {
	c.atEnd = append(c.atEnd, func(c *court) error { return c.admin().remove(c.ctx, "Node", c.text("$red-dead")) })
	return byAdmin(`{kind: Node, metadata: {name: $red-dead}}`)(c)
}

// deletedAsAGangComes creates a PodGroup in a new queue, and deletes the queue before its status tells of the PodGroup. It is repeated
// until the deletion comes in time. Then the pods come.
func deletedAsAGangComes(c *court) error {
	c.must(byAdmin(`{kind: Queue, metadata: {name: $red-gone}, spec: {parent: $parent, capability: {cpu: 8}}}`)(c))
	c.soon("the queue is deleted before it knows of the PodGroup", func() string {
		gone, err := env.Muster.SchedulingV1beta1().Queues().Get(c.ctx, c.red.name+"-gone", metav1.GetOptions{})
		c.must(err)
		if s := gone.Status; s.State != schedulingv1beta1.QueueStateOpen || s.Pending+s.Inqueue > 0 {
			return fmt.Sprint(s)
		}
		c.must(byAdmin(`{kind: PodGroup, spec: {queue: $red-gone, minMember: 2}}`)(c))
		c.must(log.Wait(c.ctx, func() bool {
			return log.Group(types.NamespacedName{Namespace: c.red.name, Name: "try"}).Phase == schedulingv1beta1.PodGroupInqueue
		}))
		if err := c.admin().remove(c.ctx, "Queue", c.text("$red-gone")); err != nil {
			c.must(c.admin().remove(c.ctx, "PodGroup", "try"))
			return err.Error()
		}
		return ""
	})
	return after(byAdmin(member), byAdmin(strings.Replace(member, "metadata: {", "metadata: {name: more, ", 1)))(c)
}

// service is a pod outside all queues, in no tenant's namespace. It has most of the memory of a node, and runs until the row ends.
func service(node string) func(*court) error {
	return func(c *court) error {
		c.must(byAdmin(`{kind: Pod, metadata: {namespace: default, name: $red-service}, spec: {nodeSelector: {kubernetes.io/hostname: ` + node + `},
			containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: 100Gi}}}]}}`)(c))
		c.atEnd = append(c.atEnd, func(c *court) error { return c.admin().remove(c.ctx, "Pod", c.text("default/$red-service")) })
		c.soon("the service runs", func() string { return c.serviceState() })
		return nil
	}
}

// serviceRuns checks that the service was not evicted.
func serviceRuns(c *court) {
	c.Helper()
	require.Empty(c, c.serviceState())
}

// serviceState says what is amiss with the service, "" for nothing.
func (c *court) serviceState() string {
	pod, err := env.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(c.ctx, c.text("$red-service"), metav1.GetOptions{})
	switch {
	case err != nil:
		return err.Error()
	case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning:
		return fmt.Sprint(pod.Status)
	}
	return ""
}

// stillRuns checks that a pod of red runs, and was not evicted.
func stillRuns(name string) func(*court) {
	return func(c *court) {
		c.Helper()
		pod := c.pod(name)
		require.Nil(c, pod.DeletionTimestamp)
		require.Equal(c, corev1.PodRunning, pod.Status.Phase)
	}
}

// greenBorrows has green use more than its share until the row ends, with memory of a node.
func greenBorrows(node string) func(*court) error {
	return func(c *court) error {
		task := mustertesting.MakeTask("worker", 6).Requests("cpu", "1", "memory", "24Gi").NodeSelector(corev1.LabelHostname, node)
		awaitJob(c.T, c.green.run(c.T, mustertesting.MakeJob("borrows").Task(task)), batchv1alpha1.Running)
		c.atEnd = append(c.atEnd, func(c *court) error {
			c.end(c.green, "borrows")
			return nil
		})
		return nil
	}
}
