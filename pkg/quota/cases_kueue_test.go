package quota

import "testing"

// TestTakingBackWhatIsBorrowed has queues with a written share, like the nominal quota of Kueue's queues. They lend unused quota to each
// other.
func TestTakingBackWhatIsBorrowed(t *testing.T) {
	play(t, []reclaimCase{
		{"free room needs no eviction", "12", "a d6; b d6", "b 4", "a 6", "free"},
		{"take back what the other borrows", "12", "a d6; b d6", "b 3 x4", "a 6", "b1 b2"},
		{"take back no more than needed", "12", "a d6; b d6", "b 3 x4", "a 3", "b1"},
		{"free room counts first", "12", "a d6; b d6", "b 3 x3", "a 6", "b1"},
		{"never from one within its share", "12", "a d6; b d6", "b 3 x2; a 3 x2", "a 3", "no"},
		{"no reclaim beyond the own share", "12", "a d6; b d6", "b 3 x3; a 3", "a 4", "no"},
		{"reclaim up to exactly the own share", "12", "a d6; b d6", "b 3 x3; a 3", "a 3", "b1"},
		{"a gang larger than the share reclaims nothing", "12", "a d6; b d6", "b 1 x12", "a 7", "no"},
		{"beside a small one, one that takes the rest of the share stays", "5", "a d2; b d3", "b 1; b 4", "a 2", "no"},
		{"alone it goes, though its queue falls below the share", "5", "a d2; b d3", "b 4; b 1", "a 2", "b1"},
		{"one huge pod goes for a small one", "12", "a d1; b d11", "b 12", "a 1", "b1"},
		{"of many small ones, one goes", "12", "a d1; b d11", "b 1 x12", "a 1", "b1"},
		{"a queue within its share stays, a third one pays", "12", "a d4; b d4; c d4", "b 2 x2; c 2 x4", "a 4", "c1 c2"},
		{"two that borrow pay, each down to its share", "12", "a d6; b d3; c d3", "b 3 x2; c 3 x2", "a 6", "b1 c1"},
		{"one of two that borrow is enough", "12", "a d6; b d3; c d3", "b 3 x2; c 3 x2", "a 3", "b1"},
		{"what a third queue lends is not taken by one at its share", "12", "a d4; b d4; c d4", "b 4 x2; a 4", "a 4", "no"},
		{"what was taken back is not taken back again", "12", "a d6; b d6", "a 6; b 3 x2", "b 3 x2", "no"},
		{"a queue that deserves nothing gives all", "12", "a d12; b d0", "b 4 x3", "a 12", "b1 b2 b3"},
		{"and takes nothing", "8", "a d0; b d4", "b 4 x2", "a 4", "no"},
		{"not even from one that deserves nothing either", "8", "a d0; b d0", "b 4 x2", "a 4", "no"},
		{"but it uses what is free", "8", "a d0; b d4", "b 4", "a 4", "free"},
		{"a queue that must not be reclaimed from", "12", "a d6; b d6 keep", "b 3 x4", "a 3", "no"},
		{"a guarantee of another resource is not broken", "6 2gpu", "a d3; b d3 g2gpu", "b 3 1gpu x2", "a 3", "no"},
	})
}

// TestPriorityCountsInTheQueue has units that go by priority, with a star.
func TestPriorityCountsInTheQueue(t *testing.T) {
	play(t, []reclaimCase{
		{"priority does not matter between queues", "12", "a d6; b d6", "b 3 x4 @9", "a 3 @1", "b1"},
		{"nor does a high one help above the share", "12", "a d6; b d6", "b 3 x2 @1; a 3 x2 @9", "a 3 @9", "no"},
		{"in the own queue a lower priority goes", "12", "a d6; b d6", "b 3 x2; a 3 x2 @1", "a 3 @2", "a1*"},
		{"an equal one does not", "12", "a d6; b d6", "b 3 x2; a 3 x2 @2", "a 3 @2", "no"},
		{"the lowest priority of the queue goes", "9", "q c6", "q 2 @-1; q 2 x2", "q 2 @1", "q1*"},
		{"several of low priority go for a large one", "9", "q c6", "q 2 @-1 x2; q 2", "q 4", "q1* q2*"},
		{"none goes if all of a lower priority are not enough", "9", "q c6", "q 2 @-1; q 4", "q 4", "no"},
		{"a small one stays if a larger one is enough", "9", "q c6", "q 1 @-2; q 3 @-1; q 2 @9", "q 3", "q2*"},
		{"only what has the resource that is short", "9 2gpu", "q c6 c2gpu", "q 3; q 2gpu", "q 2gpu @1", "q2*"},
		{"in the own queue while it borrows", "12", "a d3; b d6", "b 6; a 3 x2", "a 3 @1", "a1*"},
		{"own pods of lower priority and what others borrow", "12", "a d6; b d6", "a 3 @1; b 3 x3", "a 6 @2", "no"},
		{"both go if the share is large enough with the own ones", "12", "a d9; b d3", "a 3 @1; b 3 x3", "a 6 @2", "a1* b1"},
		{"a pod of no queue goes by priority", "6", "a d6", "none 3; none 3 @9", "a 3 @5", "none1*"},
		{"for a gang of no queue priority alone counts", "6", "b d0", "b 3 @9; b 3 @1", "none 3 @5", "b2*"},
		{"another user of the queue is in the queue", "6", "a d6", "a/ann 3 @1 x2", "a/bob 3 @2", "a/ann1*"},
		{"the own quota is full, and other queues cannot help", "12", "a c3 d6; b d3", "a 3 @5; b 3 x3", "a 3 @5", "no"},
		{"the own quota is full, and a lower priority goes", "12", "a c3 d6; b d3", "b 3 x3; a 3 @4", "a 3 @5", "a1*"},
	})
}

