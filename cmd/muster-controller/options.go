package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	apiserver "k8s.io/apiserver/pkg/server"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	configoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"

	"github.com/spf13/pflag"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/fence"
	"github.com/muster-sched/muster/pkg/history"
	"github.com/muster-sched/muster/pkg/phjob"
)

const (
	defaultSecurePort = 10268
	leaseNamespace    = "muster-system"
)

// options are the flags of the program.
type options struct {
	kubeconfig string
	master     string
	qps        float32
	burst      int

	schedulerName        string
	servedSchedulerNames []string
	adoptFrom            []string
	overcommitFactor     float64
	holdTimeout          time.Duration
	overtakeTime         time.Duration
	dependsOnCondition   string
	restartBackoff       time.Duration
	primehubConfig       string
	history              historyOptions

	jobSyncs      int
	podGroupSyncs int

	leaderElection componentbaseconfig.LeaderElectionConfiguration
	serving        *apiserveroptions.SecureServingOptionsWithLoopback
	authentication *apiserveroptions.DelegatingAuthenticationOptions
	authorization  *apiserveroptions.DelegatingAuthorizationOptions
	logs           *logsapi.LoggingConfiguration
	metrics        *metrics.Options
	profiling      bool
	featureGate    featuregate.MutableVersionedFeatureGate
}

// newOptions are the defaults.
func newOptions() *options {
	o := &options{
		qps:                  5000,
		burst:                10000,
		schedulerName:        "muster",
		servedSchedulerNames: []string{"muster", "volcano", "default-scheduler"},
		adoptFrom:            []string{"muster", "volcano"},
		overcommitFactor:     1.2,
		holdTimeout:          5 * time.Minute,
		overtakeTime:         10 * time.Minute,
		dependsOnCondition:   string(batchv1alpha1.DependencyCompleted),
		restartBackoff:       10 * time.Second,
		history:              historyOptions{maxSize: resource.MustParse("512Mi")},
		jobSyncs:             8,
		podGroupSyncs:        8,
		leaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      "leases",
			ResourceName:      programName,
			ResourceNamespace: leaseNamespace,
		},
		serving:        apiserveroptions.NewSecureServingOptions().WithLoopback(),
		authentication: apiserveroptions.NewDelegatingAuthenticationOptions(),
		authorization:  apiserveroptions.NewDelegatingAuthorizationOptions(),
		logs:           logs.NewOptions(),
		metrics:        metrics.NewOptions(),
		profiling:      true,
		featureGate:    featuregate.NewFeatureGate(),
	}
	o.serving.BindPort = defaultSecurePort
	o.serving.ServerCert.CertDirectory = "" // without a certificate in a flag, one is made in memory
	o.serving.ServerCert.PairName = programName
	o.authentication.TolerateInClusterLookupFailure = true
	o.authentication.RemoteKubeConfigFileOptional = true
	o.authorization.RemoteKubeConfigFileOptional = true
	utilruntime.Must(logsapi.AddFeatureGates(o.featureGate))
	return o
}

// flagSets are the flags by topic.
func (o *options) flagSets() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets
	o.addClientFlags(sets.FlagSet("client"))
	o.addControllerFlags(sets.FlagSet("controllers"))
	o.history.addFlags(sets.FlagSet("history"))
	configoptions.BindLeaderElectionFlags(&o.leaderElection, sets.FlagSet("leader election"))
	o.serving.AddFlags(sets.FlagSet("secure serving"))
	o.authentication.AddFlags(sets.FlagSet("authentication"))
	o.authorization.AddFlags(sets.FlagSet("authorization"))
	o.metrics.AddFlags(sets.FlagSet("metrics"))
	sets.FlagSet("metrics").BoolVar(&o.profiling, "profiling", o.profiling, "Serve profiles of the program at /debug/pprof/, to users who may read that path.")
	logsapi.AddFlags(o.logs, sets.FlagSet("logs"))
	o.featureGate.AddFlag(sets.FlagSet("logs"))
	return sets
}

func (o *options) addClientFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"Path to a kubeconfig file. Without it and without --master the program takes the service account of the pod it runs in.")
	fs.StringVar(&o.master, "master", o.master, "Address of the Kubernetes API server; overrides the one in the kubeconfig.")
	fs.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests per second to the API server that each client of the program may make in the long run.")
	fs.IntVar(&o.burst, "kube-api-burst", o.burst, "Requests to the API server that each client of the program may make at once.")
}

