// Package plugins makes the plugins that a Job asks for. The file registry.go lists them, set.go puts the plugins of one Job together, and
// refresh.go compares wanted and existing objects. Each plugin has a folder of its own; the folder plugin has the contract.
package plugins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins/hcclrank"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// Set is the plugins of one Job, with the implied ones, for one generation of its spec. Making it costs time in proportion to the Job; its
// work for a pod does not. It may be used from several goroutines.
type Set struct {
	job     *batchv1alpha1.Job
	names   []string
	plugins []plugin.Plugin
	notes   []plugin.Note
}

// For makes the plugins of a Job. Errors say, by name, which plugins or arguments are wrong, or why the Job is too
// large for a plugin. There is no Set then. The Job need not have its defaults filled in; it must not change later.
func For(job *batchv1alpha1.Job) (*Set, field.ErrorList) { return makeSet(job, registry) }

func makeSet(job *batchv1alpha1.Job, known []entry) (*Set, field.ErrorList) {
	filled := defaults.Job(job, job.Spec.SchedulerName)
	s := &Set{job: filled}
	errs := unknownPlugins(filled, known)
	for _, one := range known {
		if _, asked := filled.Spec.Plugins[one.name]; !asked {
			continue
		}
		request := plugin.NewRequest(filled, one.name)
		made := one.make(request)
		wrong, notes := request.Findings()
		errs = append(errs, wrong...)
		s.notes = append(s.notes, notes...)
		s.names = append(s.names, one.name)
		if made != nil {
			s.plugins = append(s.plugins, made)
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return s, nil
}

// Names returns the names of all plugins, in the order in which they work.
func Names() []string { return namesOf(registry) }

func namesOf(known []entry) []string {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].name
	}
	return names
}

func unknownPlugins(job *batchv1alpha1.Job, known []entry) field.ErrorList {
	var errs field.ErrorList
	names := namesOf(known)
	for _, asked := range slices.Sorted(maps.Keys(job.Spec.Plugins)) {
		if !slices.Contains(names, asked) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "plugins").Key(asked), asked, fmt.Sprintf(
				"unable to find job plugin: %s; there are %s", asked, strings.Join(names, ", "))))
		}
	}
	return errs
}

// Notes returns what people should be told, once for each generation of the Job, as Warning events.
func (s *Set) Notes() []plugin.Note { return slices.Clone(s.notes) }

// ControlledResources returns the entries of status.controlledResources for the plugins.
func (s *Set) ControlledResources() map[string]string {
	entries := make(map[string]string, len(s.names))
	for _, name := range s.names {
		// Clients know no entry for hcclrank.
		if name != hcclrank.Name {
			entries["plugin-"+name] = name
		}
	}
	return entries
}

// HasObjects tells whether the Job needs objects beside its pods.
func (s *Set) HasObjects() bool {
	return slices.ContainsFunc(s.plugins, func(p plugin.Plugin) bool {
		_, makes := p.(plugin.ObjectMaker)
		return makes
	})
}

// Objects returns the objects that the Job needs, owned by it, in the order in which to apply them. secretData returns
// the data of the Job's own Secret with that name, nil if there is none. A Secret that exists keeps its key. The objects
// share parts with the Set, and are to be read only.
func (s *Set) Objects(secretData func(name string) map[string][]byte) ([]plugin.Object, error) {
	var all []plugin.Object
	for _, one := range s.plugins {
		maker, ok := one.(plugin.ObjectMaker)
		if !ok {
			continue
		}
		objects, err := maker.Objects(plugin.SecretsOf(secretData))
		if err != nil {
			return nil, fmt.Errorf("making objects for Job %s: %w", s.job.Name, err)
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		object.SetNamespace(s.job.Namespace)
		object.SetLabels(plugin.PodsOf(s.job))
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.job, jobKind)})
	}
	return all, nil
}

// jobKind is the kind that the objects name as their owner.
var jobKind = batchv1alpha1.SchemeGroupVersion.WithKind("Job")

// MutatePod completes the pod of a task's index before it is created. The pod has its name and a copy of its own of
// what the template says. Afterwards it may share parts with other pods, and is to be read only.
func (s *Set) MutatePod(pod *corev1.Pod, task *batchv1alpha1.TaskSpec, index int32) {
	for _, one := range s.plugins {
		one.MutatePod(pod, task, index)
	}
}
