package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhoMayTakeWhatIsKept: a claimant within its share is not kept out by a holder beyond its own. The amounts are cpu of a cluster of 32.
func TestWhoMayTakeWhatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		queues, running, holder, claimant string
		want                              bool
	}{
		"an owner of nearly all":                  {"tiny d1; big d30", "tiny 1", "tiny 30", "big 4", true},
		"all of its share":                        {"tiny d1; big d30", "tiny 1", "tiny 30", "big 30", true},
		"more than its share":                     {"tiny d1; big d30", "tiny 1", "tiny 30", "big 31", false},
		"what it uses counts":                     {"tiny d1; big d30", "tiny 1; big 28", "tiny 3", "big 3", false},
		"a holder within its share":               {"tiny d1; big d30", "", "tiny 1", "big 4", false},
		"a holder at its share, with what it has": {"tiny d1; big d30", "tiny 1", "tiny 1", "big 4", true},
		"the same queue":                          {"tiny d1; big d30", "tiny 1", "tiny 30", "tiny 1", false},
		"users of one queue":                      {"tiny d1; big d30", "tiny 1", "tiny/ann 30", "tiny/bob 1", false},
		"users of two":                            {"tiny d1; big d30", "tiny 1", "tiny/ann 30", "big/bob 1", true},
		"siblings":                                {"lab d8; a <lab d4; b <lab d4", "a 4", "a 4", "b 4", true},
		"siblings that borrow both":               {"lab d8; a <lab d4; b <lab d4", "a 4; b 4", "a 4", "b 4", false},
		"a whole branch that borrows":             {"lab d8; a <lab d4; b <lab d4; office d8", "a 4; b 4", "a 4", "office 8", true},
		"a branch that does not, though a child":  {"lab d16; a <lab d4; b <lab d12; office d8", "a 4", "a 4", "office 8", false},
		"a parent and its child":                  {"lab d8; a <lab d4", "a 4", "a 4", "lab 4", false},
		"another resource is beyond the share":    {"tiny d1 d4gpu; big d30", "tiny 1", "tiny 2gpu", "big 4", false},
		"a resource that only the holder wants":   {"tiny d1 d4gpu; big d30", "tiny 6gpu", "tiny 1 2gpu", "big 4", false},
		"no queue keeps it":                       {"big d30", "", "none 30", "big 4", false},
		"no queue asks":                           {"tiny d1", "tiny 1", "tiny 30", "none 4", false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := treeOf(t, c.queues)
			for _, u := range unitsOf(t, c.running) {
				tree.Add(u.Account, u.Requests)
			}
			holder, claimant := unitsOf(t, c.holder)[0], unitsOf(t, c.claimant)[0]
			shares := tree.ShareOut(listOf(t, "32", "8gpu"), nil)
			assert.Equal(t, c.want, tree.MayTake(shares, Claim{Queue: holder.Account, Want: holder.Requests}, Claim{Queue: claimant.Account, Want: claimant.Requests}))
		})
	}
}
