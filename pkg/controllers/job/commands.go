package job

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// commanded are the actions that a Command may request for a Job.
var commanded = []busv1alpha1.Action{
	busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction, busv1alpha1.RestartJobAction,
	busv1alpha1.TerminateJobAction, busv1alpha1.CompleteJobAction,
}

// commandClient reads and deletes Commands for Jobs.
type commandClient struct {
	muster      versioned.Interface
	recorder    record.EventRecorder
	instruments *instruments
	index       cache.Indexer    // Commands, by the key of the Job that they name
	enqueue     func(key string) // syncs the Job with that key again
}

// commands are the Commands that name a Job.
type commands struct {
	// next is the oldest Command that has not been executed. It is nil if there is none, or while the one before still exists. The status
	// remembers one Command only.
	next    *busv1alpha1.Command
	settled []settledCommand
}

// settledCommand is a Command that only needs to be deleted. It was executed, or it never can be: refusal says why.
type settledCommand struct {
	*busv1alpha1.Command
	refusal string
}

// of returns the Commands for a Job.
func (c *commandClient) of(job *batchv1alpha1.Job) *commands {
	o := &commands{}
	handled := false
	for _, command := range c.commandsFor(keyOf(job)) {
		switch {
		case string(command.UID) == job.Status.HandledCommand:
			handled = true
			o.settle(command, "")
		case command.DeletionTimestamp != nil:
		case plan.IsDeleted(job):
			o.settle(command, "the job is being deleted")
		case command.TargetObject.UID != job.UID:
			o.settle(command, fmt.Sprintf("it is for another job of this name, with UID %s", command.TargetObject.UID))
		case !slices.Contains(commanded, busv1alpha1.Action(command.Action)):
			o.settle(command, fmt.Sprintf("a job knows no action %q: use one of %v", command.Action, commanded))
		case o.next == nil:
			o.next = command
		}
	}
	if handled {
		o.next = nil
	}
	return o
}

func (o *commands) settle(command *busv1alpha1.Command, refusal string) {
	o.settled = append(o.settled, settledCommand{command, refusal})
}

// commandsFor returns the Commands that name the Job with that key, oldest first.
func (c *commandClient) commandsFor(key string) []*busv1alpha1.Command {
	commands := indexed[*busv1alpha1.Command](c.index, byTargetJob, key)
	slices.SortFunc(commands, worker.CompareAge)
	return commands
}

// commandsPerSync is how many Commands are deleted in one sync. A Job may be given thousands.
const commandsPerSync = 30

// deleteSettled deletes Commands that are settled, and reports why some of them were refused. It leaves the rest to another sync.
func (c *commandClient) deleteSettled(ctx context.Context, t *jobSync) error {
	asked, left := sets.New[types.UID](), commandsPerSync
	for _, command := range t.commands.settled {
		switch {
		case t.local.commands.Has(command.UID):
		case left == 0:
			c.enqueue(keyOf(t.job))
			continue
		default:
			left--
			if err := c.settle(ctx, command, t.job); err != nil {
				return err
			}
		}
		asked.Insert(command.UID)
	}
	t.local.commands = asked
	return nil
}

// settle deletes a Command. If it was refused, an event on an object says why.
func (c *commandClient) settle(ctx context.Context, command settledCommand, on runtime.Object) error {
	err := c.muster.BusV1alpha1().Commands(command.Namespace).Delete(ctx, command.Name, *metav1.NewPreconditionDeleteOptions(string(command.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Command %s: %w", command.Name, err)
	}
	if command.refusal != "" {
		c.instruments.commands.WithLabelValues("ignored").Inc()
		c.recorder.Eventf(on, corev1.EventTypeWarning, eventCommandIgnored, "Command %s is not executed: %s", command.Name, command.refusal)
	}
	return nil
}

// isStillAsked asks the API server whether a Command is still there. A Command that another controller has executed is gone, though the
// informer may still show it.
func (c *commandClient) isStillAsked(ctx context.Context, command *busv1alpha1.Command) bool {
	current, err := c.muster.BusV1alpha1().Commands(command.Namespace).Get(ctx, command.Name, metav1.GetOptions{})
	return err == nil && current.UID == command.UID && current.DeletionTimestamp == nil
}

// drop deletes the Commands for a Job that does not exist, and reports that by events on them. It asks the API server about that
// first: the informer of Jobs may be behind that of Commands.
func (c *commandClient) drop(ctx context.Context, namespace, name string) error {
	commands := c.commandsFor(namespace + "/" + name)
	if len(commands) == 0 {
		return nil
	}
	_, err := c.muster.BatchV1alpha1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	for _, command := range commands[:min(commandsPerSync, len(commands))] {
		if err := c.settle(ctx, settledCommand{command, "there is no job " + name}, command); err != nil {
			return err
		}
	}
	if len(commands) > commandsPerSync {
		c.enqueue(namespace + "/" + name)
	}
	return nil
}

// jobOfCommand returns the key of the Job that a Command names: one of the Command's own namespace.
func jobOfCommand(command *busv1alpha1.Command) []string {
	if !batchv1alpha1.IsJob(command.TargetObject) {
		return nil
	}
	return []string{command.Namespace + "/" + command.TargetObject.Name}
}
