package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// createDeviceClass makes a device class named like the namespace. Its devices belong to a driver of that name.
func (w *world) createDeviceClass() {
	w.t.Helper()
	_, err := kube.ResourceV1().DeviceClasses().Create(w.ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", w.namespace)},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// addDeviceForAll publishes one device that can be had from every node.
func (w *world) addDeviceForAll() {
	w.t.Helper()
	everywhere := true
	_, err := kube.ResourceV1().ResourceSlices().Create(w.ctx, &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: w.namespace, AllNodes: &everywhere, Pool: resourcev1.ResourcePool{Name: w.namespace, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "device"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// addDevices publishes n devices on a node.
func (w *world) addDevices(node, n int) {
	w.t.Helper()
	name := fmt.Sprintf("%s-%d", w.namespace, node)
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: w.namespace, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	_, err := kube.ResourceV1().ResourceSlices().Create(w.ctx, slice, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) oneDevice() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: w.namespace},
	}}}}
}

// claimTemplate has each pod get a claim of its own on one device.
func (w *world) claimTemplate() func(*corev1.Pod) {
	w.t.Helper()
	name := "device"
	_, err := kube.ResourceV1().ResourceClaimTemplates(w.namespace).Create(w.ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: w.oneDevice()},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return func(p *corev1.Pod) {
		cpu("100m")(p)
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: &name}}
	}
}

func TestGangWakesWhenDevicesComeAndWhenClaimsAreFreed(t *testing.T) {
	w := newQuietWorld(t, 3)
	w.createDeviceClass()
	withDevice := w.claimTemplate()
	w.addDevices(0, 1)
	w.addDevices(1, 1)
	w.createGroup("g", 3, "")
	w.createGang("g", 3, withDevice)
	// One node has CPU for all, and the first pod would find a device on it. The decision must see that the other pods do not.
	w.expectHeld("g", "room for 2 of the 3 members that start together")
	w.addDevices(2, 2)
	w.expectBound("g", 3)

	w.createGroup("h", 2, "")
	w.createGang("h", 2, withDevice)
	w.expectHeld("h", "room for 1 of the 2 members that start together")
	w.remove("g-0")
	w.expectBound("h", 2)
}

// On a large cluster a small gang is planned on a few nodes first. A device that each member could have by itself must not be
// promised to all of them there either.
func TestGangThatLacksDevicesIsPromisedNoneOnALargeCluster(t *testing.T) {
	const nodes = 130
	w := newQuietWorld(t, nodes)
	w.createDeviceClass()
	withDevice := w.claimTemplate()
	w.addDeviceForAll()
	before := w.metric(rolledBack)
	w.createGroup("g", 2, "")
	w.createGang("g", 2, withDevice)
	w.expectHeld("g", "room for 1 of the 2 members that start together")
	require.Equal(t, before, w.metric(rolledBack), "gangs that were promised what they could not have")
}

const rolledBack = `muster_gang_attempts_total{result="rolled_back"}`

// metric is the value of one of the scheduler's metrics, "" if it has none yet.
func (w *world) metric(name string) string {
	w.t.Helper()
	page, err := cluster.Get(w.ctx, localcluster.MusterScheduler, "/metrics")
	require.NoError(w.t, err)
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestGangOfPodsWithNamedClaimsWakesWhenAClaimComes(t *testing.T) {
	w := newQuietWorld(t, 1)
	w.createDeviceClass()
	w.addDevices(0, 2)
	w.createGroup("g", 2, "")
	for i := range 2 {
		name := fmt.Sprintf("g-%d", i)
		if i == 0 {
			w.createClaim(name)
		}
		w.create(w.pod(name, "g", cpu("100m"), func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
		}))
	}
	// Upstream holds the pod at the gate, without a report.
	require.Never(t, func() bool { return w.bound("g") > 0 }, quiet, quiet/10, "a gang of which one member has no claim")
	w.createClaim("g-1")
	w.expectBound("g", 2)
}

func (w *world) createClaim(name string) {
	w.t.Helper()
	_, err := kube.ResourceV1().ResourceClaims(w.namespace).Create(w.ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: w.oneDevice(),
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func TestGangOfPodsThatGetDevicesAsAResource(t *testing.T) {
	w := newQuietWorld(t, 2)
	resourceName := "example.com/" + w.namespace[len(w.namespace)-10:]
	_, err := kube.ResourceV1().DeviceClasses().Create(w.ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: &resourceName,
			Selectors: []resourcev1.DeviceSelector{{
				CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", w.namespace)},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.addDevices(0, 1)
	w.createGroup("g", 2, "")
	w.createGang("g", 2, cpu("100m"), func(p *corev1.Pod) {
		one := resource.MustParse("1")
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(resourceName)] = one
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(resourceName): one}
	})
	w.expectHeld("g", "room for 1 of the 2 members that start together")
	w.addDevices(1, 1)
	w.expectBound("g", 2)
}

// Upstream allocates a claim when its first pod is bound, and lets no other pod have it before. So members of a minimum that share one
// cannot all hold their room first. Their conditions say so, and they cost nothing until the claim is allocated.
func TestGangThatSharesAClaimIsToldWhyItWaits(t *testing.T) {
	w := newQuietWorld(t, 1)
	w.createDeviceClass()
	w.addDevices(0, 1)
	w.createClaim("shared")
	name := "shared"
	share := func(p *corev1.Pod) {
		cpu("100m")(p)
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
	w.createGroup("g", 2, "")
	w.createGang("g", 2, share)
	w.expectHeld("g", "room for 1 of the 2 members that start together", "shared is in the process of being allocated")
	w.create(w.pod("first", "", share))
	w.expectBound("first", 1)
	w.expectBound("g", 2)
}
