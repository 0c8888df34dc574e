package queue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	open    = schedulingv1beta1.QueueStateOpen
	closed  = schedulingv1beta1.QueueStateClosed
	closing = schedulingv1beta1.QueueStateClosing
	unknown = schedulingv1beta1.QueueStateUnknown
)

func TestStates(t *testing.T) {
	tests := []struct {
		state                     schedulingv1beta1.QueueState
		busy                      bool
		onOpen, onClose, onFollow schedulingv1beta1.QueueState
	}{
		{"", false, open, closed, open},
		{"", true, open, closing, open},
		{open, false, open, closed, open},
		{open, true, open, closing, open},
		{closing, false, open, closed, closed},
		{closing, true, open, closing, closing},
		{closed, false, open, closed, closed},
		{closed, true, open, closed, closed},
		{unknown, false, open, closed, unknown},
		{unknown, true, open, closing, unknown},
	}
	for _, test := range tests {
		f := facts{state: test.state, busy: test.busy}
		assert.Equal(t, test.onOpen, f.reopen().follow().state, "%+v opened", f)
		assert.Equal(t, test.onClose, f.close(false).follow().state, "%+v closed", f)
		assert.Equal(t, test.onFollow, f.follow().state, "%+v left alone", f)
	}
}

func TestWhichQueuesTakeNoJobs(t *testing.T) {
	for _, test := range []struct {
		facts facts
		why   string
	}{
		{facts{}, ""},
		{facts{state: open}, ""},
		{facts{state: closing}, "closed"},
		{facts{state: closed}, "closed"},
		{facts{state: unknown}, "closed"},
		{facts{state: open, parent: true}, "parent"},
		{facts{parent: true}, "parent"},
		{facts{state: closed, parent: true}, "closed"},
		{facts{state: open, root: true}, "parent"},
	} {
		assert.Equal(t, test.why, test.facts.takesNoJobs(), "%+v", test.facts)
	}
}

func TestChildrenFollowTheirParent(t *testing.T) {
	tests := map[string]struct{ before, after facts }{
		"the parent closes": {
			facts{state: open, parentShut: true},
			facts{state: closed, parentShut: true, closedByParent: true},
		},
		"the parent closes over work": {
			facts{state: open, parentShut: true, busy: true},
			facts{state: closing, parentShut: true, busy: true, closedByParent: true},
		},
		"a new child of a closed parent": {
			facts{state: "", parentShut: true},
			facts{state: closed, parentShut: true, closedByParent: true},
		},
		"the parent opens": {
			facts{state: closed, closedByParent: true},
			facts{state: open},
		},
		"the parent opens before the child was closed": {
			facts{state: open, closedByParent: true},
			facts{state: open},
		},
		"the parent opens, but the child was closed by itself": {
			facts{state: closed},
			facts{state: closed},
		},
		"the parent stays closed": {
			facts{state: closed, parentShut: true, closedByParent: true},
			facts{state: closed, parentShut: true, closedByParent: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.after, test.before.follow())
			assert.Equal(t, test.after, test.before.follow().follow(), "following twice changes nothing")
		})
	}
}

