package queue

import (
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// facts are the inputs for the state of a queue.
type facts struct {
	state schedulingv1beta1.QueueState
	// closedByParent says that the queue was closed because its parent was.
	closedByParent bool
	// root says that the queue is the root, which cannot be closed.
	root bool
	// parentShut says that the parent is Closing or Closed.
	parentShut bool
	// busy says that the queue has PodGroups that are not completed.
	busy bool
	// parent says that the queue has children.
	parent bool
}

// follow is the state and the mark of a queue without a Command. A child follows its parent, and a closing queue becomes Closed once it is
// empty.
func (f facts) follow() facts {
	switch {
	case f.parentShut && f.open():
		return f.close(true)
	case !f.parentShut && f.closedByParent:
		return f.reopen()
	}
	switch f.state {
	case "":
		f.state = schedulingv1beta1.QueueStateOpen
	case schedulingv1beta1.QueueStateClosing:
		f.state = f.shutState()
	}
	return f
}

// close is the result of CloseQueue, or of the closing of the parent.
func (f facts) close(byParent bool) facts {
	f.closedByParent = byParent
	if f.state != schedulingv1beta1.QueueStateClosed {
		f.state = f.shutState()
	}
	return f
}

// reopen is the result of OpenQueue, or of the opening of the parent.
func (f facts) reopen() facts {
	f.closedByParent = false
	f.state = schedulingv1beta1.QueueStateOpen
	return f
}

func (f facts) open() bool {
	return f.state == "" || f.state == schedulingv1beta1.QueueStateOpen
}

func (f facts) shutState() schedulingv1beta1.QueueState {
	if f.busy {
		return schedulingv1beta1.QueueStateClosing
	}
	return schedulingv1beta1.QueueStateClosed
}

// takesNoJobs is the value of the label that says why the queue takes no Jobs; "" if it takes them.
func (f facts) takesNoJobs() string {
	switch {
	case !f.open():
		return schedulingv1beta1.TakesNoJobsClosed
	case f.root, f.parent:
		return schedulingv1beta1.TakesNoJobsParent
	}
	return ""
}
