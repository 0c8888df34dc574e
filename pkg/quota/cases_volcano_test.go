package quota

import "testing"

// TestCapability has queues as Volcano's plugin capacity bounds them.
func TestCapability(t *testing.T) {
	play(t, []reclaimCase{
		{"up to the capability", "9", "q c4", "q 2", "q 2", "free"},
		{"not beyond it", "9", "q c4", "q 2", "q 3", "no"},
		{"without one, the whole cluster", "9", "q d1", "q 2", "q 7", "free"},
		{"that of the parent", "9", "org c4; q <org", "q 2", "q 3", "no"},
		{"that of the parent, where the child's is larger", "9", "org c4; q <org c8", "q 2", "q 3", "no"},
		{"a sibling uses that of the parent", "9", "org c4 d4; a <org d1; b <org d3", "b 3", "a 2", "no"},
		{"a sibling above its share gives it back", "9", "org c4 d4; a <org d2; b <org d2", "b 2 x2", "a 2", "b1"},
		{"a resource that it does not name", "9 2gpu", "q c1gpu", "q 2", "q 4", "free"},
		{"nothing asked for", "9", "q c2", "q 2", "q 0", "free"},
	})
}

// TestDeserved has queues above and below what they deserve.
func TestDeserved(t *testing.T) {
	play(t, []reclaimCase{
		{"exactly what it deserves is not above", "6", "a d3; b d6", "b 3 x2", "a 3", "no"},
		{"above in a resource that is not asked for", "6 2gpu", "a d2gpu d3; b d2gpu d3", "b 3 1gpu x2", "a 1gpu", "no"},
		{"above in one of the two that are asked for", "6 2gpu", "a d2gpu d3; b d2gpu d3", "b 3 1gpu x2", "a 3 1gpu", "b1"},
		{"a pod without the resource that is above stays", "6 4gpu", "a d3 d4gpu; b d6 d0gpu", "b 3 x2; b 2gpu x2", "a 2gpu", "b3"},
		{"by weight where nothing is written", "12", "a w1; b w1", "b 3 x4", "a 6", "b1 b2"},
		{"by weights of one and three", "12", "a w1; b w3", "b 3 x4", "a 3", "b1"},
		{"no more than the weight gives", "12", "a w1; b w3", "b 3 x4", "a 6", "no"},
		{"a guarantee is deserved at least", "12", "a g8; b", "b 3 x4", "a 8", "b1 b2 b3"},
		{"a guarantee is kept", "12", "a w9; b g6", "b 3 x4", "a 7", "no"},
		{"up to the guarantee of the other", "12", "a w9; b g6", "b 3 x4", "a 6", "b1 b2"},
		{"more is deserved than there is", "12", "a d10; b d10", "b 2 x6", "a 2", "b1"},
		{"then a queue goes down to what it deserves and no further", "12", "a d10; b d10", "b 2 x6", "a 4", "no"},
		{"a capability below what is deserved bounds it", "12", "a d8; b d10 c4", "b 4 x3", "a 8", "b1 b2"},
	})
}

// TestEveryLevelIsAsked has ancestors of both queues up to the common one. On the side of the victim each must be above its share. On the
// side of the waiting queue each must be within it.
func TestEveryLevelIsAsked(t *testing.T) {
	const deep = "top d12; east <top d6; west <top d6; x <east d6; y <west d6; a <x d6; b <y d6"
	play(t, []reclaimCase{
		{"all are above", "12", deep, "b 3 x4", "a 6", "b1 b2"},
		{"the queue itself is not", "12", "top d12; east <top d6; west <top d6; x <east d6; y <west d6; a <x d6; b <y d12", "b 3 x4", "a 6", "no"},
		{"its parent is not", "12", "top d12; east <top d6; west <top d6; x <east d6; y <west d12; a <x d6; b <y d6", "b 3 x4", "a 6", "no"},
		{"the level below the common one is not", "12", "top d18; east <top d6; west <top d12; x <east d6; y <west d6; a <x d6; b <y d6", "b 3 x4", "a 6", "no"},
		{"the common one does not matter", "12", "top d24; east <top d6; west <top d6; x <east d6; y <west d6; a <x d6; b <y d6", "b 3 x4", "a 6", "b1 b2"},
		{"the waiting queue is above", "12", deep, "b 3 x2; a 3 x2", "a 3", "no"},
		{"its parent would be above", "12", "top d12; east <top d6; west <top d6; x <east d3; y <west d6; a <x d6; b <y d6", "b 3 x4", "a 6", "no"},
		{"the level above that would be", "12", "top d12; east <top d3; west <top d6; x <east d6; y <west d6; a <x d6; b <y d6", "b 3 x4", "a 6", "no"},
		{"a queue without a parent from one of a department", "12", "a d6; org d6; b <org d6", "b 3 x4", "a 6", "b1 b2"},
		{"one of a department from a queue without a parent", "12", "b d6; org d6; a <org d6", "b 3 x4", "a 6", "b1 b2"},
	})
}
