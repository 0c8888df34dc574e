package topology

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestLabelsInUse are those of levels and of all selectors.
func TestLabelsInUse(t *testing.T) {
	selector := func(text string) labels.Selector {
		parsed, err := labels.Parse(text)
		require.NoError(t, err)
		return parsed
	}
	hyperNodes := []HyperNode{{Members: []Member{{Type: NodeMember, Exact: "n"}, {Type: NodeMember, Labels: selector("pod=1,!old")}, {Type: NodeMember, Labels: labels.Nothing()}}}}
	lists := []Labels{{Levels: []Level{{Key: "block"}, {Key: "rack"}}}, {Selector: selector("cloud in (a, b)"), Levels: []Level{{Key: "rack"}}}}
	assert.Equal(t, sets.New("pod", "old", "block", "rack", "cloud"), LabelsInUse(hyperNodes, lists))
	assert.Empty(t, LabelsInUse(nil, nil))
}
