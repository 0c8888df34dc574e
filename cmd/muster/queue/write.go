package queue

import (
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// terms are the flags for what a Queue may have.
type terms struct {
	parent                          string
	weight, priority                int32
	capability, deserved, guarantee map[string]string
}

func (t *terms) addFlags(command *cobra.Command, connection *kube.Connection) {
	flags := command.Flags()
	flags.StringVar(&t.parent, "parent", "", "Queue above it (default: root)")
	flags.Int32Var(&t.weight, "weight", 1, "weight among its siblings")
	flags.Int32Var(&t.priority, "priority", 0, "priority among its siblings; higher goes first")
	flags.StringToStringVar(&t.capability, "capability", nil, "the most that it uses, such as cpu=64,nvidia.com/gpu=8")
	flags.StringToStringVar(&t.deserved, "deserved", nil, "its share, which it can take back from others")
	flags.StringToStringVar(&t.guarantee, "guarantee", nil, "what others never take from it")
	connection.CompleteFlag(command, "parent", kube.Queues)
}

// isSet says whether the user has given one of the flags.
func (t *terms) isSet(command *cobra.Command) bool {
	for _, flag := range []string{"parent", "weight", "priority", "capability", "deserved", "guarantee"} {
		if command.Flag(flag).Changed {
			return true
		}
	}
	return false
}

// apply writes to a Queue what the user has given. An amount of 0 takes the resource out of its list.
func (t *terms) apply(command *cobra.Command, spec *schedulingv1beta1.QueueSpec) error {
	changed := func(flag string) bool { return command.Flag(flag).Changed }
	if changed("parent") {
		spec.Parent = t.parent
	}
	if changed("weight") {
		spec.Weight = t.weight
	}
	if changed("priority") {
		spec.Priority = t.priority
	}
	for _, list := range []struct {
		flag    string
		written map[string]string
		into    *corev1.ResourceList
	}{
		{"capability", t.capability, &spec.Capability}, {"deserved", t.deserved, &spec.Deserved}, {"guarantee", t.guarantee, &spec.Guarantee.Resource},
	} {
		amounts, err := kube.Quantities(list.flag, list.written)
		if err != nil {
			return err
		}
		*list.into = merged(*list.into, amounts)
	}
	return nil
}

// merged returns a copy of list in which amounts replaces quantities. A quantity of 0 removes its resource.
func merged(list, amounts corev1.ResourceList) corev1.ResourceList {
	next := maps.Clone(list)
	for name, amount := range amounts {
		if next == nil {
			next = corev1.ResourceList{}
		}
		if amount.IsZero() {
			delete(next, name)
		} else {
			next[name] = amount
		}
	}
	return next
}

func newCreateCommand(connection *kube.Connection) *cobra.Command {
	t := &terms{}
	command := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a Queue",
		Example: `  muster queue create team-a --capability cpu=64,memory=256Gi --deserved cpu=32`,
		Args:    kube.ExactlyOne("queue"),
		RunE: func(command *cobra.Command, names []string) error {
			queue := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: names[0]}}
			if err := t.apply(command, &queue.Spec); err != nil {
				return err
			}
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			_, err = clients.Muster.SchedulingV1beta1().Queues().Create(command.Context(), queue, metav1.CreateOptions{})
			if err == nil {
				fmt.Fprintf(command.OutOrStdout(), "queue %s created\n", queue.Name)
			}
			return err
		},
	}
	t.addFlags(command, connection)
	return command
}

func newSetCommand(connection *kube.Connection) *cobra.Command {
	t := &terms{}
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what a Queue may have",
		Long:  "Change what a Queue may have. What no flag names stays as it is; an amount of 0 takes\nthe limit of that resource away.",
		Example: `  muster queue set team-a --capability cpu=96
  muster queue set team-a --capability memory=0     # memory has no limit any more`,
		Args: kube.ExactlyOne("queue"),
		RunE: func(command *cobra.Command, names []string) error {
			if !t.isSet(command) {
				return errors.New("say what to change: --capability, --deserved, --guarantee, --parent, --weight or --priority")
			}
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			queues, ctx := clients.Muster.SchedulingV1beta1().Queues(), command.Context()
			err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
				queue, err := queues.Get(ctx, names[0], metav1.GetOptions{})
				if err != nil {
					return err
				}
				if err := t.apply(command, &queue.Spec); err != nil {
					return err
				}
				_, err = queues.Update(ctx, queue, metav1.UpdateOptions{})
				return err
			})
			if err == nil {
				fmt.Fprintf(command.OutOrStdout(), "queue %s changed\n", names[0])
			}
			return err
		},
	}
	t.addFlags(command, connection)
	connection.Complete(command, kube.Queues)
	return command
}

func newDeleteCommand(connection *kube.Connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "delete NAME...",
		Short:   "Delete Queues that no Job and no other Queue is in",
		Example: `  muster queue delete team-a`,
		Args:    kube.AtLeastOne("queue"),
		RunE: func(command *cobra.Command, names []string) error {
			clients, err := connection.Clients()
			if err != nil {
				return err
			}
			return kube.EachName(names, func(name string) error {
				err := clients.Muster.SchedulingV1beta1().Queues().Delete(command.Context(), name, metav1.DeleteOptions{})
				if err == nil {
					fmt.Fprintf(command.OutOrStdout(), "queue %s deleted\n", name)
				}
				return err
			})
		},
	}
	connection.Complete(command, kube.Queues)
	return command
}