// TestSharesOfSeveralResources has flavors of nodes as resources of their own.
func TestSharesOfSeveralResources(t *testing.T) {
	play(t, []reclaimCase{
		{"only what has the resource that is asked for", "6 3spot", "a d6 d3spot; b d0 d0spot", "b 3 x2; b 3spot", "a 3spot", "b3"},
		{"each task another resource", "6 6spot", "a d6 d6spot; b d0 d0spot", "b 3spot x2; b 3 x2", "a 3 3spot", "b1 b3"},
		{"the share of what is not asked for may be used up", "12 4gpu", "a d6 d2gpu; b d6 d2gpu", "a 2gpu; b 3 x3", "a 6", "b1"},
		{"one resource beyond the share blocks all", "12 4gpu", "a d6 d2gpu; b d6 d2gpu", "a 2gpu; b 3 x4", "a 3 1gpu", "no"},
		{"then own pods go, and the other resource is borrowed", "12 4gpu", "a d6 d2gpu; b d6 d2gpu", "b 3 x2; a 3 x2; a 2gpu @9", "a 3 1gpu @1", "a1*"},
		{"what is above its share in one resource gives of both", "6 4gpu", "a d3 d2gpu; b d3 d2gpu", "b 3 2gpu x2", "a 3 2gpu", "b1"},
	})
}

// TestSharesInAHierarchy has departments with teams.
func TestSharesInAHierarchy(t *testing.T) {
	play(t, []reclaimCase{
		{"from a sibling", "12", "org d12; a <org d6; b <org d6", "b 3 x4", "a 6", "b1 b2"},
		{"from a cousin whose department borrows", "12", "east d9; a <east d6; b <east d3; west d3; c <west d3", "b 3; c 3 x3", "a 6", "c1 c2"},
		{"not from a cousin whose department is within its share", "12", "east d6; a <east d6; west d6; b <west d6; c <west d2", "c 3 x2; a 3; b 3", "a 6", "no"},
		{"a team within its share stays, its sibling pays", "12", "east d9; a <east d9; west d3; c <west d3; e <west d0", "c 3; e 3 x3", "a 6", "e1 e2"},
		{"a department at its share has only its own teams pay", "15", "east d6; a <east d3; b <east d3; west d6; c <west d6", "c 3 x3; b 3 x2", "a 3", "b1"},
		{"none pays if they are within theirs", "12", "east d6; a <east d3; b <east d6; west d3; c <west d3", "c 3 x2; b 3 x2", "a 3", "no"},
		{"across three levels", "12", "top d12; east <top d6; west <top d6; a <east d6; b <west d3; c <west d3", "b 3 x2; c 3 x2", "a 6", "b1 c1"},
		{"a full department makes room for its own team", "12", "org c6 d6; a <org d3; b <org d3", "b 3 x2", "a 3", "b1"},
		{"not by evicting in another department", "18", "org c6 d6; a <org d3; b <org d6; c d0", "c 3 x2; b 3 x2", "a 3", "no"},
		{"a queue and its own department never evict each other", "6", "org d6; a <org d6", "org 3 x2", "a 3", "no"},
		{"nor the other way round", "6", "org d6; a <org d0", "a 3 x2", "org 3", "no"},
		{"a department that gives nothing protects its teams", "12", "a d6; org d0 keep; b <org d0", "b 3 x4", "a 3", "no"},
		{"but not from each other", "12", "org d12 keep; a <org d6; b <org d6", "b 3 x4", "a 3", "b1"},
	})
}