func (o *options) addControllerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.schedulerName, "scheduler-name", o.schedulerName, "Scheduler name of Jobs that name none.")
	fs.StringSliceVar(&o.servedSchedulerNames, "served-scheduler-names", o.servedSchedulerNames,
		"Names of the schedulers that hold gangs together. A Job that names another one gets an event that says so.")
	fs.StringSliceVar(&o.adoptFrom, "podgroup-scheduler-names", o.adoptFrom,
		"Names of the schedulers whose pods get a PodGroup made for them if they name none: one for each ReplicaSet, StatefulSet, Job "+
			"and the like, one for each bare pod. System-critical pods get none. Empty switches this off.")
	fs.Float64Var(&o.overcommitFactor, "overcommit-factor", o.overcommitFactor,
		"A PodGroup stays Pending while its minimum exceeds this factor times the allocatable resources of all nodes. Cordoned nodes count, too. "+
			"If its minResources include more than the minimum, what all queues use and keep counts with them. 0 switches the check off.")
	fs.DurationVar(&o.holdTimeout, "hold-timeout", o.holdTimeout,
		"How long a queue holds quota for a PodGroup that is admitted and cannot start. It stays admitted after that, but other PodGroups "+
			"may be admitted in its place. Quota for members beyond the minimum is held as long after the last member was bound. "+
			"0 holds the quota for as long as it waits.")
	fs.DurationVar(&o.overtakeTime, "max-overtake-time", o.overtakeTime,
		"How long other PodGroups may be admitted past one that lacks room in its queue. After that, quota that comes free there is kept "+
			"for it. 0 lets others pass for ever.")
	fs.StringVar(&o.dependsOnCondition, "depends-on-condition", o.dependsOnCondition,
		"When a task may start that depends on others, if its dependsOn does not say: Completed (they have completed), or Ready (their minimum runs and is ready) as in Volcano.")
	fs.DurationVar(&o.restartBackoff, "restart-backoff", o.restartBackoff,
		"How long a Job waits at its second restart in a row, or when its pods are evicted again. Each time the pause doubles, up "+
			"to 60 times as long. 0 restarts at once, whatever happens.")
	fs.StringVar(&o.primehubConfig, "primehub-config", o.primehubConfig, "File with the configuration of PhJobs, in YAML, under PrimeHub's names. "+
		"Without it all have their defaults. "+jobSubmissionVariable+"=false in the environment switches PhJobs off.")
	fs.IntVar(&o.jobSyncs, "concurrent-job-syncs", o.jobSyncs, "Number of Jobs, and of PhJobs, that are reconciled at the same time.")
	fs.IntVar(&o.podGroupSyncs, "concurrent-podgroup-syncs", o.podGroupSyncs, "Number of PodGroups whose status is written at the same time.")
}

// validate checks the values of the flags, each by itself and together.
func (o *options) validate() []error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.qps <= 0 {
		refuse("--kube-api-qps: %g must be greater than 0", o.qps)
	}
	if o.burst < 1 {
		refuse("--kube-api-burst: %d must be at least 1", o.burst)
	}
	if o.overcommitFactor < 0 {
		refuse("--overcommit-factor: %g must not be negative", o.overcommitFactor)
	}
	if o.holdTimeout < 0 {
		refuse("--hold-timeout: %s must not be negative", o.holdTimeout)
	}
	if o.overtakeTime < 0 {
		refuse("--max-overtake-time: %s must not be negative", o.overtakeTime)
	}
	if o.restartBackoff < 0 || o.restartBackoff > time.Hour {
		refuse("--restart-backoff: %s must be between 0s and 1h", o.restartBackoff)
	}
	switch batchv1alpha1.DependencyCondition(o.dependsOnCondition) {
	case batchv1alpha1.DependencyCompleted, batchv1alpha1.DependencyReady:
	default:
		refuse("--depends-on-condition: %q must be Completed or Ready", o.dependsOnCondition)
	}
	if o.jobSyncs < 1 {
		refuse("--concurrent-job-syncs: %d must be at least 1", o.jobSyncs)
	}
	if o.podGroupSyncs < 1 {
		refuse("--concurrent-podgroup-syncs: %d must be at least 1", o.podGroupSyncs)
	}
	errs = append(errs, validateSchedulerNames(o.schedulerName, o.servedSchedulerNames, o.adoptFrom)...)
	errs = append(errs, o.history.validate()...)
	errs = append(errs, validateLeaderElection(&o.leaderElection)...)
	errs = append(errs, o.serving.Validate()...)
	errs = append(errs, o.authentication.Validate()...)
	errs = append(errs, o.authorization.Validate()...)
	return append(errs, o.metrics.Validate()...)
}

