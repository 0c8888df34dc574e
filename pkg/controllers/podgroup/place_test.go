package podgroup

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/muster-sched/muster/pkg/admission"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// Bounds of the writes of places (pkg/admission).
const (
	placesPeriod    = admission.PlacesPeriod
	placesPerPeriod = 100
	exactPlaces     = admission.ExactPlaces
	messageAge      = time.Minute
	farAge          = 10 * time.Minute
)

// places is an admission whose rounds a test makes, with a clock of its own. Written are the keys that were to be written last.
type places struct {
	*admissions
	t       *testing.T
	clock   *testingclock.FakeClock
	written []string
}

func newPlaces(t *testing.T, queues ...*mustertesting.QueueWrapper) *places {
	kube := informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0)
	muster := musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0)
	used, err := usage.New(kube, muster)
	require.NoError(t, err)
	p := &places{t: t, clock: testingclock.NewFakeClock(time.Unix(100_000, 0))}
	c, err := New(Config{KubeInformers: kube, MusterInformers: muster, Usage: used, Recorder: record.NewFakeRecorder(10), Clock: p.clock})
	require.NoError(t, err)
	p.admissions = c.admission
	p.placed = func(key string) { p.written = append(p.written, key) }
	for _, wrapper := range queues {
		queue := wrapper.State(schedulingv1beta1.QueueStateOpen).Obj()
		require.NoError(t, muster.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
		used.Ledger().SetQueue(queue)
	}
	p.cluster.Set(mustertesting.MakeNode("n").Allocatable("cpu", "40", "pods", "1000").Obj())
	return p
}

// add adds a PodGroup that was created so long ago.
func (p *places) add(name, queue string, phase schedulingv1beta1.PodGroupPhase, age time.Duration) {
	p.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace("ns-of-"+name).UID(name).Queue(queue).MinMember(1).MinResources("cpu", "6").
		Phase(phase).Created(p.clock.Now().Add(-age)).Obj()
	require.NoError(p.t, p.groups.Add(group))
	p.observe(group)
}

// start removes a PodGroup: it waits no more.
func (p *places) start(name string) {
	p.t.Helper()
	obj, exists, err := p.groups.GetByKey("ns-of-" + name + "/" + name)
	require.NoError(p.t, err)
	require.True(p.t, exists)
	require.NoError(p.t, p.groups.Delete(obj))
	p.lose("ns-of-" + name + "/" + name)
}

// writes looks at the places and returns what is to be written.
func (p *places) writes() []string {
	p.written = nil
	p.findPlaces()
	return p.written
}

func (p *places) of(name string) *schedulingv1beta1.PodGroupPlace {
	if found := p.place("ns-of-"+name+"/"+name, types.UID(name)); found != nil {
		return &found.PodGroupPlace
	}
	return nil
}

