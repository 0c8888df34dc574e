package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestObjectsOfOneNameAreToldApart: with the upstream handlers the scheduler ended itself when a bound pod had been deleted and
// created anew while the API server was away.
func TestObjectsOfOneNameAreToldApart(t *testing.T) {
	var told []string
	tell := func(what string, obj any) { told = append(told, what+" "+string(obj.(metav1.Object).GetUID())) }
	h := TellApart(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			assert.False(t, initial, "it is news")
			tell("add", obj)
		},
		UpdateFunc: func(_, obj any) { tell("update", obj) },
		DeleteFunc: func(obj any) { tell("delete", obj) },
	})
	for name, object := range map[string]func(uid string) any{
		"pods":      func(uid string) any { return mustertesting.MakePod("p").UID(uid).Obj() },
		"PodGroups": func(uid string) any { return mustertesting.MakePodGroup("g").UID(uid).Obj() },
	} {
		told = nil
		h.OnUpdate(object("a"), object("a"))
		h.OnUpdate(object("a"), object("b"))
		assert.Equal(t, []string{"update a", "delete a", "add b"}, told, name)
	}
}