func validateSchedulerNames(own string, served, adopted []string) []error {
	var errs []error
	for _, name := range slices.Concat([]string{own}, served, adopted) {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, fmt.Errorf("scheduler name %q: %s", name, problem))
		}
	}
	if !slices.Contains(served, own) {
		errs = append(errs, fmt.Errorf("--scheduler-name: %q must be one of --served-scheduler-names", own))
	}
	return errs
}

func validateLeaderElection(l *componentbaseconfig.LeaderElectionConfiguration) []error {
	if !l.LeaderElect {
		return nil
	}
	var errs []error
	if l.RetryPeriod.Duration <= 0 {
		errs = append(errs, errors.New("--leader-elect-retry-period: must be greater than 0"))
	}
	if l.RenewDeadline.Duration <= l.RetryPeriod.Duration {
		errs = append(errs, errors.New("--leader-elect-renew-deadline: must be greater than --leader-elect-retry-period"))
	}
	if l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		errs = append(errs, errors.New("--leader-elect-lease-duration: must be greater than --leader-elect-renew-deadline"))
	}
	if l.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock: %q is not supported, use \"leases\"", l.ResourceLock))
	}
	if l.ResourceName == "" || l.ResourceNamespace == "" {
		errs = append(errs, errors.New("--leader-elect-resource-name and --leader-elect-resource-namespace: must not be empty"))
	}
	return errs
}

// config is what the program runs with.
type config struct {
	*options
	client         *rest.Config
	fence          *fence.Fence                 // nil without leader election
	phJobs         *phjob.Config                // nil when PhJobs are switched off
	records        *history.Store               // nil without a folder for the history
	serving        *apiserver.SecureServingInfo // nil when the port is 0
	authentication apiserver.AuthenticationInfo
	authorization  apiserver.AuthorizationInfo
}

// complete turns the flags into what the program runs with.
func (o *options) complete() (*config, error) {
	client, err := clientcmd.BuildConfigFromFlags(o.master, o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	client.QPS, client.Burst = o.qps, o.burst
	// As in the upstream components: the API server is near, and would pack each event of a watch by itself.
	client.DisableCompression = true
	rest.AddUserAgent(client, programName)
	cfg := &config{options: o, client: client}
	if o.leaderElection.LeaderElect {
		cfg.fence = fence.New(o.leaderElection.RenewDeadline.Duration)
		client.Wrap(cfg.fence.Wrap)
	}
	cfg.records = o.history.store()
	if cfg.phJobs, err = readPhJobSettings(o.primehubConfig); err != nil {
		return nil, err
	}

	o.applyMetrics()
	if err := o.serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	var loopback *rest.Config
	if err := o.serving.ApplyTo(&cfg.serving, &loopback); err != nil {
		return nil, fmt.Errorf("opening the secure port: %w", err)
	}
	if cfg.serving == nil {
		return cfg, nil
	}
	if o.authentication.RemoteKubeConfigFile == "" {
		o.authentication.RemoteKubeConfigFile = o.kubeconfig
	}
	if o.authorization.RemoteKubeConfigFile == "" {
		o.authorization.RemoteKubeConfigFile = o.kubeconfig
	}
	if err := o.authentication.ApplyTo(&cfg.authentication, cfg.serving, nil); err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}
	if err := o.authorization.ApplyTo(&cfg.authorization); err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}
	return cfg, nil
}

// applyMetrics applies the flags about metrics, which are global to the process. An allow list that no flag gave must not be applied: it
// would be reported as an error.
func (o *options) applyMetrics() {
	if o.metrics.AllowListMapping != nil || o.metrics.AllowListMappingManifest != "" {
		o.metrics.Apply()
		return
	}
	if o.metrics.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(o.metrics.DisabledMetrics)
}
