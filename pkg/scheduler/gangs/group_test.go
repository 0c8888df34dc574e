package gangs_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

func TestMembersThatAreAlikeShareTheirRequests(t *testing.T) {
	tr := openTracker(t)
	set := func(name, task, cpu string) { tr.SetPod(memberNamed(name).Task(task).Requests("cpu", cpu).Obj()) }
	requestsOf := func(name string) resources.List {
		_, m := tr.Find(types.UID(name))
		require.NotNil(t, m)
		return m.Requests
	}
	address := func(name string) uintptr { return reflect.ValueOf(requestsOf(name)).Pointer() }
	set("driver", "driver", "1")
	set("worker-0", "worker", "2")
	set("driver-1", "driver", "1")
	set("worker-1", "worker", "2")
	assert.Equal(t, address("worker-0"), address("worker-1"))
	assert.Equal(t, address("driver"), address("driver-1"))
	assert.NotEqual(t, address("driver"), address("worker-0"))

	set("worker-1", "worker", "3") // resized in place
	assert.Equal(t, "cpu=3, pods=1", requestsOf("worker-1").String())
	assert.Equal(t, "cpu=2, pods=1", requestsOf("worker-0").String())
	set("worker-0", "worker", "3")
	assert.Equal(t, address("worker-0"), address("worker-1"))
}

func TestRequestsAreReadAgainWhenTheSpecHasChanged(t *testing.T) {
	read := func(generation int64, old *gang.Member, cpu string) *gang.Member {
		pod := memberNamed("a").Requests("cpu", cpu).Obj()
		pod.Generation = generation
		return gang.MemberOf(pod, gangs.RequestsOf(pod, old))
	}
	first := read(1, nil, "1")
	assert.Equal(t, "cpu=1, pods=1", first.Requests.String())
	same := read(1, first, "1")
	assert.Equal(t, reflect.ValueOf(first.Requests).Pointer(), reflect.ValueOf(same.Requests).Pointer())
	assert.Equal(t, "cpu=2, pods=1", read(2, same, "2").Requests.String(), "resized in place")
	unnumbered := read(0, nil, "1")
	assert.Equal(t, "cpu=2, pods=1", read(0, unnumbered, "2").Requests.String(), "an API server that does not count changes")
}
