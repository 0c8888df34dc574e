package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// TestNothingIsSaidOfWhatMayNotBeRead: a page makes no answer of an empty list that only stands for a missing right. The finding stands
// on the user's own PodGroup.
func TestNothingIsSaidOfWhatMayNotBeRead(t *testing.T) {
	f := waitingJob()
	f.Unread, f.Queues = []Part{PartQueues}, nil
	for name, page := range map[string]Page{"Job": Job(f), "PodGroup": PodGroup(f)} {
		assert.Equal(t, []string{"Nothing that was found rules it out."}, section(page, "Can it ever run?"), name)
		assert.Equal(t, []string{PartQueues.Sentence()}, section(page, "What is missing here?"), name)
		assert.Len(t, section(page, "Why does it wait?"), 2, name)
	}
}

// TestNothingIsBeforeItWithoutTheRightToLook: the own PodGroup is not "the only one that waits" because no other may be read.
func TestNothingIsBeforeItWithoutTheRightToLook(t *testing.T) {
	for _, part := range []Part{PartGroups, PartPriorities} {
		f := waitingJob()
		f.Unread = []Part{part}
		assert.Empty(t, section(Job(f), headingBefore), part)
	}
}

// TestThePlaceOnThePodGroupIsSaid (issue 44, 1): to users who may read their own namespace only.
func TestThePlaceOnThePodGroupIsSaid(t *testing.T) {
	amount := resource.MustParse
	f := waitingJob()
	f.Unread, f.Queues, f.Nodes, f.Bound, f.Groups = []Part{PartQueues, PartGroups, PartPriorities, PartNodes, PartPods}, nil, nil, nil, nil
	f.Group.Status.Place = &schedulingv1beta1.PodGroupPlace{
		Position: 3, FoundAt: metav1.NewTime(now.Add(-5 * time.Second)),
		Short:  &schedulingv1beta1.QuotaShortage{Queue: "dept", Resource: "cpu", Limit: amount("8"), Free: amount("2"), Asked: amount("4"), Missing: amount("2")},
		Shares: []schedulingv1beta1.ShareOfQueue{{Resource: "cpu", Used: amount("6"), Share: amount("7"), BorrowedByOthers: amount("3")}},
	}
	page := Job(f)
	assert.Equal(t, 3, page.Wait.Position)
	assert.Equal(t, []string{"It is the 3rd that waits in queue team (found 5s ago)."}, section(page, headingBefore))
	assert.Equal(t, []string{"Queue team uses 6 cpu of its share of 7; other queues use 3 more than their shares (found 5s ago)."}, section(page, headingShare))

	f.Group.Status.Place.Position = 50
	assert.Equal(t, []string{"It is one of the first 50 that wait in queue team (found 5s ago)."}, section(Job(f), headingBefore))
	f.Group.Status.Phase = schedulingv1beta1.PodGroupRunning
	assert.Nil(t, f.place(), "a place is not of what runs")
}

// TestAQueueWithoutTheRightToReadOtherNamespaces names the PodGroups of the own namespace.
func TestAQueueWithoutTheRightToReadOtherNamespaces(t *testing.T) {
	f := waitingJob()
	f.Unread = []Part{PartGroups}
	f.Own, f.Groups = f.Groups, nil
	f.Own[0].Status.Place = &schedulingv1beta1.PodGroupPlace{Position: 3, FoundAt: metav1.NewTime(now.Add(-5 * time.Second))}
	page := Queue(f, "team")
	assert.Empty(t, section(page, "What waits, and in which order?"))
	assert.Equal(t, []string{"Job ml/training: the 3rd that waits in queue team (found 5s ago); " + f.Own[0].Status.Conditions[1].Message}, section(page, "What runs and waits in your namespace?"))
	assert.Equal(t, []string{PartGroups.Sentence()}, section(page, "What is missing here?"))
}