// TestAPlaceSaysWhatTheQueueLacks (issue 44, 1): the position, the limit that is short, the share and what others borrow in sum. It names
// nothing of other namespaces.
func TestAPlaceSaysWhatTheQueueLacks(t *testing.T) {
	p := newPlaces(t, mustertesting.MakeQueue("root"), mustertesting.MakeQueue("dept").Parent("root").Deserved("cpu", "30").Capability("cpu", "30"),
		mustertesting.MakeQueue("team").Parent("dept").Deserved("cpu", "20"), mustertesting.MakeQueue("greedy").Parent("dept").Deserved("cpu", "10"),
		mustertesting.MakeQueue("lab").Parent("root").Deserved("cpu", "10"))
	books := p.tracker.Ledger()
	books.Charge("1", "team", resources.List{corev1.ResourceCPU: 8_000})
	books.Charge("2", "greedy", resources.List{corev1.ResourceCPU: 17_000})
	books.Charge("3", "lab", resources.List{corev1.ResourceCPU: 13_000})
	p.add("starts", "team", schedulingv1beta1.PodGroupInqueue, time.Minute)
	p.add("old", "team", schedulingv1beta1.PodGroupPending, time.Hour)
	p.add("young", "team", schedulingv1beta1.PodGroupPending, 2*placesPeriod)
	p.add("new", "team", schedulingv1beta1.PodGroupPending, placesPeriod/2)
	p.add("runs", "team", schedulingv1beta1.PodGroupRunning, time.Hour)

	assert.Equal(t, []string{"ns-of-starts/starts", "ns-of-old/old", "ns-of-young/young"}, p.writes())
	place := p.of("young")
	assert.EqualValues(t, 3, place.Position, "the one that is admitted comes first, then the older one")
	said, err := json.Marshal(place)
	require.NoError(t, err)
	assert.JSONEq(t, `{"position": 3, "foundAt": "1970-01-02T03:46:40Z",
		"short": {"queue": "dept", "resource": "cpu", "limit": "30", "free": "5", "asked": "6", "missing": "1"},
		"shares": [{"resource": "cpu", "used": "8", "share": "20", "borrowedByOthers": "10"}]}`, string(said))
	assert.Nil(t, p.of("new"), "most PodGroups start at once")
	assert.Nil(t, p.of("runs"))
}

// TestThousandsOfPlacesCostFewWrites (issue 44, 1): a start moves all that wait by one. A few positions are written for it.
func TestThousandsOfPlacesCostFewWrites(t *testing.T) {
	const waiting = 3000
	p := newPlaces(t, mustertesting.MakeQueue("root"), mustertesting.MakeQueue("team").Parent("root").Capability("cpu", "5"))
	for i := range waiting {
		p.add(fmt.Sprintf("g%04d", i), "team", schedulingv1beta1.PodGroupPending, time.Hour-time.Duration(i)*time.Second)
	}
	rounds, written := 0, 0
	for ; ; rounds++ {
		n := len(p.writes())
		if n == 0 {
			break
		}
		require.LessOrEqual(t, n, placesPerPeriod)
		written += n
	}
	assert.Equal(t, waiting, written, "each gets its place once")
	assert.Equal(t, waiting/placesPerPeriod, rounds)

	p.start("g0000")
	// The first ten, and one at each of 20, 50, 100, 200, 500, 1000 and 2000.
	assert.Len(t, p.writes(), exactPlaces+7)
	assert.EqualValues(t, 1, p.of("g0001").Position)
	assert.EqualValues(t, 20, p.of("g0020").Position)
	assert.Empty(t, p.writes())

	// Old amounts that still hold are not written, nor is another time alone.
	p.clock.Step(2 * farAge)
	assert.Empty(t, p.writes())
	p.tracker.Ledger().Charge("1", "team", resources.List{corev1.ResourceCPU: 1_000})
	p.clock.Step(messageAge)
	assert.Len(t, p.writes(), exactPlaces, "the first ones learn of other amounts after a minute")
	p.clock.Step(farAge)
	assert.Len(t, p.writes(), placesPerPeriod, "the others after ten minutes, so many at a time")
}

// TestARestartWritesNoPlaces: the status of each PodGroup has its place already.
func TestARestartWritesNoPlaces(t *testing.T) {
	p := newPlaces(t, mustertesting.MakeQueue("root"), mustertesting.MakeQueue("team").Parent("root").Capability("cpu", "5"))
	p.add("g", "team", schedulingv1beta1.PodGroupPending, time.Hour)
	require.Len(t, p.writes(), 1)
	written := p.of("g")

	after := newPlaces(t, mustertesting.MakeQueue("root"), mustertesting.MakeQueue("team").Parent("root").Capability("cpu", "5"))
	after.add("g", "team", schedulingv1beta1.PodGroupPending, time.Hour)
	obj, _, err := after.groups.GetByKey("ns-of-g/g")
	require.NoError(t, err)
	obj.(*schedulingv1beta1.PodGroup).Status.Place = written
	assert.Empty(t, after.writes())
}
