package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	phjobcontroller "github.com/muster-sched/muster/pkg/controllers/phjob"
	"github.com/muster-sched/muster/pkg/controllers/podgroup"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/phjob"
)

// jobSubmissionVariable switches PhJobs off if it is false. PrimeHub calls it so.
const jobSubmissionVariable = "PRIMEHUB_FEATURE_JOB_SUBMISSION"

// readPhJobSettings reads the configuration of PhJobs; nil if they are switched off.
func readPhJobSettings(path string) (*phjob.Config, error) {
	if value := os.Getenv(jobSubmissionVariable); value != "" {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%s is %q: it must be true or false", jobSubmissionVariable, value)
		}
		if !on {
			return nil, nil
		}
	}
	if path == "" {
		return phjob.DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--primehub-config: %w", err)
	}
	settings, err := phjob.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("--primehub-config %s: %w", path, err)
	}
	return settings, nil
}

// phJobKinds are what the cluster must serve for PhJobs.
var phJobKinds = []string{"phjobs", "phschedules", "images", "instancetypes"}

// servesPhJobs tells whether the API of PhJobs is installed.
func servesPhJobs(ctx context.Context, client discovery.DiscoveryInterface) (bool, error) {
	missing, err := firstMissing(ctx, client, primehubv1alpha1.SchemeGroupVersion, phJobKinds...)
	if err == nil && missing != "" {
		klog.FromContext(ctx).Info("PhJobs are off: their API is not installed. Apply manifests/crds and restart to switch them on", "missing", missing)
	}
	return err == nil && missing == "", err
}

// phJobControllers lead PhJobs and create the PhJobs of PhSchedules. Both are nil if they are off.
type phJobControllers struct {
	jobs      *phjobcontroller.Controller
	schedules *phjobcontroller.Schedules
}

// newPhJobs makes the controllers of PhJobs.
func newPhJobs(ctx context.Context, cfg *config, p *parts, used *usage.Tracker, reports *worker.Reports) (c phJobControllers, err error) {
	if cfg.phJobs == nil {
		klog.FromContext(ctx).Info("PhJobs are switched off", "by", jobSubmissionVariable)
		return c, nil
	}
	served, err := servesPhJobs(ctx, p.kube.Discovery())
	if err != nil || !served {
		return c, err
	}
	common := phjobcontroller.Config{
		Kube: p.kube, Muster: p.muster, KubeInformers: p.kubeInformers, MusterInformers: p.musterInformers,
		Usage: used, Recorder: p.recorder, Reports: reports, Settings: cfg.phJobs, SchedulerName: cfg.schedulerName,
		MayDelete: p.mayDelete,
	}
	if c.jobs, err = phjobcontroller.New(common); err != nil {
		return c, fmt.Errorf("setting up the phjob controller: %w", err)
	}
	if c.schedules, err = phjobcontroller.NewSchedules(common); err != nil {
		return c, fmt.Errorf("setting up the phschedule controller: %w", err)
	}
	return c, nil
}

// known is what the podgroup controller asks about PhJobs; nil if they are off.
func (c phJobControllers) known() podgroup.PhJobs {
	if c.jobs == nil {
		return nil
	}
	return c.jobs
}

// run lists what is to run.
func (c phJobControllers) run(syncs int) []controller {
	if c.jobs == nil {
		return nil
	}
	return []controller{func(ctx context.Context) { c.jobs.Run(ctx, syncs) }, c.schedules.Run}
}

// runAfter runs the podgroup controller as soon as the order of PhJobs is known.
func (c phJobControllers) runAfter(podGroups *podgroup.Controller, workers int) controller {
	return func(ctx context.Context) {
		if c.jobs == nil || c.jobs.WaitForSync(ctx) {
			podGroups.Run(ctx, workers)
		}
	}
}
