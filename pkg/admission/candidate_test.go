package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stretchr/testify/assert"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestGroupOf(t *testing.T) {
	assert.Equal(t, "default/g", PodGroupOf(mustertesting.MakePod("p").Group("g").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Obj()))
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g").NativeGroup("native").Obj()), "it is the native plugin's")
	assert.Empty(t, PodGroupOf(mustertesting.MakePod("p").Group("g/x").Obj()), "no PodGroup can be called that")
}

func TestWaitingTime(t *testing.T) {
	for _, name := range []string{"volcano.sh/sla-waiting-time", "sla-waiting-time"} {
		group := mustertesting.MakePodGroup("g").Obj()
		wait, err := WaitingTime(group)
		require.NoError(t, err)
		assert.Zero(t, wait)
		group.Annotations = map[string]string{name: "1h2m3s"}
		wait, err = WaitingTime(group)
		require.NoError(t, err)
		assert.Equal(t, time.Hour+2*time.Minute+3*time.Second, wait)
		for _, text := range []string{"", "soon", "0s", "-1h", "30"} {
			group.Annotations[name] = text
			_, err = WaitingTime(group)
			require.ErrorContains(t, err, "annotation "+name+" is ", text)
			require.ErrorContains(t, err, `it must be a duration above 0, such as "1h30m"`)
		}
	}
	both := mustertesting.MakePodGroup("g").Obj()
	both.Annotations = map[string]string{"sla-waiting-time": "1h", "volcano.sh/sla-waiting-time": "2h"}
	wait, _ := WaitingTime(both)
	assert.Equal(t, 2*time.Hour, wait)
}
