package upstream

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// podNamed is a pod of a name, with a UID.
func podNamed(name, uid string) *corev1.Pod {
	return mustertesting.MakePod(name).Namespace("ns").UID(uid).Obj()
}

// calls writes down what a handler is told.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) handler() cache.ResourceEventHandler {
	add := func(what string, obj any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, what+" "+string(obj.(*corev1.Pod).UID))
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { add("add", obj) }, UpdateFunc: func(_, obj any) { add("update", obj) }, DeleteFunc: func(obj any) { add("delete", obj) },
	}
}

func (c *calls) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// TestPodsOfOneNameAreToldApart: a pod that has taken the place of another of its name arrives as a deletion and an addition.
func TestPodsOfOneNameAreToldApart(t *testing.T) {
	var c calls
	handler := TellApart(c.handler())
	handler.OnUpdate(podNamed("p", "old"), podNamed("p", "new"))
	handler.OnUpdate(podNamed("p", "new"), podNamed("p", "new"))
	assert.Equal(t, []string{"delete old", "add new", "update new"}, c.seen())
}

// recorder stands for an informer, and keeps the handlers that are added to it.
type recorder struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (r *recorder) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r.handlers = append(r.handlers, h)
	return nil, nil
}

func (r *recorder) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return r.AddEventHandler(h)
}

func (r *recorder) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return r.AddEventHandler(h)
}

// TestEachMethodThatTakesAHandlerWrapsIt fails when client-go gets another way to add handlers: the wrapper must wrap it, too.
func TestEachMethodThatTakesAHandlerWrapsIt(t *testing.T) {
	informer, handler := reflect.TypeFor[cache.SharedIndexInformer](), reflect.TypeFor[cache.ResourceEventHandler]()
	var methods []string
	for i := range informer.NumMethod() {
		method := informer.Method(i)
		takesHandler := false
		arguments := []reflect.Value{}
		for j := range method.Type.NumIn() {
			if in := method.Type.In(j); in == handler {
				takesHandler = true
				arguments = append(arguments, reflect.ValueOf((&calls{}).handler()))
			} else {
				arguments = append(arguments, reflect.Zero(in))
			}
		}
		if !takesHandler {
			continue
		}
		methods = append(methods, method.Name)
		own := &recorder{}
		reflect.ValueOf(podInformer{own}).MethodByName(method.Name).Call(arguments)
		if assert.Len(t, own.handlers, 1, method.Name) {
			assert.IsType(t, apart{}, own.handlers[0], method.Name)
		}
	}
	assert.Equal(t, []string{"AddEventHandler", "AddEventHandlerWithOptions", "AddEventHandlerWithResyncPeriod"}, methods)
}

// TestTheSchedulersPodsComeFromOneInformer: all that ask the factory for pods share the informer that tells them apart.
func TestTheSchedulersPodsComeFromOneInformer(t *testing.T) {
	client := fake.NewClientset()
	own := scheduler.NewInformerFactory(client, 0, nil)
	factory := TellPodsApart(own, client, nil)
	assert.IsType(t, podInformer{}, factory.InformerFor(&corev1.Pod{}, nil))
	require.NoError(t, own.Core().V1().Pods().Informer().GetStore().Add(podNamed("p", "p")))
	_, err := factory.Core().V1().Pods().Lister().Pods("ns").Get("p")
	require.NoError(t, err)
}

// TestAReplacedPodArrivesAsDeletionAndAddition at a handler of the factory. At one of upstream's own it arrives as an update, which is why
// we wrap handlers. If the second changes, TellPodsApart may go.
func TestAReplacedPodArrivesAsDeletionAndAddition(t *testing.T) {
	for name, test := range map[string]struct {
		wrap bool
		want []string
	}{
		"ours":       {true, []string{"add old", "delete old", "add new"}},
		"upstream's": {false, []string{"add old", "update new"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(podNamed("p", "old"))
			factory := scheduler.NewInformerFactory(client, 0, nil)
			if test.wrap {
				factory = TellPodsApart(factory, client, nil)
			}
			var c calls
			registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(c.handler())
			require.NoError(t, err)
			factory.Start(t.Context().Done())
			require.True(t, cache.WaitForCacheSync(t.Context().Done(), registration.HasSynced))
			// The watch shows the new pod alone, as after a time without a connection.
			replaced := podNamed("p", "new")
			require.NoError(t, client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), replaced, "ns"))
			require.Eventually(t, func() bool { return len(c.seen()) == len(test.want) }, mustertesting.Timeout, time.Millisecond)
			assert.Equal(t, test.want, c.seen())
		})
	}
}
