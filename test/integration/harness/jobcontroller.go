package harness

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/job"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// Requests counts what a program asks the API server. The zero value is ready.
type Requests struct {
	mu     sync.Mutex
	writes int64
	byPath map[string]int // method and path -> how often
}

// Writes is the number of requests that were no reads.
func (r *Requests) Writes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

// Of counts the requests, as method and path, that fit.
func (r *Requests) Of(fits func(request string) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for request, n := range r.byPath {
		if fits(request) {
			count += n
		}
	}
	return count
}

func (r *Requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		r.mu.Lock()
		if request.Method != http.MethodGet {
			r.writes++
		}
		if r.byPath == nil {
			r.byPath = map[string]int{}
		}
		r.byPath[request.Method+" "+request.URL.Path]++
		r.mu.Unlock()
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// JobController is a job controller in the tests' own process.
type JobController struct {
	// Requests of all that have run; their events come from another client and do not count.
	Requests Requests
	// Reports of the one that runs.
	Reports *worker.Reports
	// RestartBackoff of the next one that starts: the first pause of a Job that is restarted again and again. 0 is none.
	RestartBackoff time.Duration

	env  *Env
	ctx  context.Context
	stop func()
}

// StartJobController runs a job controller. Stop it with Stop.
func StartJobController(ctx context.Context, env *Env) *JobController {
	c := &JobController{env: env, ctx: ctx}
	c.stop = c.start()
	return c
}

// Env is where it runs.
func (c *JobController) Env() *Env { return c.env }

// Stop returns when the controller has ended.
func (c *JobController) Stop() { c.stop() }

// WhileDown stops the controller, lets something happen and starts another one, which knows only what the API server tells it.
func (c *JobController) WhileDown(happens func()) {
	c.stop()
	happens()
	c.stop = c.start()
}

func (c *JobController) start() (stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(batchv1alpha1.AddToScheme(scheme))
	utilruntime.Must(busv1alpha1.AddToScheme(scheme))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.env.Kube.CoreV1().Events("")})

	counted := rest.CopyConfig(c.env.Config)
	counted.Wrap(c.Requests.count)
	kube, muster := kubernetes.NewForConfigOrDie(counted), versioned.NewForConfigOrDie(counted)
	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	musterInformers := externalversions.NewSharedInformerFactory(muster, 0)
	c.Reports = worker.NewReports()
	controller := job.New(job.Config{
		Kube:                 kube,
		Muster:               muster,
		KubeInformers:        kubeInformers,
		MusterInformers:      musterInformers,
		RegisterMetrics:      metrics.NewKubeRegistry().MustRegister,
		Recorder:             broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "muster-controller"}),
		ServedSchedulerNames: []string{"muster", "volcano"},
		Reports:              c.Reports,
		RestartBackoff:       c.RestartBackoff,
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
