package podgroup

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAdmissionSideBySide: rounds, handlers and the writers of status work at the same time. PodGroups come, are replaced by others of
// their names, and go. In the end, all remaining PodGroups are admitted as far as there is room. No hold is kept for PodGroups that are
// gone, and the other holds are those of the admitted ones.
func TestAdmissionSideBySide(t *testing.T) {
	const names, room = 60, 40
	s := newStage(t)
	s.cache(mustertesting.MakeQueue("q").Capability("cpu", fmt.Sprint(room)).State(openState).Obj())
	groups := s.musterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore()
	handler := s.groupHandler()
	show := func(name, uid string) {
		group := mustertesting.MakePodGroup(name).UID(uid).Queue("q").MinMember(1).MinResources("cpu", "1").Obj()
		_ = s.muster.Tracker().Add(group) // exists already if it replaces one
		if old, exists, _ := groups.Get(group); exists {
			_ = groups.Update(group) // a store never fails
			s.usage.ReleaseHold("default", name, mustertesting.MakePodGroup(name).UID(name+"-0").Obj().UID)
			handler.OnUpdate(old, group)
			return
		}
		_ = groups.Add(group)
		handler.OnAdd(group, false)
	}
	gone := func(name string) {
		obj, exists, _ := groups.GetByKey("default/" + name)
		if exists {
			_ = groups.Delete(obj)
			handler.OnDelete(obj)
		}
	}
	round := func() {
		_, err := s.admission.Sync(t.Context(), allCandidates)
		assert.NoError(t, err)
	}
	var writers, rounds sync.WaitGroup
	stop := make(chan struct{})
	rounds.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				round()
			}
		}
	})
	for part := range 4 {
		writers.Go(func() {
			for i := part; i < names; i += 4 {
				name := fmt.Sprint("g", i)
				show(name, name+"-0")
				if i%3 > 0 {
					show(name, name+"-1")
				}
				if i%3 == 2 {
					gone(name)
				}
				_, _ = s.Sync(t.Context(), "default/"+name) // the API may have another of this name still
			}
		})
	}
	writers.Wait()
	close(stop)
	rounds.Wait()
	for i := range names {
		if i%3 == 2 {
			_, err := s.Sync(t.Context(), fmt.Sprint("default/g", i))
			require.NoError(t, err)
		}
	}
	round()

	admitted := 0
	for _, v := range s.admission.decisions {
		if v.Admitted {
			admitted++
		}
	}
	assert.Equal(t, names*2/3, admitted, "all that are left find room")
	assert.Empty(t, s.admission.waiting)
	assert.NotNil(t, s.usage.Ledger().Room("q", resources.List{"cpu": 1}), "all of it is held")
	assert.Len(t, s.admission.decisions, names*2/3)
}
