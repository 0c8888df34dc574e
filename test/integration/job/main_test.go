// Package job_test runs the job controller against a real API server. There is no scheduler and no kubelet: the tests
// play those, and the podgroup controller, by what they write.
package job_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/job"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// What TestMain starts and all tests share; each test has a namespace of its own.
var (
	config *rest.Config
	kube   kubernetes.Interface
	muster versioned.Interface
	log    *watchlog.Log
)

// nowhere is the node that all pods are bound to. It does nothing.
const nowhere = "nowhere"

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "muster-job-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cluster, err := localcluster.Up(ctx, localcluster.Options{Dir: dir, ControlPlaneOnly: true})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = cluster.Down(context.Background()) }()
	if config, err = cluster.RESTConfig(); err != nil {
		return fail(err)
	}
	config.QPS, config.Burst = 500, 1000
	kube, muster = kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
	if log, err = watchlog.Start(ctx, kube, muster); err != nil {
		return fail(err)
	}
	// The pods' node. Without it kube-controller-manager would take its pods away after a while.
	node := mustertesting.MakeNode(nowhere).Obj()
	if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fail(err)
	}
	stop := startController(ctx)
	defer func() { stop() }()
	whileDown = func(happens func()) {
		stop()
		happens()
		stop = startController(ctx)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// whileDown stops the controller, lets something happen and starts another one, which knows only what the API server
// tells it.
var whileDown func(happens func())

// writes counts what the controller asks the API server to change, its events come from another client.
var writes counter

type counter struct{ requests atomic.Int64 }

func (c *counter) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			c.requests.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// startController runs a controller until the function that it returns is called; that one returns when it has ended.
func startController(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(batchv1alpha1.AddToScheme(scheme))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})

	counted := rest.CopyConfig(config)
	counted.Wrap(writes.count)
	kube, muster := kubernetes.NewForConfigOrDie(counted), versioned.NewForConfigOrDie(counted)
	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	musterInformers := externalversions.NewSharedInformerFactory(muster, 0)
	controller := job.New(job.Config{
		Kube:                 kube,
		Muster:               muster,
		KubeInformers:        kubeInformers,
		MusterInformers:      musterInformers,
		Recorder:             broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "muster-controller"}),
		ServedSchedulerNames: []string{"muster", "volcano"},
	})
	kubeInformers.Start(ctx.Done())
	musterInformers.Start(ctx.Done())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.Run(ctx, 4)
	}()
	return func() {
		cancel()
		<-ended
		kubeInformers.Shutdown()
		musterInformers.Shutdown()
		broadcaster.Shutdown()
	}
}