func TestObey(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Parent("p").Obj()
	queue.UID = "the-uid"
	tests := map[string]struct {
		before  facts
		actions []string // "Action" or "Action uid"
		after   facts
		toEmit  []string // the beginnings of their messages
	}{
		"close":                     {facts{state: open}, []string{"CloseQueue"}, facts{state: closed}, []string{"Close queue succeed"}},
		"close over work":           {facts{state: open, busy: true}, []string{"CloseQueue"}, facts{state: closing, busy: true}, []string{"Close queue succeed"}},
		"open":                      {facts{state: closed}, []string{"OpenQueue"}, facts{state: open}, nil},
		"in order":                  {facts{state: open}, []string{"CloseQueue", "OpenQueue"}, facts{state: open}, []string{"Close"}},
		"repeated after a crash":    {facts{state: open}, []string{"CloseQueue", "OpenQueue", "CloseQueue"}, facts{state: closed}, []string{"Close", "Close"}},
		"open below a shut parent":  {facts{state: closed, parentShut: true}, []string{"OpenQueue"}, facts{state: closed, parentShut: true}, []string{"Failed to open queue q because its parent queue p is closing or closed."}},
		"close what is shut anyway": {facts{state: closed, closedByParent: true, parentShut: true}, []string{"CloseQueue"}, facts{state: closed, parentShut: true}, []string{"Close"}},
		"close the root":            {facts{state: open, root: true}, []string{"CloseQueue"}, facts{state: open, root: true}, []string{"Failed to close queue root"}},
		"nonsense":                  {facts{state: open}, []string{"AbortJob"}, facts{state: open}, []string{`Command ns/c asks for "AbortJob"`}},
		"for a queue that is gone":  {facts{state: open}, []string{"CloseQueue other"}, facts{state: open}, []string{"Command ns/c is for another queue of this name"}},
		"by UID":                    {facts{state: open}, []string{"CloseQueue the-uid"}, facts{state: closed}, []string{"Close"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var commands []*busv1alpha1.Command
			for _, action := range test.actions {
				word, uid, _ := strings.Cut(action, " ")
				command := commandFor("q", word)
				command.TargetObject.UID = mustertesting.MakePod("x").UID(uid).Obj().UID
				commands = append(commands, command)
			}
			after, toEmit := obey(test.before, queue, commands)
			assert.Equal(t, test.after, after)
			if assert.Len(t, toEmit, len(test.toEmit)) {
				for i, n := range toEmit {
					assert.True(t, strings.HasPrefix(n.message, test.toEmit[i]), n.message)
				}
			}
		})
	}
}

func commandFor(queue, action string) *busv1alpha1.Command {
	return &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Action:       action,
		TargetObject: &metav1.OwnerReference{APIVersion: "scheduling.volcano.sh/v1beta1", Kind: "Queue", Name: queue},
	}
}

func TestTargetQueue(t *testing.T) {
	name, ok := targetQueue(commandFor("q", "CloseQueue"))
	assert.True(t, ok)
	assert.Equal(t, "q", name)
	for what, change := range map[string]func(*busv1alpha1.Command){
		"no target":     func(c *busv1alpha1.Command) { c.TargetObject = nil },
		"a Job":         func(c *busv1alpha1.Command) { c.TargetObject.Kind = "Job" },
		"another group": func(c *busv1alpha1.Command) { c.TargetObject.APIVersion = "example.com/v1" },
		"no version":    func(c *busv1alpha1.Command) { c.TargetObject.APIVersion = "a/b/c" },
	} {
		command := commandFor("q", "CloseQueue")
		change(command)
		_, ok := targetQueue(command)
		assert.False(t, ok, what)
	}
}

func TestOlder(t *testing.T) {
	a, b := commandFor("q", "CloseQueue"), commandFor("q", "OpenQueue")
	a.ResourceVersion, b.ResourceVersion = "9", "10"
	assert.Negative(t, worker.CompareAge(a, b))
	assert.Positive(t, worker.CompareAge(b, a))
}

func TestCountPhases(t *testing.T) {
	var status schedulingv1beta1.QueueStatus
	status.Pending = 7
	var groups []*schedulingv1beta1.PodGroup
	for phase, n := range map[schedulingv1beta1.PodGroupPhase]int{"": 1, "Pending": 2, "Inqueue": 3, "Running": 4, "Unknown": 5, "Completed": 6} {
		for range n {
			groups = append(groups, mustertesting.MakePodGroup("g").Phase(phase).Obj())
		}
	}
	assert.True(t, countPhases(&status, groups))
	assert.Equal(t, schedulingv1beta1.QueueStatus{Pending: 3, Inqueue: 3, Running: 4, Unknown: 5, Completed: 6}, status)
	assert.False(t, countPhases(&status, []*schedulingv1beta1.PodGroup{mustertesting.MakePodGroup("g").Phase("Completed").Obj()}))
	assert.False(t, countPhases(&status, nil))
}
